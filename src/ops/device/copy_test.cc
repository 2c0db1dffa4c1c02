// Copy: the same bytes for types of every width and for strings, in plain and channels-last layout, in one piece or
// many.
#include <gtest/gtest.h>

#include <numeric>

#include "ops/op_testing.h"

namespace forethought {
namespace {

template <typename T>
void expect_same(const std::vector<T>& values, std::initializer_list<int64_t> dims) {
  auto r = run_case({.op = "Copy", .inputs = {tensor_of<T>(dims, values)}, .domain = "forethought"});
  ASSERT_TRUE(r.ok()) << r.status();
  EXPECT_EQ(output_of<T>(*r), values);
}

TEST(Copy, MovesEveryWidth) {
  expect_same<uint8_t>({1, 2, 255}, {3});
  expect_same<int16_t>({-1, 2, 3, 4}, {2, 2});
  expect_same<float>({-1.5f}, {});
  expect_same<double>({1, 2, 3, 4, 5, 6}, {1, 2, 3});
  expect_same<int64_t>({}, {0, 4});
}

TEST(Copy, MovesStrings) { expect_same<std::string>({"", "a", std::string(100, 'x')}, {3}); }

TEST(Copy, MovesMoreThanOnePiece) {
  std::vector<float> values((size_t{5} << 20) / 4 + 3);
  std::iota(values.begin(), values.end(), 0.0f);
  expect_same(values, {static_cast<int64_t>(values.size())});
}

TEST(Copy, KeepsTheLayout) {
  std::vector<float> values(2 * 4 * 3 * 3);
  std::iota(values.begin(), values.end(), 0.0f);
  const Layout layout = Layout::channels_last();
  auto r = run_case({.op = "Copy",
                     .inputs = {tensor_of<float>({2, 4, 3, 3}, values)},
                     .domain = "forethought",
                     .input_layouts = {layout},
                     .output_layouts = {layout}});
  ASSERT_TRUE(r.ok()) << r.status();
  EXPECT_EQ(output_of<float>(*r), values);
}

}  // namespace
}  // namespace forethought
