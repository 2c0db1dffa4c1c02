// The complete search: it fits the hard sets, agrees with trying every order, and says when it gave up.
#include "plan/exact.h"

#include <gtest/gtest.h>

#include "plan/hard_sets_for_tests.h"
#include "plan/packing_rules_for_tests.h"

namespace forethought::planning {
namespace {

int64_t height_of(const PackProblem& p, const std::vector<int64_t>& offsets) {
  int64_t height = 0;
  for (size_t i = 0; i < p.items.size(); ++i) height = std::max(height, offsets[i] + p.items[i].size);
  return height;
}

void expect_sound(const PackProblem& p, const std::vector<int64_t>& offsets) {
  ASSERT_EQ(offsets.size(), p.items.size());
  for (size_t i = 0; i < p.items.size(); ++i) {
    EXPECT_GE(offsets[i], 0);
    EXPECT_EQ(offsets[i] % p.items[i].alignment, 0) << i;
    for (size_t j = 0; j < i; ++j) {
      const bool apart = offsets[i] + p.items[i].size <= offsets[j] || offsets[j] + p.items[j].size <= offsets[i];
      EXPECT_TRUE(apart || !p.conflict(static_cast<int>(i), static_cast<int>(j))) << i << " and " << j;
    }
  }
}

// The least height of all: some order of placing each item as low as it goes gives it.
int64_t least_height(const PackProblem& p) {
  std::vector<int> order(p.items.size());
  std::iota(order.begin(), order.end(), 0);
  int64_t least = INT64_MAX;
  std::vector<int64_t> at(p.items.size());
  do {
    for (size_t k = 0; k < order.size(); ++k) {
      const int i = order[k];
      const int64_t a = p.items[i].alignment;
      bool moved = true;
      at[i] = 0;
      while (moved) {
        moved = false;
        for (size_t other = 0; other < k; ++other) {
          const int j = order[other];
          if (!p.conflict(i, j) || at[i] + p.items[i].size <= at[j] || at[j] + p.items[j].size <= at[i]) continue;
          at[i] = (at[j] + p.items[j].size + a - 1) / a * a;
          moved = true;
        }
      }
    }
    least = std::min(least, height_of(p, at));
  } while (std::next_permutation(order.begin(), order.end()));
  return least;
}

TEST(Exact, AgreesWithTryingEveryOrder) {
  int gaps = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    Random rng(seed);
    PackProblem p;
    Intervals all;
    for (int i = 0, n = 3 + static_cast<int>(rng.below(5)); i < n; ++i) {
      const int first = static_cast<int>(rng.below(8));
      all.push_back({1 + rng.below(9), first, first + static_cast<int>(rng.below(5))});
      p.items.push_back({all[i].size, all[i].first, all[i].last, seed % 4 == 0 && rng.one_in(2) ? 4u : 1u});
    }
    const int64_t least = least_height(p);
    gaps += least > lower_bound_of(all);
    const ExactAnswer fits = pack_exactly(p, least, 10'000'000);
    ASSERT_EQ(fits.verdict, Verdict::found) << "seed " << seed;
    expect_sound(p, fits.offsets);
    EXPECT_LE(height_of(p, fits.offsets), least);
    EXPECT_EQ(pack_exactly(p, least - 1, 10'000'000).verdict, Verdict::impossible) << "seed " << seed;
    EXPECT_EQ(pack_exactly(p, least + 3, 10'000'000).verdict, Verdict::found) << "seed " << seed;
  }
  EXPECT_GT(gaps, 20);  // sets that do not reach their lower bound
}

TEST(Exact, Check4FitsAllHardSets) {
  const auto files = hard_set_files(FORETHOUGHT_HARD_SETS);
  ASSERT_EQ(files.size(), 11u);
  for (const auto& file : files) {
    const PackProblem p = read_hard_set(file, kHardSetCapacity);
    ASSERT_GT(p.items.size(), 100u);
    const Packing packing = pack(p, Effort::exact);
    EXPECT_LE(packing.height, kHardSetCapacity) << file;
    EXPECT_EQ(packing.height, height_of(p, packing.offsets));
    expect_sound(p, packing.offsets);
  }
}

TEST(Exact, TheSameWorkGivesTheSameAnswer) {
  const PackProblem p = read_hard_set(hard_set_files(FORETHOUGHT_HARD_SETS)[5], kHardSetCapacity);
  const ExactAnswer first = pack_exactly(p, kHardSetCapacity, INT64_MAX);
  ASSERT_EQ(first.verdict, Verdict::found);
  const ExactAnswer again = pack_exactly(p, kHardSetCapacity, first.work);
  EXPECT_EQ(again.offsets, first.offsets);
  EXPECT_EQ(again.work, first.work);
  EXPECT_EQ(pack_exactly(p, kHardSetCapacity, first.work / 2).verdict, Verdict::gave_up);
}

TEST(Exact, SaysWhatItCannotDo) {
  PackProblem p;
  p.items = {{64, 0, 3, 64}, {128, 1, 2, 64}};
  EXPECT_EQ(pack_exactly(p, 191, 1000).verdict, Verdict::impossible);
  EXPECT_EQ(pack_exactly(p, 100, 1000).verdict, Verdict::impossible);
  EXPECT_EQ(pack_exactly(p, 192, 1000).verdict, Verdict::found);
  EXPECT_EQ(pack_exactly(p, 192, 0).verdict, Verdict::gave_up);
  p.lanes = 2;
  EXPECT_EQ(pack_exactly(p, 192, 1000).verdict, Verdict::gave_up);
  EXPECT_EQ(pack_exactly(PackProblem(), 0, 1000).verdict, Verdict::found);
  p.lanes = 1;
  p.items.assign(kMostExactItems + 1, {64, 0, 3, 64});
  EXPECT_EQ(pack_exactly(p, INT64_MAX / 2, 1000).verdict, Verdict::gave_up);
}

TEST(Exact, EffortNeverLosesToLoad) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const PackProblem p = problem_of(random_intervals(seed));
    const Packing load = pack(p, Effort::load);
    if (load.height == p.lower_bound) continue;
    const Packing exact = pack(p, Effort::exact);
    EXPECT_LE(exact.height, load.height) << seed;
    expect_sound(p, exact.offsets);
    break;
  }
}

}  // namespace
}  // namespace forethought::planning
