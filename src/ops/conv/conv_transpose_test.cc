// ConvTranspose: known answers, every way to give the output size, types against f64, refusals.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "ops/op_testing.h"

namespace forethought {
namespace {

using Ints = std::vector<int64_t>;

template <typename T>
Tensor random(const Ints& dims, unsigned seed) {
  std::mt19937 rng(seed);
  std::uniform_real_distribution<float> u(-1, 1);
  Tensor t = make_tensor(dtype_of<T>, dims).value();
  for (int64_t i = 0; i < t.elements(); ++i)
    t.as<T>()[i] = static_cast<T>(static_cast<float>(Float16(static_cast<float>(BFloat16(u(rng))))));
  return t;
}

TEST(ConvTranspose, SpreadsTheKernel) {
  const auto r = run_case({.op = "ConvTranspose",
                           .inputs = {tensor_of<float>({1, 1, 3}, {1, 2, 3}), tensor_of<float>({1, 1, 2}, {10, 1}),
                                      tensor_of<float>({1}, {0.5f})},
                           .attributes = attributes({{"strides", Ints{2}}})});
  ASSERT_TRUE(r.ok()) << r.status();
  EXPECT_EQ(output_of<float>(*r), (std::vector<float>{10.5f, 1.5f, 20.5f, 2.5f, 30.5f, 3.5f}));
}

TEST(ConvTranspose, OutputSizes) {
  const Tensor x = tensor_of<float>({1, 1, 3}, {1, 2, 3}), w = tensor_of<float>({1, 1, 3}, {1, 1, 1});
  const struct {
    const char* what;
    std::vector<std::pair<std::string, AttributeValue>> attributes;
    std::vector<float> want;
  } cases[] = {
      {"stride 2", {{"strides", Ints{2}}}, {1, 1, 3, 2, 5, 3, 3}},
      {"pads", {{"strides", Ints{2}}, {"pads", Ints{1, 2}}}, {1, 3, 2, 5}},
      {"output padding", {{"strides", Ints{2}}, {"output_padding", Ints{1}}}, {1, 1, 3, 2, 5, 3, 3, 0}},
      {"same upper", {{"strides", Ints{2}}, {"auto_pad", std::string("SAME_UPPER")}}, {1, 1, 3, 2, 5, 3}},
      {"same lower", {{"strides", Ints{2}}, {"auto_pad", std::string("SAME_LOWER")}}, {1, 3, 2, 5, 3, 3}},
      {"output shape", {{"strides", Ints{2}}, {"output_shape", Ints{8}}}, {1, 1, 3, 2, 5, 3, 3, 0}},
      {"output shape, smaller", {{"strides", Ints{2}}, {"output_shape", Ints{5}}}, {1, 3, 2, 5, 3}},
      {"dilation", {{"dilations", Ints{2}}}, {1, 2, 4, 2, 4, 2, 3}},
  };
  for (const auto& c : cases) {
    const auto r = run_case({.op = "ConvTranspose", .inputs = {x, w}, .attributes = attributes(c.attributes)});
    ASSERT_TRUE(r.ok()) << c.what << r.status();
    EXPECT_EQ(output_of<float>(*r), c.want) << c.what;
  }
}

TEST(ConvTranspose, EveryTypeAgreesWithDouble) {
  const struct {
    Ints x, w;
    std::vector<std::pair<std::string, AttributeValue>> attributes;
  } cases[] = {
      {{2, 6, 5, 4}, {6, 5, 3, 2}, {{"strides", Ints{2, 3}}, {"pads", Ints{1, 0, 0, 1}}}},
      {{1, 8, 5, 4}, {8, 3, 2, 2}, {{"group", int64_t{4}}, {"dilations", Ints{2, 1}}}},
      {{1, 4, 40}, {4, 16, 4}, {{"strides", Ints{4}}}},
      {{1, 3, 2, 3, 4}, {3, 2, 2, 1, 3}, {{"strides", Ints{1, 2, 1}}}},
      {{0, 3, 4}, {3, 2, 2}, {}},
  };
  for (const auto& c : cases) {
    const auto run = [&]<typename T>() {
      return run_case({.op = "ConvTranspose",
                       .inputs = {random<T>(c.x, 1), random<T>(c.w, 2)},
                       .attributes = attributes(c.attributes)});
    };
    const auto f64 = run.operator()<double>();
    ASSERT_TRUE(f64.ok()) << f64.status();
    const auto want = output_of<double>(*f64);
    const auto f32 = run.operator()<float>();
    const auto f16 = run.operator()<Float16>();
    const auto bf16 = run.operator()<BFloat16>();
    ASSERT_TRUE(f32.ok() && f16.ok() && bf16.ok()) << f32.status();
    for (size_t i = 0; i < want.size(); ++i) {
      EXPECT_NEAR(output_of<float>(*f32)[i], want[i], 1e-5) << f32->facts.kernel;
      EXPECT_NEAR(static_cast<float>(output_of<Float16>(*f16)[i]), want[i], 1e-2);
      EXPECT_NEAR(static_cast<float>(output_of<BFloat16>(*bf16)[i]), want[i], 5e-2);
    }
  }
}

TEST(ConvTranspose, Refuses) {
  const Tensor x = random<float>({1, 4, 5}, 1), w = random<float>({4, 2, 3}, 2);
  const struct {
    OpCase c;
    const char* expected;
  } cases[] = {
      {{.op = "ConvTranspose", .inputs = {x, random<float>({3, 2, 3}, 2)}}, "channels"},
      {{.op = "ConvTranspose", .inputs = {x, w}, .attributes = attributes({{"group", int64_t{3}}})}, "groups"},
      {{.op = "ConvTranspose", .inputs = {x, w}, .attributes = attributes({{"pads", Ints{9, 9}}})}, "pads"},
      {{.op = "ConvTranspose", .inputs = {x, w}, .attributes = attributes({{"output_shape", Ints{9, 9}}})},
       "output_shape"},
      {{.op = "ConvTranspose", .inputs = {x, w, random<float>({3}, 2)}}, "bias"},
      {{.op = "ConvTranspose", .inputs = {x, random<float>({4, 2}, 2)}}, "rank"},
  };
  for (const auto& c : cases) {
    const auto r = run_case(c.c);
    ASSERT_FALSE(r.ok()) << c.expected;
    EXPECT_NE(r.status().message().find(c.expected), std::string::npos) << r.status();
  }
}

}  // namespace
}  // namespace forethought
