// Packs items with sizes and lifetimes into one arena: several orders, then a search, stopping at the lower bound.
#include "plan/pack.h"

#include <algorithm>
#include <numeric>

#include "plan/exact.h"
#include "plan/placer.h"
#include "plan/regions.h"
#include "plan/search.h"
#include "plan/slots.h"

namespace forethought::planning {
namespace {

// Pairs of conflicting items worth listing: at load for the search, in a re-plan for fast placing.
int64_t most_pairs(size_t n, Effort effort) {
  constexpr int64_t kAtLoad = 4'000'000;
  return effort != Effort::replan ? kAtLoad : Placer::kDense * static_cast<int64_t>(n);
}

// What may be spent on orders and on climbing, in the units of Placer::work(): about 200 ms at most at load, less for
// small problems, and a fraction of a microsecond an item in a re-plan. The plain rules are tried in any case.
int64_t work_for(size_t n, Effort effort) {
  constexpr int64_t kAtLoad = 50'000'000, kAnItemAtLoad = 200'000, kAnItemAtReplan = 200;
  const int64_t items = static_cast<int64_t>(n);
  return effort != Effort::replan ? std::min(kAtLoad, kAnItemAtLoad * items) : kAnItemAtReplan * items;
}
constexpr int64_t kExactWork = 4'000'000'000;  // for Effort::exact, in the same units
constexpr int64_t kExactShareAtLoad = 5;       // one part in so many of the work at load

template <typename Key>
std::vector<int32_t> order_by(size_t n, Key key) {
  std::vector<std::pair<decltype(key(0)), int32_t>> keyed(n);
  for (size_t i = 0; i < n; ++i) keyed[i] = {key(static_cast<int32_t>(i)), static_cast<int32_t>(i)};
  std::sort(keyed.begin(), keyed.end());
  std::vector<int32_t> order(n);
  for (size_t i = 0; i < n; ++i) order[i] = keyed[i].second;
  return order;
}

class Packer {
 public:
  Packer(const PackProblem& p, Effort effort)
      : p_(p),
        n_(p.items.size()),
        effort_(effort),
        placer_(p, most_pairs(n_, effort)),
        end_of_work_(work_for(n_, effort)),
        offsets_(n_) {
    best_.height = INT64_MAX;
  }

  Packing run() {
    plain_rules();
    if (!finished()) more_orders();
    if (!finished() && placer_.has_conflicts()) both_ends();
    if (effort_ == Effort::replan || at_bound()) return std::move(best_);
    const int64_t at_load = (end_of_work_ - placer_.work()) / kExactShareAtLoad;
    placer_.count(fit_exactly(p_.lower_bound, effort_ == Effort::exact ? kExactWork / 2 : at_load).work);
    if (effort_ == Effort::exact) end_of_work_ = placer_.work() + work_for(n_, Effort::load);
    if (!finished() && placer_.has_conflicts()) search(p_, placer_, std::move(starts_), end_of_work_, best_);
    if (effort_ == Effort::exact) narrow();
    return std::move(best_);
  }

 private:
  using Keys = std::pair<int64_t, int64_t>;

  bool at_bound() const { return best_.height <= p_.lower_bound; }
  // Also where the next placing would cost more than what is left.
  bool finished() const { return at_bound() || placer_.work() + placer_.scan_work() >= end_of_work_; }
  int64_t span(int32_t i) const { return int64_t{p_.items[i].last} - p_.items[i].first + 1; }

  void keep_if_lower(int64_t height) {
    if (height >= best_.height) return;
    best_.height = height;
    best_.offsets = offsets_;
  }

  // Returns whether to stop trying.
  bool attempt(std::vector<int32_t> order, Fit fit, Tops tops = {}) {
    const int64_t height = placer_.place(order, 0, fit, tops.is_top.empty() ? best_.height : INT64_MAX, offsets_, tops);
    keep_if_lower(height);
    if (fit == Fit::lowest) starts_.push_back({std::move(order), std::move(tops), height});
    return finished();
  }

