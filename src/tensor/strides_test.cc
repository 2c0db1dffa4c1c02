// How far strides lead, and when they say nothing new.
#include "tensor/strides.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace forethought {
namespace {

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

TEST(Strides, ReachToTheLowestAndTheHighestElement) {
  const struct {
    std::vector<int64_t> dims, strides;
    int64_t below, above;
  } rows[] = {
      {{}, {}, 0, 0},           {{3, 4}, {4, 1}, 0, 11},    {{3, 4}, {-4, 1}, -8, 3},
      {{3, 4}, {0, -2}, -6, 0}, {{1, 2}, {kMost, 5}, 0, 5}, {{2, 2}, {kMost, -kMost}, -kMost, kMost},
  };
  for (const auto& r : rows) {
    const auto reach = reach_of(r.dims, r.strides);
    ASSERT_TRUE(reach);
    EXPECT_EQ(reach->below, r.below);
    EXPECT_EQ(reach->above, r.above);
  }
}

TEST(Strides, ThatReachFartherThanNumbersDoAreTold) {
  EXPECT_FALSE(reach_of(std::vector<int64_t>{3}, std::vector<int64_t>{kMost}));
  EXPECT_FALSE(reach_of(std::vector<int64_t>{2, 2}, std::vector<int64_t>{kMost, 1}));
  EXPECT_FALSE(reach_of(std::vector<int64_t>{2, 3}, std::vector<int64_t>{-kMost, -1}));
}

TEST(Strides, OfDimsOfOneElementDoNotMatter) {
  EXPECT_TRUE(is_row_major(std::vector<int64_t>{}, std::vector<int64_t>{}));
  EXPECT_TRUE(is_row_major(std::vector<int64_t>{2, 1, 3}, std::vector<int64_t>{3, 99, 1}));
  EXPECT_FALSE(is_row_major(std::vector<int64_t>{2, 1, 3}, std::vector<int64_t>{4, 3, 1}));
  EXPECT_FALSE(is_row_major(std::vector<int64_t>{2, 3}, std::vector<int64_t>{1, 2}));
  EXPECT_FALSE(is_row_major(std::vector<int64_t>{3}, std::vector<int64_t>{-1}));
}

}  // namespace
}  // namespace forethought
