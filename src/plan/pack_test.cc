// The packer against plain forms of the usual rules on random sets of intervals, and its own invariants.
#include "plan/pack.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "plan/random_problem_for_tests.h"

namespace forethought::planning {
namespace {

struct Interval {
  int64_t size;
  int first, last;
};
using Intervals = std::vector<Interval>;

bool meet(const Interval& a, const Interval& b) { return a.first <= b.last && b.first <= a.last; }

int64_t lower_bound_of(const Intervals& all) {
  int64_t most = 0;
  for (const Interval& at : all) {
    int64_t live = 0;
    for (const Interval& other : all) live += other.first <= at.first && at.first <= other.last ? other.size : 0;
    most = std::max(most, live);
  }
  return most;
}

// Places items in the given order: the lowest free offset, or the gap with the least waste.
int64_t offsets_in_order(const Intervals& all, const std::vector<int>& order, bool tightest) {
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

std::vector<int> order_of(const Intervals& all, bool by_size) {
  std::vector<int> order(all.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return by_size ? all[a].size > all[b].size : all[a].first < all[b].first; });
  return order;
}

int64_t slots_in_order(const Intervals& all, const std::vector<int>& order) {
  std::vector<std::pair<int64_t, int>> slots;  // size, when its tenant dies
  for (const int i : order) {
    std::pair<int64_t, int>* best = nullptr;
    for (auto& slot : slots) {
      if (slot.second < all[i].first && slot.first >= all[i].size && (!best || slot.first < best->first)) best = &slot;
    }
    if (best) {
      best->second = all[i].last;
    } else {
      slots.emplace_back(all[i].size, all[i].last);
    }
  }
  return std::accumulate(slots.begin(), slots.end(), int64_t{0},
                         [](int64_t s, const auto& slot) { return s + slot.first; });
}

Intervals random_intervals(uint64_t seed) {
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

PackProblem problem_of(const Intervals& all) {
  PackProblem p;
  for (const Interval& i : all) p.items.push_back({i.size, i.first, i.last, 64});
  p.lower_bound = lower_bound_of(all);
  return p;
}

void expect_sound(const Intervals& all, const Packing& packing) {
  int64_t height = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    ASSERT_GE(packing.offsets[i], 0);
    height = std::max(height, packing.offsets[i] + all[i].size);
    for (size_t j = 0; j < i; ++j) {
      const bool apart = packing.offsets[i] + all[i].size <= packing.offsets[j] ||
                         packing.offsets[j] + all[j].size <= packing.offsets[i];
      ASSERT_TRUE(apart || !meet(all[i], all[j])) << i << " and " << j;
    }
  }
  EXPECT_EQ(height, packing.height);
}

TEST(Pack, NeverWorseThanAnyPlainRule) {
  int at_bound = 0;
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    const Intervals all = random_intervals(seed);
    const PackProblem p = problem_of(all);
    const Packing packing = pack(p, Effort::replan);
    expect_sound(all, packing);
    const std::vector<int> by_birth = order_of(all, false);
    EXPECT_LE(packing.height, offsets_in_order(all, order_of(all, true), false)) << "largest first, seed " << seed;
    EXPECT_LE(packing.height, offsets_in_order(all, by_birth, true)) << "best fit, seed " << seed;
    EXPECT_LE(packing.height, slots_in_order(all, by_birth)) << "slots, seed " << seed;
    EXPECT_GE(packing.height, p.lower_bound);
    at_bound += packing.height == p.lower_bound;
  }
  EXPECT_GT(at_bound, 500);
}

TEST(Pack, SearchClosesGapsThatOrdersLeave) {
  int open = 0, closed = 0;
  for (uint64_t seed = 0; seed < 300 && open < 20; ++seed) {
    const Intervals all = random_intervals(seed);
    const PackProblem p = problem_of(all);
    const Packing quick = pack(p, Effort::replan);
    if (quick.height == p.lower_bound) continue;
    ++open;
    const Packing thorough = pack(p, Effort::load);
    expect_sound(all, thorough);
    EXPECT_LE(thorough.height, quick.height);
    closed += thorough.height == p.lower_bound;
  }
  EXPECT_GE(open, 5);
  EXPECT_GE(closed * 2, open) << closed << " of " << open;
}

// Long lifetimes make too many conflicts to list; the packer scans instead and must place the same way.
TEST(Pack, ManyConflictsGiveTheSameResult) {
  Random rng(5);
  Intervals all;
  for (int i = 0; i < 400; ++i) {
    const int a = static_cast<int>(rng.below(800)), b = static_cast<int>(rng.below(800));
    all.push_back({64 * (1 + rng.below(100)), std::min(a, b), std::max(a, b)});
  }
  const Packing packing = pack(problem_of(all), Effort::replan);
  expect_sound(all, packing);
  EXPECT_LE(packing.height, offsets_in_order(all, order_of(all, true), false));
  EXPECT_LE(packing.height, offsets_in_order(all, order_of(all, false), true));
}

TEST(Pack, HonoursAlignmentBeyondTheGranule) {
  PackProblem p;
  p.items = {{64, 0, 3, 64}, {128, 1, 2, 4096}, {64, 1, 5, 256}, {64, 4, 5, 4096}};
  p.lower_bound = 256;
  for (const Effort effort : {Effort::replan, Effort::load}) {
    const Packing packing = pack(p, effort);
    for (size_t i = 0; i < p.items.size(); ++i) EXPECT_EQ(packing.offsets[i] % p.items[i].alignment, 0);
  }
}

}  // namespace
}  // namespace forethought::planning
