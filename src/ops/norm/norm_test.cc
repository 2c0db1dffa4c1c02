// BatchNormalization, InstanceNormalization, LRN: types, training, layouts, refusals.
#include <gtest/gtest.h>

#include <cmath>

#include "ops/op_testing.h"

namespace forethought {
namespace {

const std::vector<float> kX = {-1, 0, 1, 2, 3, 4, 5, 9};  // [2, 2, 2]

std::vector<Value> batch_inputs(Tensor x) {
  return {x, tensor_of<float>({2}, {1, 1.5f}), tensor_of<float>({2}, {0, 1}), tensor_of<double>({2}, {0, 3}),
          tensor_of<double>({2}, {1, 1.5})};
}

float expected(size_t i) {
  const bool second = i / 2 % 2;
  return second ? (kX[i] - 3) / std::sqrt(1.5f + 1e-2f) * 1.5f + 1 : kX[i] / std::sqrt(1 + 1e-2f);
}

TEST(BatchNormalization, InferenceWithMixedTypesAndInPlace) {
  for (bool share : {false, true}) {
    auto o = run_case({.op = "BatchNormalization",
                       .inputs = batch_inputs(tensor_of<float>({2, 2, 2}, kX)),
                       .attributes = attributes({{"epsilon", 1e-2f}}),
                       .share = share});
    ASSERT_TRUE(o.ok()) << o.status();
    for (size_t i = 0; i < kX.size(); ++i) EXPECT_NEAR(output_of<float>(*o)[i], expected(i), 1e-6);
  }
}

TEST(BatchNormalization, ChannelLayouts) {
  std::vector<float> blocked(2 * 2 * 8, 0), last(8);
  for (int n = 0; n < 2; ++n)
    for (int c = 0; c < 2; ++c)
      for (int i = 0; i < 2; ++i) {
        blocked[(n * 2 + i) * 8 + c] = kX[(n * 2 + c) * 2 + i];
        last[(n * 2 + i) * 2 + c] = kX[(n * 2 + c) * 2 + i];
      }
  Tensor b = tensor_of<float>({32}, blocked), l = tensor_of<float>({8}, last);
  b.dims = l.dims = {2, 2, 2};
  for (auto [x, layout] : {std::pair{b, Layout::blocked(8)}, std::pair{l, Layout::channels_last()}}) {
    auto o = run_case({.op = "BatchNormalization",
                       .inputs = batch_inputs(x),
                       .attributes = attributes({{"epsilon", 1e-2f}}),
                       .input_layouts = {layout},
                       .output_layouts = {layout}});
    ASSERT_TRUE(o.ok()) << o.status();
    const float* y = o->outputs[0].tensor().as<float>();
    for (int n = 0; n < 2; ++n)
      for (int c = 0; c < 8; ++c)
        for (int i = 0; i < 2; ++i) {
          if (c < 2) {
            EXPECT_NEAR(y[(n * 2 + i) * (layout.is_blocked() ? 8 : 2) + c], expected((n * 2 + c) * 2 + i), 1e-6);
          } else if (layout.is_blocked()) {
            EXPECT_EQ(y[(n * 2 + i) * 8 + c], 0.f);
          }
        }
  }
}

TEST(BatchNormalization, Training) {
  auto o = run_case({.op = "BatchNormalization",
                     .inputs = batch_inputs(tensor_of<float>({2, 2, 2}, kX)),
                     .attributes = attributes({{"training_mode", int64_t{1}}, {"momentum", 0.75f}}),
                     .outputs = 3});
  ASSERT_TRUE(o.ok()) << o.status();
  // Channel 0 is {-1, 0, 3, 4}: mean 1.5, variance 4.25; channel 1 is {1, 2, 5, 9}: mean 4.25, variance 9.6875.
  const auto mean = output_of<double>(*o, 1), var = output_of<double>(*o, 2);
  EXPECT_NEAR(mean[0], 0.25 * 1.5, 1e-12);
  EXPECT_NEAR(mean[1], 0.75 * 3 + 0.25 * 4.25, 1e-12);
  EXPECT_NEAR(var[0], 0.75 + 0.25 * 4.25, 1e-12);
  EXPECT_NEAR(var[1], 0.75 * 1.5 + 0.25 * 9.6875, 1e-12);
  EXPECT_NEAR(output_of<float>(*o)[0], -2.5 / std::sqrt(4.25 + 1e-5), 1e-6);
  EXPECT_NEAR(output_of<float>(*o)[7], 4.75 / std::sqrt(9.6875 + 1e-5) * 1.5 + 1, 1e-6);
}

TEST(BatchNormalization, OneAxisIsOneChannel) {
  const Tensor one = tensor_of<float>({1}, {1}), zero = tensor_of<float>({1}, {0});
  auto o = run_case({.op = "BatchNormalization",
                     .inputs = {tensor_of<float>({3}, {1, 2, 3}), one, one, zero, one},
                     .attributes = attributes({{"epsilon", 0.f}})});
  ASSERT_TRUE(o.ok()) << o.status();
  EXPECT_EQ(output_of<float>(*o), (std::vector<float>{2, 3, 4}));
}

TEST(InstanceNormalization, EachChannelOfEachInstance) {
  for (bool share : {false, true}) {
    auto o = run_case({.op = "InstanceNormalization",
                       .inputs = {tensor_of<float>({1, 2, 3}, {-1, 0, 1, 2, 3, 4}), tensor_of<float>({2}, {1, 1.5f}),
                                  tensor_of<float>({2}, {0, 1})},
                       .share = share});
    ASSERT_TRUE(o.ok()) << o.status();
    const float s = 1 / std::sqrt(2.f / 3 + 1e-5f);
    const std::vector<float> want = {-s, 0, s, 1 - 1.5f * s, 1, 1 + 1.5f * s};
    for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(output_of<float>(*o)[i], want[i], 1e-6);
  }
}

TEST(Lrn, NeighbouringChannels) {
  auto o = run_case({.op = "LRN",
                     .inputs = {tensor_of<float>({1, 4, 1}, {1, 2, 3, 4})},
                     .attributes = attributes({{"size", int64_t{2}}, {"alpha", 2.f}, {"beta", 1.f}, {"bias", 1.f}})});
  ASSERT_TRUE(o.ok()) << o.status();
  // The window of size 2 is the channel and the one after it.
  const std::vector<float> want = {1.f / 6, 2.f / 14, 3.f / 26, 4.f / 17};
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(output_of<float>(*o)[i], want[i], 1e-6);
}

TEST(Lrn, ChannelLayouts) {
  const auto run = [](Tensor x, Layout layout) {
    return run_case({.op = "LRN",
                     .inputs = {x},
                     .attributes = attributes({{"size", int64_t{2}}, {"alpha", 2.f}, {"beta", 1.f}, {"bias", 1.f}}),
                     .input_layouts = {layout},
                     .output_layouts = {layout}});
  };
  Tensor last = tensor_of<float>({4}, {1, 2, 3, 4}), blocked = tensor_of<float>({8}, {1, 2, 3, 4, 0, 0, 0, 0});
  last.dims = blocked.dims = {1, 4, 1};
  const std::vector<float> want = {1.f / 6, 2.f / 14, 3.f / 26, 4.f / 17, 0, 0, 0, 0};
  for (const auto& [x, layout] : {std::pair{last, Layout::channels_last()}, std::pair{blocked, Layout::blocked(8)}}) {
    auto o = run(x, layout);
    ASSERT_TRUE(o.ok()) << o.status();
    for (int i = 0; i < (layout.is_blocked() ? 8 : 4); ++i)
      EXPECT_NEAR(o->outputs[0].tensor().as<float>()[i], want[i], 1e-6) << i;
  }
}

TEST(Norms, Refusals) {
  const Tensor x = tensor_of<float>({2, 2, 2}, kX), three = tensor_of<float>({3}, {1, 2, 3}),
               two = tensor_of<float>({2}, {1, 2});
  struct {
    OpCase c;
    const char* says;
  } const rows[] = {
      {{.op = "BatchNormalization", .inputs = {x, three, two, two, two}}, "3 elements for 2 channels"},
      {{.op = "BatchNormalization", .inputs = {x, two, two, two, tensor_of<double>({2}, {1, 2})}}, "must be one"},
      {{.op = "BatchNormalization", .inputs = {x, two, two, two, two}, .outputs = 3}, "training_mode"},
      {{.op = "InstanceNormalization", .inputs = {x, three, two}}, "3 elements"},
      {{.op = "InstanceNormalization", .inputs = {x, two, tensor_of<double>({2}, {1, 2})}}, "double"},
      {{.op = "LRN", .inputs = {x}}, "'size' is missing"},
      {{.op = "LRN", .inputs = {x}, .attributes = attributes({{"size", int64_t{0}}})}, "at least one"},
      {{.op = "LRN", .inputs = {two}, .attributes = attributes({{"size", int64_t{1}}})}, "rank 1"},
  };
  for (const auto& r : rows) {
    auto o = run_case(r.c);
    ASSERT_FALSE(o.ok()) << r.says;
    EXPECT_NE(o.status().message().find(r.says), std::string::npos) << o.status();
  }
}

}  // namespace
}  // namespace forethought
