// Less, Greater and their kin, And, Or and Xor: types, NaN, broadcasting, in place, refusals.
#include <gtest/gtest.h>

#include <cmath>

#include "ops/op_testing.h"

namespace forethought {
namespace {

using Bools = std::vector<bool>;

Bools bools(const char* op, Value a, Value b) {
  const auto o = run_case({.op = op, .inputs = {std::move(a), std::move(b)}, .share = true});
  EXPECT_TRUE(o.ok()) << op << ": " << o.status();
  return o.ok() ? output_of<bool>(*o) : Bools{};
}

TEST(Compare, EachOperator) {
  const Tensor a = tensor_of<float>({4}, {1, 2, 3, NAN}), b = tensor_of<float>({4}, {2, 2, 2, 0});
  EXPECT_EQ(bools("Less", a, b), (Bools{true, false, false, false}));
  EXPECT_EQ(bools("LessOrEqual", a, b), (Bools{true, true, false, false}));
  EXPECT_EQ(bools("Greater", a, b), (Bools{false, false, true, false}));
  EXPECT_EQ(bools("GreaterOrEqual", a, b), (Bools{false, true, true, false}));
  const Tensor p = tensor_of<bool>({4}, {true, true, false, false}),
               q = tensor_of<bool>({4}, {true, false, true, false});
  EXPECT_EQ(bools("And", p, q), (Bools{true, false, false, false}));
  EXPECT_EQ(bools("Or", p, q), (Bools{true, true, true, false}));
  EXPECT_EQ(bools("Xor", p, q), (Bools{false, true, true, false}));
}

TEST(Compare, TypesAndBroadcasts) {
  EXPECT_EQ(bools("Less", tensor_of<int64_t>({2}, {INT64_MIN, 5}), tensor_of<int64_t>({}, {0})), (Bools{true, false}));
  EXPECT_EQ(bools("Greater", tensor_of<uint64_t>({}, {~uint64_t{0}}), tensor_of<uint64_t>({2}, {1, ~uint64_t{0}})),
            (Bools{true, false}));
  EXPECT_EQ(bools("GreaterOrEqual", tensor_of<Float16>({1}, {Float16(1.f)}), tensor_of<Float16>({1}, {Float16(1.f)})),
            Bools{true});
  EXPECT_EQ(bools("Less", tensor_of<uint8_t>({2, 1}, {1, 200}), tensor_of<uint8_t>({3}, {0, 100, 255})),
            (Bools{false, true, true, false, false, true}));
  EXPECT_EQ(bools("Or", tensor_of<bool>({1, 2}, {true, false}), tensor_of<bool>({2, 1}, {false, true})),
            (Bools{true, false, true, true}));
  EXPECT_EQ(bools("And", tensor_of<bool>({}, {true}), tensor_of<bool>({}, {true})), Bools{true});
  EXPECT_TRUE(bools("Xor", tensor_of<bool>({0}, {}), tensor_of<bool>({1}, {true})).empty());
}

// As long as several tiles, on both sides of a broadcast.
TEST(Compare, ManyElements) {
  constexpr int64_t kRows = 37, kColumns = 501;
  std::vector<int32_t> a(kRows * kColumns), b(kColumns);
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<int32_t>(i * 7919 % 1000);
  for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<int32_t>(i * 104729 % 1000);
  Bools want;
  for (size_t i = 0; i < a.size(); ++i) want.push_back(a[i] <= b[i % kColumns]);
  EXPECT_EQ(bools("LessOrEqual", tensor_of<int32_t>({kRows, kColumns}, a), tensor_of<int32_t>({kColumns}, b)), want);
}

TEST(Compare, RefusesOtherTypes) {
  const auto mixed = run_case({.op = "Less", .inputs = {tensor_of<float>({}, {1}), tensor_of<double>({}, {1})}});
  EXPECT_EQ(mixed.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(run_case({.op = "And", .inputs = {tensor_of<float>({}, {1}), tensor_of<float>({}, {1})}}).ok());
  EXPECT_FALSE(run_case({.op = "Less", .inputs = {tensor_of<bool>({}, {true}), tensor_of<bool>({}, {true})}}).ok());
}

}  // namespace
}  // namespace forethought
