// BitwiseAnd and its kin, BitShift and Mod: widths, signs, edges, broadcasting, refusals.
#include <gtest/gtest.h>

#include <cmath>

#include "ops/op_testing.h"

namespace forethought {
namespace {

template <typename T>
std::vector<T> of(const char* op, std::vector<T> a, std::vector<T> b, Attributes attributes = {}) {
  const auto tensor = [](const std::vector<T>& v) { return tensor_of<T>({static_cast<int64_t>(v.size())}, v); };
  const auto o =
      run_case({.op = op, .inputs = {tensor(a), tensor(b)}, .attributes = std::move(attributes), .share = true});
  EXPECT_TRUE(o.ok()) << op << ": " << o.status();
  return o.ok() ? output_of<T>(*o) : std::vector<T>{};
}

TEST(Bitwise, EachOperator) {
  using Bytes = std::vector<uint8_t>;
  EXPECT_EQ(of<uint8_t>("BitwiseAnd", {0b1100, 255}, {0b1010, 7}), (Bytes{0b1000, 7}));
  EXPECT_EQ(of<uint8_t>("BitwiseOr", {0b1100, 0}, {0b1010, 7}), (Bytes{0b1110, 7}));
  EXPECT_EQ(of<uint8_t>("BitwiseXor", {0b1100, 255}, {0b1010, 7}), (Bytes{0b0110, 248}));
  EXPECT_EQ(of<int64_t>("BitwiseAnd", {-1, INT64_MIN}, {5}), (std::vector<int64_t>{5, 0}));
  const auto o = run_case({.op = "BitwiseNot", .inputs = {tensor_of<int16_t>({3}, {0, -1, 5})}, .share = true});
  ASSERT_TRUE(o.ok()) << o.status();
  EXPECT_EQ(output_of<int16_t>(*o), (std::vector<int16_t>{-1, 0, -6}));
  EXPECT_FALSE(run_case({.op = "BitwiseOr", .inputs = {tensor_of<float>({}, {1}), tensor_of<float>({}, {1})}}).ok());
}

TEST(BitShift, BothDirectionsAndTooFar) {
  const auto to = [](const char* direction) { return attributes({{"direction", std::string(direction)}}); };
  EXPECT_EQ(of<uint8_t>("BitShift", {1, 255, 3}, {3, 4, 8}, to("LEFT")), (std::vector<uint8_t>{8, 240, 0}));
  EXPECT_EQ(of<int8_t>("BitShift", {-1, 64, 1}, {1, 1, -1}, to("LEFT")), (std::vector<int8_t>{-2, -128, 0}));
  EXPECT_EQ(of<int32_t>("BitShift", {-8, 8, -8, 8}, {1, 2, 32, -1}, to("RIGHT")), (std::vector<int32_t>{-4, 2, -1, 0}));
  EXPECT_EQ(of<uint64_t>("BitShift", {~uint64_t{0}}, {63}, to("RIGHT")), std::vector<uint64_t>{1});
  EXPECT_EQ(of<int64_t>("BitShift", {INT64_MIN}, {63}, to("RIGHT")), std::vector<int64_t>{-1});
  const auto o = run_case(
      {.op = "BitShift", .inputs = {tensor_of<uint8_t>({}, {1}), tensor_of<uint8_t>({}, {1})}, .attributes = to("UP")});
  EXPECT_NE(o.status().message().find("must be LEFT or RIGHT"), std::string::npos) << o.status();
}

TEST(Mod, SignsZeroesAndFloats) {
  const auto fmod = attributes({{"fmod", int64_t{1}}});
  EXPECT_EQ(of<int32_t>("Mod", {-7, 7, -7, 7, 3}, {3, -3, -3, 3, 0}), (std::vector<int32_t>{2, -2, -1, 1, 0}));
  EXPECT_EQ(of<int32_t>("Mod", {-7, 7, -7, 7, 3}, {3, -3, -3, 3, 0}, fmod), (std::vector<int32_t>{-1, 1, -1, 1, 0}));
  EXPECT_EQ(of<int64_t>("Mod", {INT64_MIN}, {-1}), std::vector<int64_t>{0});
  EXPECT_EQ(of<uint64_t>("Mod", {~uint64_t{0}}, {10}), std::vector<uint64_t>{5});
  EXPECT_EQ(of<float>("Mod", {-5.5f, 5.5f, 1}, {2, -2, INFINITY}), (std::vector<float>{0.5f, -0.5f, 1}));
  EXPECT_EQ(of<float>("Mod", {-5.5f, 5.5f}, {2, -2}, fmod), (std::vector<float>{-1.5f, 1.5f}));
  const auto edges = of<double>("Mod", {1, INFINITY, -0.0, -1}, {0, 2, 3, INFINITY});
  ASSERT_EQ(edges.size(), 4u);
  EXPECT_TRUE(std::isnan(edges[0]) && std::isnan(edges[1]));
  EXPECT_TRUE(edges[2] == 0 && !std::signbit(edges[2]));
  EXPECT_EQ(edges[3], INFINITY);
}

}  // namespace
}  // namespace forethought
