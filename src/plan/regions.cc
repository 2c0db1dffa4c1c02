// Slabs of several regions: places that straddle no multiple of a region's size, where one block cannot be had.
#include "plan/regions.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "base/checked.h"

namespace forethought::planning {
namespace {

struct Placed {
  int64_t begin, end;
  int32_t item;
};

// Each item at the lowest place that is free of those it conflicts with.
Packing in_order(const PackProblem& p, const std::vector<int32_t>& order) {
  Packing packing{std::vector<int64_t>(p.items.size())};
  std::vector<Placed> placed;  // by where they begin
  placed.reserve(order.size());
  for (const int32_t i : order) {
    const PackItem& item = p.items[i];
    const auto place = [&](int64_t from) { return first_place(from, item.size, item.alignment, p.region); };
    int64_t at = place(0);
    for (const Placed& other : placed) {
      if (other.end <= at || !p.conflict(i, other.item)) continue;
      if (other.begin >= at + item.size) break;
      at = place(other.end);
    }
    packing.offsets[i] = at;
    packing.height = std::max(packing.height, at + item.size);
    const auto above = std::ranges::upper_bound(placed, at, {}, &Placed::begin);
    placed.insert(above, {at, at + item.size, i});
  }
  return packing;
}

template <typename Key>
std::vector<int32_t> order_by(const PackProblem& p, Key key) {
  std::vector<int32_t> order(p.items.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, key);
  return order;
}

}  // namespace

bool straddles(int64_t offset, int64_t size, int64_t region) {
  return region > 0 && size > 0 && offset / region != (offset + size - 1) / region;
}

int64_t first_place(int64_t from, int64_t size, uint32_t alignment, int64_t region) {
  const auto up = [](int64_t x, int64_t to) {
    return static_cast<int64_t>(round_up(static_cast<size_t>(x), static_cast<size_t>(to)));
  };
  const int64_t at = up(from, alignment);
  return straddles(at, size, region) ? (at / region + 1) * region : at;
}

Packing pack_in_regions(const PackProblem& p) {
  const auto size = [&](int32_t i) { return p.items[i].size; };
  const auto span = [&](int32_t i) { return int64_t{p.items[i].last} - p.items[i].first + 1; };
  const std::vector<int32_t> orders[] = {
      order_by(p, [&](int32_t i) { return -size(i); }),
      order_by(p, [&](int32_t i) { return -static_cast<double>(size(i)) * static_cast<double>(span(i)); }),
      order_by(p, [&](int32_t i) { return std::pair(-span(i), -size(i)); }),
      in_order_of_birth(p),
  };
  Packing best;
  best.height = std::numeric_limits<int64_t>::max();
  for (const auto& order : orders) {
    if (best.height <= p.lower_bound) break;
    Packing packing = in_order(p, order);
    if (packing.height < best.height) best = std::move(packing);
  }
  return best;
}

int64_t bound_in_regions(size_t steps, std::span<const Live> storages, int64_t region) {
  std::vector<int64_t> large(steps + 1);
  int64_t smallest = std::numeric_limits<int64_t>::max();
  for (const Live& s : storages) {
    if (s.rounded <= region / 2) continue;
    ++large[s.first], --large[s.last + 1];
    smallest = std::min(smallest, s.rounded);
  }
  std::partial_sum(large.begin(), large.end(), large.begin());
  const int64_t most = *std::ranges::max_element(large);
  return most == 0 ? 0 : (most - 1) * region + smallest;
}

}  // namespace forethought::planning
