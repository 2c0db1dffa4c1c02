// Cast, Equal, Where, Not, QuantizeLinear, DequantizeLinear, Dropout: types, strings, granularity, refusals.
#include <gtest/gtest.h>

#include <cmath>

#include "ops/op_testing.h"

namespace forethought {
namespace {

OpCase cast_case(Tensor x, DType to) {
  return {.op = "Cast",
          .inputs = {std::move(x)},
          .attributes = attributes({{"to", static_cast<int64_t>(to)}}),
          .share = true};
}

TEST(Cast, AmongNumbersBoolAndStrings) {
  auto i = run_case(cast_case(tensor_of<float>({3}, {-1.9f, 2.9f, 0}), DType::kInt32));
  EXPECT_EQ(output_of<int32_t>(*i), (std::vector<int32_t>{-1, 2, 0}));
  EXPECT_EQ(i->facts.overwrites.size(), 1u);  // as wide
  auto b = run_case(cast_case(tensor_of<float>({3}, {-0.5f, 0, NAN}), DType::kBool));
  EXPECT_EQ(output_of<bool>(*b), (std::vector<bool>{true, false, true}));
  auto h = run_case(cast_case(tensor_of<double>({1}, {0.1}), DType::kBFloat16));
  EXPECT_EQ(output_of<BFloat16>(*h)[0].bits, BFloat16(0.1f).bits);
  auto text = run_case(cast_case(tensor_of<float>({2}, {1.5f, INFINITY}), DType::kString));
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(output_of<std::string>(*text), (std::vector<std::string>{"1.5", "INF"}));
  auto number = run_case(cast_case(tensor_of<std::string>({2}, {"1e3", "-2"}), DType::kDouble));
  EXPECT_EQ(output_of<double>(*number), (std::vector<double>{1000, -2}));
  auto same = run_case(cast_case(tensor_of<std::string>({1}, {"x"}), DType::kString));
  EXPECT_EQ(output_of<std::string>(*same), (std::vector<std::string>{"x"}));
}

TEST(CastLike, TakesTheTypeOfItsSecondInput) {
  auto i = run_case({.op = "CastLike", .inputs = {tensor_of<float>({2}, {-1.9f, 2.9f}), tensor_of<int32_t>({0}, {})}});
  ASSERT_TRUE(i.ok()) << i.status();
  EXPECT_EQ(output_of<int32_t>(*i), (std::vector<int32_t>{-1, 2}));
  auto text = run_case({.op = "CastLike", .inputs = {tensor_of<float>({1}, {1.5f}), tensor_of<std::string>({}, {""})}});
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(output_of<std::string>(*text), (std::vector<std::string>{"1.5"}));
  auto back = run_case({.op = "CastLike", .inputs = {tensor_of<std::string>({1}, {"2"}), tensor_of<double>({1}, {0})}});
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(output_of<double>(*back), (std::vector<double>{2}));
  EXPECT_FALSE(run_case({.op = "CastLike", .inputs = {tensor_of<float>({1}, {0})}}).ok());
}

TEST(Cast, ToItsOwnTypeIsAView) {
  auto r = run_case(cast_case(tensor_of<int64_t>({2}, {4, 5}), DType::kInt64));
  ASSERT_TRUE(r.ok());
  EXPECT_EQ(r->facts.aliases.size(), 1u);
  EXPECT_EQ(output_of<int64_t>(*r), (std::vector<int64_t>{4, 5}));
  OpCase apart = cast_case(tensor_of<int64_t>({2}, {4, 5}), DType::kInt64);
  apart.share = false;
  EXPECT_EQ(output_of<int64_t>(*run_case(apart)), (std::vector<int64_t>{4, 5}));
}

TEST(Cast, RefusesWordsAndTypesThatAreNotHere) {
  auto word = run_case(cast_case(tensor_of<std::string>({1}, {"one"}), DType::kFloat));
  EXPECT_EQ(word.status().code(), absl::StatusCode::kInvalidArgument);
  auto f8 = run_case(cast_case(tensor_of<float>({1}, {1}), DType::kFloat8E5M2));
  EXPECT_EQ(f8.status().code(), absl::StatusCode::kUnimplemented);
  auto missing = run_case({.op = "Cast", .inputs = {tensor_of<float>({1}, {1})}});
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(Select, EqualComparesEachType) {
  auto f =
      run_case({.op = "Equal", .inputs = {tensor_of<float>({2, 2}, {1, NAN, 3, 4}), tensor_of<float>({2}, {1, NAN})}});
  EXPECT_EQ(output_of<bool>(*f), (std::vector<bool>{true, false, false, false}));
  auto b = run_case(
      {.op = "Equal", .inputs = {tensor_of<bool>({2}, {true, false}), tensor_of<bool>({}, {false})}, .share = true});
  EXPECT_EQ(output_of<bool>(*b), (std::vector<bool>{false, true}));
  auto s =
      run_case({.op = "Equal",
                .inputs = {tensor_of<std::string>({1, 2}, {"a", "b"}), tensor_of<std::string>({2, 1}, {"a", "b"})}});
  ASSERT_TRUE(s.ok()) << s.status();
  EXPECT_EQ(output_of<bool>(*s), (std::vector<bool>{true, false, false, true}));
  auto h = run_case(
      {.op = "Equal", .inputs = {tensor_of<Float16>({1}, {Float16(2.0f)}), tensor_of<Float16>({1}, {Float16(2.0f)})}});
  EXPECT_EQ(output_of<bool>(*h), std::vector<bool>{true});
}

TEST(Select, WhereBroadcastsThreeWays) {
  const Tensor condition = tensor_of<bool>({2, 1}, {true, false});
  auto i = run_case({.op = "Where",
                     .inputs = {condition, tensor_of<int16_t>({2}, {1, 2}), tensor_of<int16_t>({}, {9})},
                     .share = true});
  ASSERT_TRUE(i.ok()) << i.status();
  EXPECT_EQ(output_of<int16_t>(*i), (std::vector<int16_t>{1, 2, 9, 9}));
  auto s = run_case(
      {.op = "Where", .inputs = {condition, tensor_of<std::string>({}, {"x"}), tensor_of<std::string>({}, {"y"})}});
  ASSERT_TRUE(s.ok()) << s.status();
  EXPECT_EQ(output_of<std::string>(*s), (std::vector<std::string>{"x", "y"}));
  auto mixed = run_case({.op = "Where", .inputs = {condition, tensor_of<float>({}, {1}), tensor_of<double>({}, {1})}});
  EXPECT_EQ(mixed.status().code(), absl::StatusCode::kInvalidArgument);
  auto number = run_case(
      {.op = "Where", .inputs = {tensor_of<int32_t>({}, {1}), tensor_of<float>({}, {1}), tensor_of<float>({}, {1})}});
  EXPECT_EQ(number.status().code(), absl::StatusCode::kUnimplemented);
}

TEST(Select, Not) {
  auto r = run_case({.op = "Not", .inputs = {tensor_of<bool>({3}, {true, false, true})}, .share = true});
  EXPECT_EQ(output_of<bool>(*r), (std::vector<bool>{false, true, false}));
}

TEST(Quantize, PerTensorAxisAndBlock) {
  const Tensor x = tensor_of<float>({2, 4}, {0, 2, 4, 1000, -254, -1000, 3, 5});
  auto whole =
      run_case({.op = "QuantizeLinear", .inputs = {x, tensor_of<float>({}, {2}), tensor_of<uint8_t>({}, {128})}});
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_EQ(output_of<uint8_t>(*whole), (std::vector<uint8_t>{128, 129, 130, 255, 1, 0, 130, 130}));
  auto axis = run_case({.op = "QuantizeLinear",
                        .inputs = {x, tensor_of<float>({2}, {1, 2}), tensor_of<int8_t>({2}, {0, 1})},
                        .attributes = attributes({{"axis", int64_t{-2}}})});
  ASSERT_TRUE(axis.ok()) << axis.status();
  EXPECT_EQ(output_of<int8_t>(*axis), (std::vector<int8_t>{0, 2, 4, 127, -126, -128, 3, 3}));
  auto block = run_case(
      {.op = "QuantizeLinear",
       .inputs = {x, tensor_of<float>({2, 2}, {1, 2, 4, 1})},
       .attributes = attributes({{"block_size", int64_t{2}}, {"output_dtype", static_cast<int64_t>(DType::kInt16)}})});
  ASSERT_TRUE(block.ok()) << block.status();
  EXPECT_EQ(output_of<int16_t>(*block), (std::vector<int16_t>{0, 2, 2, 500, -64, -250, 3, 5}));
}

TEST(Quantize, UnevenBlocksAndBack) {
  // Axis 1 of [2, 5, 2] in blocks of 2: the last block has one row.
  std::vector<float> x(20);
  std::vector<int8_t> want(20);
  std::vector<float> scale(12);
  std::vector<int8_t> zero(12);
  for (int i = 0; i < 12; ++i) scale[i] = static_cast<float>(1 << (i % 4)), zero[i] = static_cast<int8_t>(i - 6);
  for (int o = 0; o < 2; ++o)
    for (int a = 0; a < 5; ++a)
      for (int i = 0; i < 2; ++i) {
        const int e = (o * 5 + a) * 2 + i, s = (o * 3 + a / 2) * 2 + i;
        x[e] = scale[s] * static_cast<float>(e - 9);
        want[e] = static_cast<int8_t>(e - 9 + zero[s]);
      }
  const Attributes a = attributes({{"axis", int64_t{1}}, {"block_size", int64_t{2}}});
  const Value s = tensor_of<float>({2, 3, 2}, scale), z = tensor_of<int8_t>({2, 3, 2}, zero);
  auto q = run_case({.op = "QuantizeLinear", .inputs = {tensor_of<float>({2, 5, 2}, x), s, z}, .attributes = a});
  ASSERT_TRUE(q.ok()) << q.status();
  EXPECT_EQ(output_of<int8_t>(*q), want);
  auto back = run_case({.op = "DequantizeLinear", .inputs = {q->outputs[0], s, z}, .attributes = a});
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(output_of<float>(*back), x);
}

TEST(Quantize, DivisionHasThePrecisionOfTheScale) {
  // 1 / f16(0.003) is 333.2 in f32 and 333.25 in f16; 171 / 0.003 shows which one rounded.
  const Tensor x = tensor_of<Float16>({1}, {Float16(0.5f)});
  auto f = run_case(
      {.op = "QuantizeLinear", .inputs = {x, tensor_of<Float16>({}, {Float16(0.001f)}), tensor_of<uint16_t>({}, {0})}});
  ASSERT_TRUE(f.ok()) << f.status();
  const float exact = 0.5f / static_cast<float>(Float16(0.001f));
  EXPECT_EQ(output_of<uint16_t>(*f)[0], static_cast<uint16_t>(std::nearbyint(static_cast<float>(Float16(exact)))));
  auto i = run_case(
      {.op = "QuantizeLinear",
       .inputs = {tensor_of<int32_t>({3}, {5, -7, 9}), tensor_of<float>({}, {2}), tensor_of<int8_t>({}, {0})}});
  EXPECT_EQ(output_of<int8_t>(*i), (std::vector<int8_t>{2, -4, 4}));
}

TEST(Quantize, DequantizesEachStorageType) {
  auto i32 = run_case({.op = "DequantizeLinear",
                       .inputs = {tensor_of<int32_t>({2}, {-3, 100000}), tensor_of<float>({}, {0.5f})},
                       .share = true});
  EXPECT_EQ(output_of<float>(*i32), (std::vector<float>{-1.5f, 50000}));
  auto u16 = run_case({.op = "DequantizeLinear",
                       .inputs = {tensor_of<uint16_t>({2}, {0, 65535}), tensor_of<Float16>({}, {Float16(0.5f)}),
                                  tensor_of<uint16_t>({}, {65535})},
                       .attributes = attributes({{"output_dtype", static_cast<int64_t>(DType::kFloat)}})});
  ASSERT_TRUE(u16.ok()) << u16.status();
  EXPECT_EQ(output_of<float>(*u16), (std::vector<float>{-32767.5f, 0}));
  // P27 (ii): no zero point.
  auto i8 = run_case(
      {.op = "DequantizeLinear", .inputs = {tensor_of<int8_t>({4}, {12, -45, 7, -3}), tensor_of<float>({}, {0.02f})}});
  const auto y = output_of<float>(*i8);
  EXPECT_FLOAT_EQ(y[1], -0.9f);
  EXPECT_FLOAT_EQ(y[3], -0.06f);
}

TEST(Quantize, RefusesScalesThatDoNotFit) {
  auto axis = run_case({.op = "QuantizeLinear",
                        .inputs = {tensor_of<float>({2, 3}, {1, 2, 3, 4, 5, 6}), tensor_of<float>({2}, {1, 1})}});
  EXPECT_EQ(axis.status().code(), absl::StatusCode::kInvalidArgument);
  auto zero =
      run_case({.op = "DequantizeLinear",
                .inputs = {tensor_of<int8_t>({1}, {1}), tensor_of<float>({}, {1}), tensor_of<uint8_t>({}, {1})}});
  EXPECT_EQ(zero.status().code(), absl::StatusCode::kInvalidArgument);
  auto block = run_case({.op = "QuantizeLinear",
                         .inputs = {tensor_of<float>({4}, {1, 2, 3, 4}), tensor_of<float>({3}, {1, 1, 1})},
                         .attributes = attributes({{"axis", int64_t{0}}, {"block_size", int64_t{2}}})});
  EXPECT_EQ(block.status().code(), absl::StatusCode::kInvalidArgument);
  auto f8 = run_case({.op = "QuantizeLinear",
                      .inputs = {tensor_of<float>({1}, {1}), tensor_of<float>({}, {1})},
                      .attributes = attributes({{"output_dtype", static_cast<int64_t>(DType::kFloat8E5M2)}})});
  EXPECT_EQ(f8.status().code(), absl::StatusCode::kUnimplemented);
}

TEST(Dropout, IsTheIdentityOutsideTraining) {
  auto r = run_case({.op = "Dropout",
                     .inputs = {tensor_of<float>({3}, {1, 2, 3}), tensor_of<float>({}, {0.5f})},
                     .outputs = 2,
                     .share = true});
  ASSERT_TRUE(r.ok()) << r.status();
  EXPECT_EQ(r->facts.aliases.size(), 1u);
  EXPECT_EQ(output_of<float>(*r), (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(output_of<bool>(*r, 1), (std::vector<bool>{true, true, true}));
}

TEST(Dropout, DrawsNumpysStreamInTraining) {
  // numpy.random.RandomState(0): 0.5488, 0.7152, 0.6028, 0.5449.
  for (bool share : {false, true}) {
    auto r = run_case(
        {.op = "Dropout",
         .inputs = {tensor_of<double>({2, 2}, {1, 2, 3, 4}), tensor_of<double>({}, {0.6}), tensor_of<bool>({}, {true})},
         .attributes = attributes({{"seed", int64_t{0}}}),
         .outputs = 2,
         .share = share});
    ASSERT_TRUE(r.ok()) << r.status();
    EXPECT_EQ(output_of<bool>(*r, 1), (std::vector<bool>{false, true, true, false}));
    const auto y = output_of<double>(*r);
    EXPECT_DOUBLE_EQ(y[1], 5);
    EXPECT_DOUBLE_EQ(y[3], 0);
  }
  auto bad = run_case({.op = "Dropout",
                       .inputs = {tensor_of<float>({1}, {1}), tensor_of<float>({}, {1}), tensor_of<bool>({}, {true})}});
  EXPECT_EQ(bad.status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace forethought
