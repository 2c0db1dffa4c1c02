// Packs items with sizes and lifetimes into one arena: several orders, then a search, stopping at the lower bound.
#include "plan/pack.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "plan/placer.h"
#include "plan/search.h"

namespace forethought::planning {
namespace {

// Pairs of conflicting items worth listing: beyond, a scan over all placed items is as fast as sorting a list.
int64_t most_pairs(size_t n, Effort effort) {
  constexpr int64_t kAtLoad = 4'000'000, kAnItemAtReplan = 12;
  return effort == Effort::load ? kAtLoad : kAnItemAtReplan * static_cast<int64_t>(n);
}
constexpr int64_t kReplanWorkAnItem = 200;  // when this is spent, a re-plan tries no more orders

template <typename Key>
std::vector<int32_t> order_by(size_t n, Key key) {
  std::vector<std::pair<decltype(key(0)), int32_t>> keyed(n);
  for (size_t i = 0; i < n; ++i) keyed[i] = {key(static_cast<int32_t>(i)), static_cast<int32_t>(i)};
  std::sort(keyed.begin(), keyed.end());
  std::vector<int32_t> order(n);
  for (size_t i = 0; i < n; ++i) order[i] = keyed[i].second;
  return order;
}

// A dead slot that is large enough, the smallest such, takes the whole item; else a new slot of its size.
Packing share_slots(const PackProblem& p, const std::vector<int32_t>& by_birth) {
  struct Slot {
    int64_t offset, size;
    int32_t tenant;
  };
  std::vector<Slot> slots;
  std::vector<int32_t> slot_of(p.items.size());
  Packing packing{std::vector<int64_t>(p.items.size()), 0};
  std::set<std::pair<int64_t, int32_t>> dead;      // by size; one lane only
  std::vector<std::pair<int32_t, int32_t>> dying;  // a heap of (last step, slot)
  const auto later = std::greater<std::pair<int32_t, int32_t>>();
  for (const int32_t i : by_birth) {
    const PackItem& item = p.items[i];
    int32_t found = kNoId;
    if (p.lanes == 1) {
      while (!dying.empty() && dying.front().first < item.first) {
        std::pop_heap(dying.begin(), dying.end(), later);
        dead.emplace(slots[dying.back().second].size, dying.back().second);
        dying.pop_back();
      }
      auto it = dead.lower_bound({item.size, 0});
      while (it != dead.end() && slots[it->second].offset % item.alignment != 0) ++it;
      if (it != dead.end()) found = it->second, dead.erase(it);
    } else {
      for (size_t s = 0; s < slots.size(); ++s) {
        const bool fits = slots[s].size >= item.size && slots[s].offset % item.alignment == 0;
        if (fits && (found == kNoId || slots[s].size < slots[found].size) && p.over_before(slots[s].tenant, i)) {
          found = static_cast<int32_t>(s);
        }
      }
    }
    if (found == kNoId) {
      found = static_cast<int32_t>(slots.size());
      const int64_t a = item.alignment, offset = (packing.height + a - 1) / a * a;
      slots.push_back({offset, item.size, i});
      packing.height = offset + item.size;
    }
    slots[found].tenant = i;
    packing.offsets[i] = slots[found].offset;
    if (p.lanes == 1) {
      dying.emplace_back(item.last, found);
      std::push_heap(dying.begin(), dying.end(), later);
    }
  }
  return packing;
}

// Long-lived items from below in order of their deaths, so that space is freed from the top; the others from above.
// Tries several limits between long and short. Returns true at the lower bound.
bool try_both_ends(const PackProblem& p, Placer& placer, const std::vector<int32_t>& by_death,
                   std::vector<SearchStart>& starts, Packing& best) {
  const size_t n = p.items.size();
  std::vector<int64_t> offsets(n);
  const auto by_size = order_by(n, [&](int32_t i) { return -p.items[i].size; });
  for (int32_t limit = 4; limit <= 512; limit *= 2) {
    SearchStart start{{}, {std::vector<uint8_t>(n), p.lower_bound}, 0};
    for (size_t i = 0; i < n; ++i) start.tops.is_top[i] = p.items[i].last - p.items[i].first < limit;
    for (const int32_t i : by_death) {
      if (!start.tops.is_top[i]) start.order.push_back(i);
    }
    for (const int32_t i : by_size) {
      if (start.tops.is_top[i]) start.order.push_back(i);
    }
    start.height = placer.place(start.order, 0, Fit::lowest, INT64_MAX, offsets, start.tops);
    if (start.height < best.height) {
      best.height = start.height;
      best.offsets = offsets;
    }
    starts.push_back(std::move(start));
    if (best.height <= p.lower_bound) return true;
  }
  return false;
}

}  // namespace

Packing pack(const PackProblem& p, Effort effort) {
  const size_t n = p.items.size();
  const auto& items = p.items;
  Packing best;
  if (n == 0) return best;
  best.height = INT64_MAX;
  std::vector<int64_t> offsets(n);
  Placer placer(p, most_pairs(n, effort));
  std::vector<SearchStart> starts;

  const auto done = [&] { return best.height <= p.lower_bound; };
  const auto attempt = [&](std::vector<int32_t> order, Fit fit) {
    const int64_t height = placer.place(order, 0, fit, best.height, offsets);
    if (height < best.height) {
      best.height = height;
      best.offsets = offsets;
    }
    if (fit == Fit::lowest) starts.push_back({std::move(order), {}, height});
    return done();
  };
  const auto span = [&](int32_t i) { return int64_t{items[i].last} - items[i].first + 1; };

  if (attempt(order_by(n, [&](int32_t i) { return -items[i].size; }), Fit::lowest)) return best;
  const auto by_birth = order_by(n, [&](int32_t i) { return items[i].first; });
  if (attempt(by_birth, Fit::tightest)) return best;
  if (Packing slots = share_slots(p, by_birth); slots.height < best.height) best = std::move(slots);
  if (done()) return best;
  const auto spent = [&] {
    return effort == Effort::replan && placer.work() > kReplanWorkAnItem * static_cast<int64_t>(n);
  };
  if (spent()) return best;
  using Keys = std::pair<int64_t, int64_t>;
  if (attempt(order_by(n, [&](int32_t i) { return Keys(-items[i].size, -span(i)); }), Fit::lowest)) return best;
  if (spent()) return best;
  const auto area = [&](int32_t i) { return -static_cast<double>(items[i].size) * static_cast<double>(span(i)); };
  if (attempt(order_by(n, area), Fit::lowest)) return best;
  if (effort == Effort::replan) return best;
  if (attempt(order_by(n, [&](int32_t i) { return Keys(-placer.degree(i), -items[i].size); }), Fit::lowest))
    return best;
  if (attempt(order_by(n, [&](int32_t i) { return Keys(-span(i), -items[i].size); }), Fit::lowest)) return best;
  if (attempt(by_birth, Fit::lowest)) return best;
  if (!placer.has_conflicts()) return best;
  const auto by_death = order_by(n, [&](int32_t i) { return Keys(-items[i].last, -items[i].size); });
  if (attempt(by_death, Fit::lowest)) return best;
  if (try_both_ends(p, placer, by_death, starts, best)) return best;
  search(p, placer, starts, best);
  return best;
}

}  // namespace forethought::planning
