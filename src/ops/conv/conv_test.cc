// Conv and FusedConv: known answers, every type and layout against f64, refusals.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>

#include "kernels/onednn/onednn.h"
#include "ops/op_testing.h"

namespace forethought {
namespace {

using Ints = std::vector<int64_t>;

Tensor random(DType dtype, const Ints& dims, unsigned seed) {
  std::mt19937 rng(seed);
  std::uniform_real_distribution<float> u(-1, 1);
  Tensor t = make_tensor(dtype, dims).value();
  dispatch(dtype, FloatTypes{}, [&]<typename T>() {
    // Through bf16, so that every type holds the same numbers.
    for (int64_t i = 0; i < t.elements(); ++i)
      t.as<T>()[i] = static_cast<T>(static_cast<float>(Float16(static_cast<float>(BFloat16(u(rng))))));
  });
  return t;
}

std::vector<double> doubles(const Tensor& t) {
  std::vector<double> r;
  dispatch(t.dtype, FloatTypes{}, [&]<typename T>() {
    for (int64_t i = 0; i < t.elements(); ++i) {
      if constexpr (std::is_same_v<T, double>) {
        r.push_back(t.as<T>()[i]);
      } else {
        r.push_back(static_cast<float>(t.as<T>()[i]));
      }
    }
  });
  return r;
}

Tensor to_blocked(const Tensor& t, int64_t b) {
  const int64_t n = t.dims[0], c = t.dims[1], blocks = (c + b - 1) / b,
                spatial = t.elements() / std::max<int64_t>(1, n * c);
  Tensor r = make_tensor(t.dtype, Ints{n * blocks * b * spatial}).value();
  for (int64_t i = 0; i < n * c * spatial; ++i) {
    const int64_t s = i % spatial, ch = i / spatial % c, img = i / spatial / c;
    r.as<float>()[((img * blocks + ch / b) * spatial + s) * b + ch % b] = t.as<float>()[i];
  }
  r.dims = t.dims;
  r.layout = Layout::blocked(static_cast<uint8_t>(b));
  return r;
}

struct Case {
  const char* name;
  Ints x, w;
  std::vector<std::pair<std::string, AttributeValue>> attributes;
  Ints y;
};

const Case kCases[] = {
    {"plain 3x3", {1, 5, 7, 6}, {4, 5, 3, 3}, {{"pads", Ints{1, 1, 1, 1}}}, {1, 4, 7, 6}},
    {"valid", {2, 4, 7, 6}, {8, 4, 3, 2}, {{"auto_pad", std::string("VALID")}, {"strides", Ints{2, 2}}}, {2, 8, 3, 3}},
    {"same upper",
     {1, 3, 7, 7},
     {8, 3, 3, 3},
     {{"auto_pad", std::string("SAME_UPPER")}, {"strides", Ints{2, 2}}},
     {1, 8, 4, 4}},
    {"same lower",
     {1, 6, 8, 7},
     {8, 6, 2, 4},
     {{"auto_pad", std::string("SAME_LOWER")}, {"strides", Ints{2, 3}}},
     {1, 8, 4, 3}},
    {"groups", {1, 16, 6, 6}, {16, 4, 1, 1}, {{"group", int64_t{4}}}, {1, 16, 6, 6}},
    {"odd groups", {2, 40, 9, 7}, {60, 20, 1, 1}, {{"group", int64_t{2}}}, {2, 60, 9, 7}},
    {"odd groups, 1-d", {1, 36, 5}, {36, 18, 1}, {{"group", int64_t{2}}}, {1, 36, 5}},
    {"odd groups, strides",
     {1, 40, 6, 6},
     {40, 20, 1, 1},
     {{"group", int64_t{2}}, {"strides", Ints{2, 2}}},
     {1, 40, 3, 3}},
    {"block groups", {1, 32, 6, 6}, {64, 16, 3, 3}, {{"group", int64_t{2}}}, {1, 64, 4, 4}},
    {"depthwise",
     {1, 20, 6, 6},
     {20, 1, 3, 3},
     {{"group", int64_t{20}}, {"dilations", Ints{2, 1}}, {"kernel_shape", Ints{3, 3}}},
     {1, 20, 2, 4}},
    {"1-d", {2, 8, 11}, {6, 8, 4}, {{"pads", Ints{0, 3}}, {"strides", Ints{2}}}, {2, 6, 6}},
    {"3-d", {1, 18, 4, 5, 3}, {16, 18, 2, 3, 1}, {{"pads", Ints{1, 0, 0, 0, 1, 0}}}, {1, 16, 4, 4, 3}},
    {"4-d", {1, 2, 3, 4, 3, 5}, {3, 2, 2, 2, 1, 2}, {}, {1, 3, 2, 3, 3, 4}},
    {"pads beyond the kernel", {1, 16, 3, 3}, {8, 16, 1, 1}, {{"pads", Ints{2, 1, 1, 3}}}, {1, 8, 6, 7}},
    {"empty batch", {0, 3, 5, 5}, {4, 3, 3, 3}, {}, {0, 4, 3, 3}},
};

TEST(Conv, EveryTypeAndLayoutAgreesWithDouble) {
  const int64_t block = kernels::onednn::channel_block(active_isa());
  for (const Case& c : kCases) {
    const Ints bias_dims{c.w[0]};
    const auto run = [&](DType t, bool constant, bool bias, Layout in, Layout out) {
      OpCase oc{.op = "Conv", .attributes = attributes(c.attributes)};
      Tensor x = random(t, c.x, 1);
      if (in.is_blocked()) x = to_blocked(x, block);
      oc.inputs = {x, random(t, c.w, 2)};
      if (bias) oc.inputs.push_back(random(t, bias_dims, 3));
      if (constant) oc.constants = 6;
      oc.input_layouts = {in};
      oc.output_layouts = {out};
      return run_case(oc);
    };
    for (bool bias : {false, true}) {
      const auto want = run(DType::kDouble, false, bias, {}, {});
      ASSERT_TRUE(want.ok()) << c.name << ": " << want.status();
      const Tensor& w = want->outputs[0].tensor();
      EXPECT_EQ(Ints(w.dims.begin(), w.dims.end()), c.y) << c.name;
      const auto expected = doubles(w);
      for (DType t : {DType::kFloat, DType::kFloat16, DType::kBFloat16}) {
        const double tolerance = t == DType::kFloat ? 1e-5 : t == DType::kFloat16 ? 2e-3 : 2e-2;
        for (bool constant : {false, true}) {
          const auto got = run(t, constant, bias, {}, {});
          ASSERT_TRUE(got.ok()) << c.name << ": " << got.status();
          const auto values = doubles(got->outputs[0].tensor());
          ASSERT_EQ(values.size(), expected.size());
          for (size_t i = 0; i < values.size(); ++i)
            ASSERT_NEAR(values[i], expected[i], tolerance * (1 + std::abs(expected[i])))
                << c.name << " " << name(t) << " " << got->facts.kernel << " at " << i;
        }
      }
      if (!kernels::onednn::serves(active_isa()) || c.x[0] == 0) continue;
      const Layout blocked = Layout::blocked(static_cast<uint8_t>(block));
      for (Layout in : {Layout::plain(), blocked})
        for (Layout out : {Layout::plain(), blocked}) {
          const auto got = run(DType::kFloat, true, bias, in, out);
          ASSERT_TRUE(got.ok()) << c.name << ": " << got.status();
          Tensor plain = w;
          Tensor f32 = make_tensor(DType::kFloat, w.dims).value();
          for (int64_t i = 0; i < f32.elements(); ++i) f32.as<float>()[i] = static_cast<float>(expected[i]);
          const Tensor want_here = out.is_blocked() ? to_blocked(f32, block) : f32;
          const Tensor& y = got->outputs[0].tensor();
          const int64_t n = storage_elements(out, w.dims).value();
          for (int64_t i = 0; i < n; ++i)
            ASSERT_NEAR(y.as<float>()[i], want_here.as<float>()[i], 1e-5 * (1 + std::abs(want_here.as<float>()[i])))
                << c.name << " " << to_string(in) << " to " << to_string(out) << " " << got->facts.kernel << " at "
                << i;
        }
    }
  }
}

// Pitfall 19: a grouped convolution followed by a full-size addend, fused, is the unfused sum.
TEST(FusedConv, AddsTheResidualBeforeTheActivation) {
  const int64_t block = kernels::onednn::channel_block(active_isa());
  const Tensor x = random(DType::kFloat, {1, 16, 6, 6}, 1), w = random(DType::kFloat, {16, 4, 1, 1}, 2);
  const Tensor w2 = random(DType::kFloat, {16, 16, 1, 1}, 2);
  const Tensor bias = random(DType::kFloat, {16}, 3), z = random(DType::kFloat, {1, 16, 6, 6}, 4);
  const Tensor x3 = random(DType::kFloat, {1, 36, 6, 7}, 1), w3 = random(DType::kFloat, {36, 18, 1, 1}, 2);
  const Tensor bias3 = random(DType::kFloat, {36}, 3), z3 = random(DType::kFloat, {1, 36, 6, 7}, 4);
  for (bool share : {false, true}) {
    const auto plain =
        run_case({.op = "Conv", .inputs = {x3, w3, bias3}, .attributes = attributes({{"group", int64_t{2}}})});
    const auto fused = run_case({.op = "FusedConv",
                                 .inputs = {x3, w3, bias3, z3},
                                 .attributes = attributes({{"group", int64_t{2}}, {"activation", std::string("Relu")}}),
                                 .domain = "forethought",
                                 .constants = 6,
                                 .share = share});
    ASSERT_TRUE(plain.ok() && fused.ok()) << fused.status();
    const auto base = output_of<float>(*plain), got = output_of<float>(*fused);
    for (size_t i = 0; i < base.size(); ++i)
      ASSERT_NEAR(got[i], std::max(0.0f, base[i] + z3.as<float>()[i]), 1e-5)
          << fused->facts.kernel << share << " at " << i;
  }
  for (int64_t group : {4, 1})
    for (bool share : {false, true})
      for (bool blocked : {false, true}) {
        if (blocked && (group != 1 || !kernels::onednn::serves(active_isa()))) continue;
        const Tensor& weights = group == 1 ? w2 : w;
        const auto plain =
            run_case({.op = "Conv", .inputs = {x, weights, bias}, .attributes = attributes({{"group", group}})});
        ASSERT_TRUE(plain.ok());
        const auto base = output_of<float>(*plain);
        OpCase c{.op = "FusedConv", .domain = "forethought", .constants = 6, .share = share};
        c.attributes = attributes({{"group", group},
                                   {"activation", std::string("Clip")},
                                   {"activation_params", std::vector<float>{-0.5f, 0.5f}}});
        c.inputs = {x, weights, bias, blocked ? to_blocked(z, block) : z};
        if (blocked)
          c.input_layouts = {{}, {}, {}, Layout::blocked(static_cast<uint8_t>(block))},
          c.output_layouts = {c.input_layouts[3]};
        const auto fused = run_case(c);
        ASSERT_TRUE(fused.ok()) << fused.status();
        Tensor want = make_tensor(DType::kFloat, Ints{1, 16, 6, 6}).value();
        for (size_t i = 0; i < base.size(); ++i)
          want.as<float>()[i] = std::clamp(base[i] + z.as<float>()[i], -0.5f, 0.5f);
        if (blocked) want = to_blocked(want, block);
        const Tensor& y = fused->outputs[0].tensor();
        for (size_t i = 0; i < base.size(); ++i)
          ASSERT_NEAR(y.as<float>()[i], want.as<float>()[i], 1e-5) << group << share << blocked << " at " << i;
      }
}

TEST(FusedConv, KeepsNaNThroughEveryActivation) {
  std::vector<float> x(16 * 9, 1.0f);
  x[4] = NAN;
  for (const char* activation :
       {"", "Relu", "LeakyRelu", "Clip", "Elu", "Sigmoid", "Tanh", "HardSwish", "HardSigmoid"}) {
    const auto r = run_case({.op = "FusedConv",
                             .inputs = {tensor_of<float>({1, 16, 3, 3}, x), random(DType::kFloat, {16, 16, 1, 1}, 2)},
                             .attributes = attributes({{"activation", std::string(activation)}}),
                             .domain = "forethought",
                             .constants = 2});
    ASSERT_TRUE(r.ok()) << r.status();
    const auto y = output_of<float>(*r);
    EXPECT_TRUE(std::isnan(y[4])) << activation << ": " << y[4] << " from " << r->facts.kernel;
    EXPECT_FALSE(std::isnan(y[3])) << activation;
  }
}

TEST(Conv, SaysWhatItChose) {
  const auto f64 = run_case(
      {.op = "Conv", .inputs = {random(DType::kDouble, {1, 4, 5, 5}, 1), random(DType::kDouble, {4, 4, 3, 3}, 2)}});
  ASSERT_TRUE(f64.ok());
  EXPECT_EQ(f64->facts.kernel, "conv.reference.f64");
  ASSERT_EQ(f64->facts.refused.size(), 1u);
  EXPECT_NE(f64->facts.refused[0].reason.find("f64"), std::string::npos) << f64->facts.refused[0].reason;
  if (!kernels::onednn::serves(active_isa())) return;
  const auto f32 = run_case({.op = "Conv",
                             .inputs = {random(DType::kFloat, {1, 4, 5, 5}, 1), random(DType::kFloat, {4, 4, 3, 3}, 2)},
                             .constants = 2});
  ASSERT_TRUE(f32.ok());
  EXPECT_EQ(f32->facts.kernel, std::string("conv.onednn.direct.f32.") + name(active_isa()));
  EXPECT_NE(f32->facts.reason.find("jit"), std::string::npos) << f32->facts.reason;
  for (const int64_t width : {32, 33}) {
    const auto wide =
        run_case({.op = "Conv",
                  .inputs = {random(DType::kFloat, {1, 4, 5, width}, 1), random(DType::kFloat, {4, 4, 3, 3}, 2)},
                  .constants = 2});
    ASSERT_TRUE(wide.ok());
    EXPECT_EQ(wide->facts.kernel, std::string("conv.blocked.f32.") + name(active_isa()));
    EXPECT_NE(wide->facts.reason.find("any extents"), std::string::npos) << wide->facts.reason;
  }
}

TEST(Conv, Refuses) {
  const Tensor x = random(DType::kFloat, {1, 4, 5, 5}, 1), w = random(DType::kFloat, {4, 4, 3, 3}, 2);
  const struct {
    const char* what;
    OpCase c;
    const char* expected;
  } cases[] = {
      {"channels", {.op = "Conv", .inputs = {x, random(DType::kFloat, {4, 3, 3, 3}, 2)}}, "channels"},
      {"groups",
       {.op = "Conv",
        .inputs = {x, random(DType::kFloat, {3, 2, 3, 3}, 2)},
        .attributes = attributes({{"group", int64_t{2}}})},
       "groups"},
      {"group 0", {.op = "Conv", .inputs = {x, w}, .attributes = attributes({{"group", int64_t{0}}})}, "'group'"},
      {"rank", {.op = "Conv", .inputs = {x, random(DType::kFloat, {4, 4, 3}, 2)}}, "rank"},
      {"no space",
       {.op = "Conv", .inputs = {random(DType::kFloat, {1, 4}, 1), random(DType::kFloat, {4, 4}, 1)}},
       "spatial"},
      {"bias", {.op = "Conv", .inputs = {x, w, random(DType::kFloat, {5}, 3)}}, "bias"},
      {"kernel too big", {.op = "Conv", .inputs = {x, random(DType::kFloat, {4, 4, 6, 6}, 2)}}, "reaches"},
      {"strides", {.op = "Conv", .inputs = {x, w}, .attributes = attributes({{"strides", Ints{0, 1}}})}, "'strides'"},
      {"dilations",
       {.op = "Conv", .inputs = {x, w}, .attributes = attributes({{"dilations", Ints{1, int64_t{1} << 40}}})},
       "'dilations'"},
      {"pads", {.op = "Conv", .inputs = {x, w}, .attributes = attributes({{"pads", Ints{1, 1}}})}, "'pads'"},
      {"auto_pad",
       {.op = "Conv", .inputs = {x, w}, .attributes = attributes({{"auto_pad", std::string("SAME")}})},
       "'auto_pad'"},
      {"types", {.op = "Conv", .inputs = {x, random(DType::kDouble, {4, 4, 3, 3}, 2)}}, "one type"},
      {"activation",
       {.op = "FusedConv",
        .inputs = {x, w},
        .attributes = attributes({{"activation", std::string("Sin")}}),
        .domain = "forethought"},
       "'Sin'"},
  };
  for (const auto& c : cases) {
    const auto r = run_case(c.c);
    ASSERT_FALSE(r.ok()) << c.what;
    EXPECT_NE(r.status().message().find(c.expected), std::string::npos) << c.what << ": " << r.status();
  }
}

}  // namespace
}  // namespace forethought
