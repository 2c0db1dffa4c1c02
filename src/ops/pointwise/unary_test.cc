// The operators of one tensor: values, types, attributes, layouts, propagation, one refusal.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ops/op_testing.h"

namespace forethought {
namespace {

struct Row {
  const char* op;
  Attributes attributes;
  std::vector<float> want;  // of kInput
};
const std::vector<float> kInput = {-2, -0.5f, 0, 0.5f, 3};

std::vector<Row> rows() {
  const auto a = [](double alpha) { return attributes({{"alpha", static_cast<float>(alpha)}}); };
  return {
      {"Abs", {}, {2, 0.5f, 0, 0.5f, 3}},
      {"Ceil", {}, {-2, 0, 0, 1, 3}},
      {"Elu", {}, {-0.8646647f, -0.39346933f, 0, 0.5f, 3}},
      {"Elu", a(2), {-1.7293294f, -0.78693867f, 0, 0.5f, 3}},
      {"Erf", {}, {-0.9953223f, -0.5204999f, 0, 0.5204999f, 0.9999779f}},
      {"Exp", {}, {0.13533528f, 0.60653067f, 1, 1.6487213f, 20.085537f}},
      {"Floor", {}, {-2, -1, 0, 0, 3}},
      {"HardSigmoid", {}, {0.1f, 0.4f, 0.5f, 0.6f, 1}},
      {"HardSigmoid", attributes({{"alpha", 0.5f}, {"beta", 0.6f}}), {0, 0.35f, 0.6f, 0.85f, 1}},
      {"HardSwish", {}, {-0.33333334f, -0.20833333f, 0, 0.29166666f, 3}},
      {"LeakyRelu", {}, {-0.02f, -0.005f, 0, 0.5f, 3}},
      {"LeakyRelu", a(0.1), {-0.2f, -0.05f, 0, 0.5f, 3}},
      {"Mish", {}, {-0.25250148f, -0.22074401f, 0, 0.3752449f, 2.9865355f}},
      {"Neg", {}, {2, 0.5f, 0, -0.5f, -3}},
      {"Relu", {}, {0, 0, 0, 0.5f, 3}},
      {"Selu", {}, {-1.5201665f, -0.6917582f, 0, 0.52535051f, 3.1521032f}},
      {"Selu", attributes({{"alpha", 2.0f}, {"gamma", 3.0f}}), {-5.187988f, -2.360816f, 0, 1.5f, 9}},
      {"Sigmoid", {}, {0.11920292f, 0.37754068f, 0.5f, 0.62245935f, 0.95257413f}},
      {"Softplus", {}, {0.126928f, 0.474077f, 0.6931472f, 0.974077f, 3.0485873f}},
      {"Softsign", {}, {-0.6666667f, -0.33333334f, 0, 0.33333334f, 0.75f}},
      {"Tanh", {}, {-0.9640276f, -0.46211717f, 0, 0.46211717f, 0.9950548f}},
  };
}

template <typename T>
Tensor convert(std::initializer_list<int64_t> dims, const std::vector<float>& v) {
  std::vector<T> t;
  for (float x : v) t.push_back(static_cast<T>(x));
  return tensor_of<T>(dims, t);
}

template <typename T>
void check_rows(double tolerance) {
  for (const Row& row : rows()) {
    for (bool share : {false, true}) {
      auto r = run_case(
          {.op = row.op, .inputs = {convert<T>({5, 1}, kInput)}, .attributes = row.attributes, .share = share});
      ASSERT_TRUE(r.ok()) << row.op << ": " << r.status();
      EXPECT_EQ(r->outputs[0].tensor().dims, (Dims{5, 1}));
      EXPECT_EQ(r->facts.overwrites.size(), 1u);
      const auto y = output_of<T>(*r);
      for (size_t i = 0; i < y.size(); ++i)
        EXPECT_NEAR(static_cast<double>(static_cast<float>(y[i])), row.want[i],
                    tolerance * (1 + std::fabs(row.want[i])))
            << row.op << ' ' << i;
    }
  }
}

TEST(Unary, ValuesInEachFloatType) {
  check_rows<float>(3e-7);
  check_rows<double>(3e-7);
  check_rows<Float16>(1e-3);
  check_rows<BFloat16>(8e-3);
}

TEST(Unary, LogSqrtAndReciprocalAtTheEdges) {
  const float inf = std::numeric_limits<float>::infinity();
  auto log = run_case({.op = "Log", .inputs = {tensor_of<float>({4}, {1, 0, -1, inf})}});
  ASSERT_TRUE(log.ok());
  const auto y = output_of<float>(*log);
  EXPECT_TRUE(y[0] == 0 && y[1] == -inf && std::isnan(y[2]) && y[3] == inf);
  auto sqrt = run_case({.op = "Sqrt", .inputs = {tensor_of<double>({3}, {4, 0, -1})}});
  EXPECT_TRUE(output_of<double>(*sqrt)[0] == 2 && std::isnan(output_of<double>(*sqrt)[2]));
  auto reciprocal = run_case({.op = "Reciprocal", .inputs = {tensor_of<float>({2}, {4, 0})}});
  EXPECT_TRUE(output_of<float>(*reciprocal)[0] == 0.25f && output_of<float>(*reciprocal)[1] == inf);
}

TEST(Unary, Integers) {
  auto abs = run_case({.op = "Abs", .inputs = {tensor_of<int8_t>({3}, {-128, -3, 5})}, .share = true});
  EXPECT_EQ(output_of<int8_t>(*abs), (std::vector<int8_t>{-128, 3, 5}));
  auto relu = run_case({.op = "Relu", .inputs = {tensor_of<int32_t>({2}, {-3, 5})}});
  EXPECT_EQ(output_of<int32_t>(*relu), (std::vector<int32_t>{0, 5}));
  auto neg = run_case({.op = "Neg", .inputs = {tensor_of<int64_t>({}, {7})}});
  EXPECT_EQ(output_of<int64_t>(*neg), (std::vector<int64_t>{-7}));
}

TEST(Unary, RankZeroAndNoElements) {
  auto scalar = run_case({.op = "Exp", .inputs = {tensor_of<float>({}, {0})}, .share = true});
  ASSERT_TRUE(scalar.ok());
  EXPECT_EQ(output_of<float>(*scalar), std::vector<float>{1});
  auto none = run_case({.op = "Tanh", .inputs = {tensor_of<float>({2, 0, 3}, {})}});
  ASSERT_TRUE(none.ok());
  EXPECT_EQ(none->outputs[0].tensor().dims, (Dims{2, 0, 3}));
}

// Several blocks: their order is the test host's, the bits are those of one block.
TEST(Unary, ManyBlocks) {
  std::vector<float> x(100003);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 977) / 100 - 4;
  auto all = run_case({.op = "Mish", .inputs = {tensor_of<float>({100003}, x)}, .share = true});
  ASSERT_TRUE(all.ok());
  const auto y = output_of<float>(*all);
  for (size_t i = 0; i < x.size(); i += 101) {
    auto one = run_case({.op = "Mish", .inputs = {tensor_of<float>({1}, {x[i]})}});
    EXPECT_EQ(output_of<float>(*one)[0], y[i]);
  }
}

TEST(Unary, BlockedLayoutKeepsItsPaddingZero) {
  // [1, 3, 2, 1] in blocks of 8: channels 3 to 7 are padding.
  Tensor x = make_tensor(DType::kFloat, Dims{16}).value();
  for (int s = 0; s < 2; ++s)
    for (int c = 0; c < 3; ++c) x.as<float>()[s * 8 + c] = static_cast<float>(c + s);
  x.dims = {1, 3, 2, 1};
  auto r = run_case({.op = "Exp",
                     .inputs = {x},
                     .share = true,
                     .input_layouts = {Layout::blocked(8)},
                     .output_layouts = {Layout::blocked(8)}});
  ASSERT_TRUE(r.ok()) << r.status();
  const float* y = r->outputs[0].tensor().as<float>();
  for (int s = 0; s < 2; ++s)
    for (int c = 0; c < 8; ++c) EXPECT_FLOAT_EQ(y[s * 8 + c], c < 3 ? std::exp(static_cast<float>(c + s)) : 0);
}

TEST(Unary, RefusesTypesAndUnknownAttributes) {
  auto type = run_case({.op = "Exp", .inputs = {tensor_of<int32_t>({1}, {1})}});
  EXPECT_EQ(type.status().code(), absl::StatusCode::kUnimplemented);
  auto unsigned_neg = run_case({.op = "Neg", .inputs = {tensor_of<uint8_t>({1}, {1})}});
  EXPECT_FALSE(unsigned_neg.ok());
  auto attribute =
      run_case({.op = "Elu", .inputs = {tensor_of<float>({1}, {1})}, .attributes = attributes({{"beta", 1.0f}})});
  EXPECT_EQ(attribute.status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace forethought
