// Random sets of intervals and plain forms of the usual packing rules, to compare the packer with.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "plan/pack.h"
#include "plan/random_problem_for_tests.h"

namespace forethought::planning {

struct Interval {
  int64_t size;
  int first, last;
};
using Intervals = std::vector<Interval>;

inline bool meet(const Interval& a, const Interval& b) { return a.first <= b.last && b.first <= a.last; }

inline int64_t lower_bound_of(const Intervals& all) {
  int64_t most = 0;
  for (const Interval& at : all) {
    int64_t live = 0;
    for (const Interval& other : all) live += other.first <= at.first && at.first <= other.last ? other.size : 0;
    most = std::max(most, live);
  }
  return most;
}

// Places items in the given order: the lowest free offset, or the gap with the least waste.
inline int64_t offsets_in_order(const Intervals& all, const std::vector<int>& order, bool tightest) {
  std::vector<std::pair<int64_t, int>> placed;
  int64_t height = 0;
  for (const int i : order) {
    std::sort(placed.begin(), placed.end());
    int64_t cursor = 0, best = -1, best_room = INT64_MAX;
    for (const auto& [offset, other] : placed) {
      if (!meet(all[i], all[other])) continue;
      const int64_t room = offset - cursor;
      if (room >= all[i].size && (tightest ? room < best_room : best < 0)) best = cursor, best_room = room;
      cursor = std::max(cursor, offset + all[other].size);
    }
    const int64_t at = best >= 0 ? best : cursor;
    placed.emplace_back(at, i);
    height = std::max(height, at + all[i].size);
  }
  return height;
}

inline std::vector<int> order_of(const Intervals& all, bool by_size) {
  std::vector<int> order(all.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return by_size ? all[a].size > all[b].size : all[a].first < all[b].first; });
  return order;
}

// Sizes of the slots that items share. Where no dead one has room, the largest grows, if it may.
inline std::vector<int64_t> slots_in_order(const Intervals& all, const std::vector<int>& order, bool grow) {
  std::vector<std::pair<int64_t, int>> slots;  // size, when its tenant dies
  for (const int i : order) {
    std::pair<int64_t, int>*best = nullptr, *largest = nullptr;
    for (auto& slot : slots) {
      if (slot.second >= all[i].first) continue;
      if (slot.first >= all[i].size && (!best || slot.first < best->first)) best = &slot;
      if (!largest || slot.first > largest->first) largest = &slot;
    }
    if (!best && grow) best = largest;
    if (best) {
      *best = {std::max(best->first, all[i].size), all[i].last};
    } else {
      slots.emplace_back(all[i].size, all[i].last);
    }
  }
  std::vector<int64_t> sizes;
  for (const auto& slot : slots) sizes.push_back(slot.first);
  return sizes;
}

inline int64_t sum_of(const std::vector<int64_t>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
}

inline Intervals random_intervals(uint64_t seed) {
  Random rng(seed);
  const int n = 2 + static_cast<int>(rng.below(seed % 10 == 0 ? 300 : 60));
  const int steps = 2 + static_cast<int>(rng.below(2 * n));
  const int64_t longest = 1 + rng.below(seed % 3 == 0 ? steps : std::min(steps, 8));
  Intervals all;
  for (int i = 0; i < n; ++i) {
    const int first = static_cast<int>(rng.below(steps));
    const int last = std::min<int>(steps - 1, first + static_cast<int>(rng.below(longest)));
    all.push_back({64 * (1 + rng.below(seed % 2 == 0 ? 1000 : 8)), first, last});
  }
  return all;
}

inline PackProblem problem_of(const Intervals& all) {
  PackProblem p;
  for (const Interval& i : all) p.items.push_back({i.size, i.first, i.last, 64});
  p.lower_bound = lower_bound_of(all);
  return p;
}

}  // namespace forethought::planning
