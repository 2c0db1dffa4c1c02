// The packer against plain forms of the usual rules on random sets of intervals, and its own invariants.
#include "plan/pack.h"

#include <gtest/gtest.h>

#include "plan/packing_rules_for_tests.h"
#include "plan/regions.h"

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
    for (const bool grow : {false, true})
      EXPECT_LE(packing.height, sum_of(slots_in_order(all, by_birth, grow))) << "slots, seed " << seed;
    EXPECT_GE(packing.height, p.lower_bound);
    at_bound += packing.height == p.lower_bound;
  }
  EXPECT_GT(at_bound, 500);
}

// Each dead slot is a whole place for the next tenant, the best fit, and grows where none has room.
TEST(Pack, A66_SlotsAreSharedWhole) {
  int64_t grown = 0, above_packed = 0;
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    const Intervals all = random_intervals(seed);
    const PackProblem p = problem_of(all);
    const Packing packing = pack(p, Effort::slots);
    expect_sound(all, packing);
    const std::vector<int64_t> slots = slots_in_order(all, order_of(all, false), true);
    EXPECT_EQ(packing.height, sum_of(slots)) << seed;
    EXPECT_EQ(packing.slots, static_cast<int32_t>(slots.size())) << seed;
    std::vector<int64_t> begins(packing.offsets);
    std::ranges::sort(begins);
    EXPECT_EQ(std::ranges::unique(begins).begin() - begins.begin(), packing.slots) << seed;
    grown += slots.size() < slots_in_order(all, order_of(all, false), false).size();
    above_packed += packing.height > pack(p, Effort::replan).height;
  }
  EXPECT_GT(grown, 500);
  EXPECT_GT(above_packed, 500);
}

// Where all fits one region nothing changes; else no item lies in two, and the bound stays one.
TEST(Pack, B22_NoItemStraddlesARegion) {
  int in_regions = 0, at_bound = 0;
  for (uint64_t seed = 0; seed < 600; ++seed) {
    const Intervals all = random_intervals(seed);
    PackProblem p = problem_of(all);
    const Packing whole = pack(p, Effort::replan);
    int64_t largest = 64;
    for (const Interval& i : all) largest = std::max(largest, i.size);
    p.region = whole.height;
    EXPECT_EQ(pack(p, Effort::replan).offsets, whole.offsets);
    p.region = largest + static_cast<int64_t>(seed % 3) * 64;
    std::vector<Live> live;
    int steps = 0;
    for (const Interval& i : all)
      live.push_back({i.first, i.last, i.size, i.size}), steps = std::max(steps, i.last + 1);
    p.lower_bound = std::max(p.lower_bound, bound_in_regions(static_cast<size_t>(steps), live, p.region));
    for (const Effort effort : {Effort::replan, Effort::slots, Effort::off}) {
      const Packing packing = pack(p, effort);
      if (effort != Effort::off) expect_sound(all, packing);
      for (size_t i = 0; i < all.size(); ++i)
        EXPECT_EQ(packing.offsets[i] / p.region, (packing.offsets[i] + all[i].size - 1) / p.region) << seed;
      EXPECT_GE(packing.height, p.lower_bound) << seed;
      in_regions += packing.height > p.region;
      at_bound += effort == Effort::replan && packing.height == p.lower_bound;
    }
  }
  EXPECT_GT(in_regions, 1000);
  EXPECT_GT(at_bound, 100);
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
  for (const Effort effort : {Effort::replan, Effort::load, Effort::slots, Effort::off}) {
    const Packing packing = pack(p, effort);
    for (size_t i = 0; i < p.items.size(); ++i) EXPECT_EQ(packing.offsets[i] % p.items[i].alignment, 0);
  }
}

}  // namespace
}  // namespace forethought::planning
