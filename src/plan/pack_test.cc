// The packer against plain forms of the usual rules on random sets of intervals, and its own invariants.
#include "plan/pack.h"

#include <gtest/gtest.h>

#include "plan/packing_rules_for_tests.h"

namespace forethought::planning {
namespace {

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