  // What no packing may be worse than, whatever it costs.
  void plain_rules() {
    attempt(order_by(n_, [&](int32_t i) { return -p_.items[i].size; }), Fit::lowest);
    if (at_bound()) return;
    if (keep_if_lower(placer_.place_born(best_.height, offsets_)); at_bound()) return;
    for (const SlotSize size : {SlotSize::fixed, SlotSize::grows}) {
      if (at_bound()) return;
      Packing slots = share_slots(p_, placer_.by_birth(), size, best_.height);
      if (slots.height < best_.height) best_ = {std::move(slots.offsets), slots.height};
    }
  }

  void more_orders() {
    const auto size = [&](int32_t i) { return p_.items[i].size; };
    const auto area = [&](int32_t i) { return -static_cast<double>(size(i)) * static_cast<double>(span(i)); };
    if (attempt(order_by(n_, [&](int32_t i) { return Keys(-size(i), -span(i)); }), Fit::lowest)) return;
    if (attempt(order_by(n_, area), Fit::lowest)) return;
    if (attempt(order_by(n_, [&](int32_t i) { return Keys(-placer_.degree(i), -size(i)); }), Fit::lowest)) return;
    if (attempt(order_by(n_, [&](int32_t i) { return Keys(-span(i), -size(i)); }), Fit::lowest)) return;
    if (attempt(placer_.by_birth(), Fit::lowest)) return;
    attempt(order_by(n_, [&](int32_t i) { return Keys(-p_.items[i].last, -size(i)); }), Fit::lowest);
  }

  // Long-lived items from below in order of their deaths, so that space is freed from the top; short-lived ones from
  // above. Tries several limits between short and long.
  void both_ends() {
    const auto by_death = order_by(n_, [&](int32_t i) { return Keys(-p_.items[i].last, -p_.items[i].size); });
    const auto by_size = order_by(n_, [&](int32_t i) { return -p_.items[i].size; });
    for (int32_t limit = 4; limit <= 512; limit *= 2) {
      Tops tops{std::vector<uint8_t>(n_), p_.lower_bound};
      std::vector<int32_t> order;
      for (size_t i = 0; i < n_; ++i) tops.is_top[i] = span(static_cast<int32_t>(i)) <= limit;
      std::copy_if(by_death.begin(), by_death.end(), std::back_inserter(order),
                   [&](int32_t i) { return !tops.is_top[i]; });
      std::copy_if(by_size.begin(), by_size.end(), std::back_inserter(order),
                   [&](int32_t i) { return tops.is_top[i]; });
      if (attempt(std::move(order), Fit::lowest, std::move(tops))) return;
    }
  }

  ExactAnswer fit_exactly(int64_t capacity, int64_t work) {
    ExactAnswer answer = pack_exactly(p_, capacity, work);
    if (answer.verdict != Verdict::found) return answer;
    best_.offsets = answer.offsets;
    best_.height = 0;
    for (size_t i = 0; i < n_; ++i) best_.height = std::max(best_.height, best_.offsets[i] + p_.items[i].size);
    return answer;
  }

  // Halves the distance to the lower bound as often as the work allows.
  void narrow() {
    constexpr int kHalvings = 8;
    int64_t below = p_.lower_bound;  // not reached
    for (int i = 0; i < kHalvings && best_.height - below > 1; ++i) {
      const int64_t middle = below + (best_.height - below) / 2;
      if (fit_exactly(middle, kExactWork / 2 / kHalvings).verdict != Verdict::found) below = middle;
    }
  }

  const PackProblem& p_;
  const size_t n_;
  const Effort effort_;
  Placer placer_;
  int64_t end_of_work_;
  std::vector<int64_t> offsets_;
  std::vector<SearchStart> starts_;
  Packing best_;
};

}  // namespace

std::vector<int32_t> in_order_of_birth(const PackProblem& problem) {
  return order_by(problem.items.size(), [&](int32_t i) { return problem.items[i].first; });
}

Packing pack(const PackProblem& problem, Effort effort) {
  if (problem.items.empty()) return {};
  if (effort == Effort::slots) return share_slots(problem, in_order_of_birth(problem), SlotSize::grows, INT64_MAX);
  if (effort == Effort::off) return stack(problem);
  Packing packing = Packer(problem, effort).run();
  for (size_t i = 0; i < problem.items.size(); ++i)
    if (straddles(packing.offsets[i], problem.items[i].size, problem.region)) return pack_in_regions(problem);
  return packing;
}

}  // namespace forethought::planning
