// Range: every type, both ways, ends, lengths on symbols, refusals.
#include <gtest/gtest.h>

#include <limits>

#include "ops/op_testing.h"

namespace forethought {
namespace {

template <typename T>
std::vector<T> range(T start, T limit, T delta, bool sized_late) {
  auto y = run_case({.op = "Range",
                     .inputs = {tensor_of<T>({}, {start}), tensor_of<T>({}, {limit}), tensor_of<T>({}, {delta})},
                     .sized_late = sized_late});
  EXPECT_TRUE(y.ok()) << y.status();
  return y.ok() ? output_of<T>(*y) : std::vector<T>();
}

TEST(Range, CountsBothWays) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max(), kLeast = std::numeric_limits<int64_t>::min();
  for (const bool late : {false, true}) {
    EXPECT_EQ(range<int64_t>(3, 9, 3, late), (std::vector<int64_t>{3, 6}));
    EXPECT_EQ(range<int64_t>(10, 4, -2, late), (std::vector<int64_t>{10, 8, 6}));
    EXPECT_EQ(range<int64_t>(1, 1, 1, late), std::vector<int64_t>());
    EXPECT_EQ(range<int64_t>(2, 1, 1, late), std::vector<int64_t>());
    EXPECT_EQ(range<int64_t>(kMost - 1, kMost, 5, late), std::vector<int64_t>{kMost - 1});
    EXPECT_EQ(range<int64_t>(kMost, kMost - 3, kLeast, late), std::vector<int64_t>{kMost});
    EXPECT_EQ(range<int32_t>(0, 5, 2, late), (std::vector<int32_t>{0, 2, 4}));
    EXPECT_EQ(range<int16_t>(0, -3, -1, late), (std::vector<int16_t>{0, -1, -2}));
    EXPECT_EQ(range<float>(1, 2, 0.25f, late), (std::vector<float>{1, 1.25f, 1.5f, 1.75f}));
    EXPECT_EQ(range<double>(0, 0.3, 0.1, late), (std::vector<double>{0, 0.1, 0.2}));
    EXPECT_EQ(range<Float16>(Float16(0.f), Float16(2.f), Float16(1.f), late).size(), 2u);
    EXPECT_EQ(range<BFloat16>(BFloat16(0.f), BFloat16(-2.f), BFloat16(-1.f), late).size(), 2u);
  }
}

TEST(Range, Refusals) {
  const auto number = [](float v) { return tensor_of<float>({}, {v}); };
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  struct {
    OpCase c;
    const char* says;
  } const rows[] = {
      {{.op = "Range", .inputs = {number(0), number(1), number(0)}}, "delta is zero"},
      {{.op = "Range", .inputs = {number(0), number(nan), number(1)}}, "not finite"},
      {{.op = "Range", .inputs = {number(0), number(inf), number(1)}}, "not finite"},
      {{.op = "Range", .inputs = {number(0), number(1), tensor_of<int64_t>({}, {1})}}, "input 0 is"},
      {{.op = "Range", .inputs = {number(0), number(1), tensor_of<float>({2}, {1, 1})}}, "single number"},
      {{.op = "Range",
        .inputs = {tensor_of<int64_t>({}, {std::numeric_limits<int64_t>::min()}),
                   tensor_of<int64_t>({}, {std::numeric_limits<int64_t>::max()}), tensor_of<int64_t>({}, {1})}},
       "too far apart"},
  };
  for (const auto& r : rows) {
    auto y = run_case(r.c);
    ASSERT_FALSE(y.ok()) << r.says;
    EXPECT_NE(y.status().message().find(r.says), std::string::npos) << y.status();
  }
}

}  // namespace
}  // namespace forethought
