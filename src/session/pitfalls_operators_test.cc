// Small models that made runtimes give wrong results: corners of operators, and rewrites that touch too much.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/half.h"
#include "graph/text.h"
#include "session/session_testing.h"

namespace forethought {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

Value vec(const std::vector<float>& v) { return tensor_of<float>({static_cast<int64_t>(v.size())}, v); }

Tensor random(std::initializer_list<int64_t> dims, unsigned seed) {
  std::mt19937 engine(seed);
  Tensor t = make_tensor(DType::kFloat, Dims(dims)).value();
  for (int64_t i = 0; i < t.elements(); ++i) t.as<float>()[i] = static_cast<float>(engine() % 2001) / 500 - 2;
  return t;
}

std::string list(const Tensor& t) { return absl::StrCat("[", absl::StrJoin(floats(t), ", "), "]"); }

// What a session that cannot be made, or whose run fails, says; empty if all went well.
std::string complaint(std::string_view text, const std::vector<Value>& in, const SessionOptions& o) {
  auto g = graph_from_text(text);
  EXPECT_TRUE(g.ok()) << g.status();
  if (!g.ok()) return "";
  auto s = Session::from_graph(std::move(*g), o);
  if (!s.ok()) return std::string(s.status().message());
  std::vector<Value> out((*s)->outputs().size());
  return std::string((*s)->run_ordered(in, out).message());
}

void expect_refused(std::string_view text, const std::vector<Value>& in, std::string_view part) {
  for (const SessionOptions& o : every_option()) {
    const std::string said = complaint(text, in, o);
    EXPECT_NE(said.find(part), std::string::npos) << to_string(o) << ": '" << said << "' for " << text;
  }
}

TEST(Pitfalls, P7_PoolingTailWithCeilMode) {
  const Tensor x = random({1, 2, 3, 6, 5}, 1);
  auto out = run_everywhere(R"(graph(%x: f32[1,2,3,6,5]) {
    %y = MaxPool<kernel_shape=[3, 3, 3], strides=[3, 3, 3], pads=[1, 1, 1, 1, 1, 1], ceil_mode=1>(%x)
    return %y
  })",
                            {x});
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(dims_of(out[0]), (Dims{1, 2, 2, 3, 2}));
  const std::set<float> values(x.as<float>(), x.as<float>() + x.elements());
  for (float v : floats(out[0])) EXPECT_TRUE(values.count(v)) << v;
}

TEST(Pitfalls, P8_LimitsOfReflectPadding) {
  expect_refused("graph(%d: f32[3,2]) { %y = Pad<mode=\"reflect\">(%d, [0, 2, 0, 0]) return %y }", {random({3, 2}, 1)},
                 "reflect");
  expect_refused("graph(%d: f32[n,m]) { %y = Pad<mode=\"reflect\">(%d, [0, 2, 0, 0]) return %y }", {random({3, 2}, 1)},
                 "reflect");
  expect_refused("graph(%d: f32[6]) { %y = Pad<mode=\"reflect\">(%d, [-5, 5]) return %y }", {random({6}, 1)},
                 "reflect");
  std::vector<float> up(12);
  for (int i = 0; i < 12; ++i) up[i] = static_cast<float>(i);
  auto out = run_everywhere("graph(%d: f32[3,4]) { %y = Pad<mode=\"reflect\">(%d, [1, 0, 0, 0]) return %y }",
                            {tensor_of<float>({3, 4}, up)});
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(dims_of(out[0]), (Dims{4, 4}));
  EXPECT_EQ(std::vector<float>(out[0].tensor().as<float>(), out[0].tensor().as<float>() + 8),
            (std::vector<float>{4, 5, 6, 7, 0, 1, 2, 3}));
}

TEST(Pitfalls, P9_NaNInReductions) {
  const char* text = R"(graph(%x: f32[n]) {
    %y = ReduceMax<keepdims=0>(%x)
    %z = ReduceMin<keepdims=0>(%x)
    return %y, %z
  })";
  for (const SessionOptions& o : every_option()) {
    auto s = session_of(text, o);
    ASSERT_TRUE(s);
    auto is_nan = [&](const std::vector<float>& x) {
      std::vector<Value> out(2);
      const Status ran = s->run_ordered(std::vector<Value>{vec(x)}, out);
      EXPECT_TRUE(ran.ok()) << ran;
      return ran.ok() && std::isnan(floats(out[0])[0]) && std::isnan(floats(out[1])[0]);
    };
    for (int n = 2; n <= 70; ++n) {
      std::vector<float> x(n, kNaN);
      x.back() = 42;
      EXPECT_TRUE(is_nan(x)) << to_string(o) << " n " << n;
    }
    for (int at = 0; at < 70; ++at) {
      std::vector<float> x(70, 1);
      x[at] = kNaN;
      EXPECT_TRUE(is_nan(x)) << to_string(o) << " at " << at;
    }
  }
}

TEST(Pitfalls, P9_NaNInComparisons) {
  for (bool first : {true, false}) {
    auto call = [&](const char* op) { return absl::StrCat(op, first ? "(%x, f32 [10.0])" : "(f32 [10.0], %x)"); };
    auto out = run_everywhere(
        absl::StrCat("graph(%x: f32[N,1]) { %a = ", call("Min"), " %b = ", call("Max"), " return %a, %b }"),
        {tensor_of<float>({3, 1}, {kNaN, 1, 20})});
    ASSERT_EQ(out.size(), 2u);
    EXPECT_TRUE(std::isnan(floats(out[0])[0]));
    EXPECT_EQ(floats(out[0])[1], 1);
    EXPECT_EQ(floats(out[0])[2], 10);
    EXPECT_TRUE(std::isnan(floats(out[1])[0]));
    EXPECT_EQ(floats(out[1])[1], 10);
    EXPECT_EQ(floats(out[1])[2], 20);
  }
}

TEST(Pitfalls, P10_ReductionOverAZeroLengthAxis) {
  for (const char* shape : {"[2,0,4]", "[a,b,c]"}) {
    auto out = run_everywhere(absl::StrCat("graph(%x: f32", shape,
                                           ") { %k = ReduceSum(%x, [1]) %n = ReduceSum<keepdims=0>(%x, [1]) %m = "
                                           "ReduceMax(%x, [1]) return %k, %n, %m }"),
                              {random({2, 0, 4}, 1)});
    ASSERT_EQ(out.size(), 3u);
    EXPECT_EQ(dims_of(out[0]), (Dims{2, 1, 4}));
    EXPECT_EQ(dims_of(out[1]), (Dims{2, 4}));
    EXPECT_EQ(floats(out[0]), std::vector<float>(8, 0.0f));
    EXPECT_EQ(floats(out[1]), std::vector<float>(8, 0.0f));
    for (float v : floats(out[2])) EXPECT_EQ(v, -std::numeric_limits<float>::infinity());
  }
  auto out = run_everywhere("graph(%x: f32[0]) { %y = ReduceSum(%x) return %y }", {random({0}, 1)});
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(dims_of(out[0]), (Dims{1}));
  EXPECT_EQ(floats(out[0]), std::vector<float>{0});
}

TEST(Pitfalls, P11_ZeroSizeMatMul) {
  for (bool known : {true, false}) {
    auto product = [&](const char* a, const char* b, const Tensor& x, const Tensor& y) {
      auto out = run_everywhere(absl::StrCat("graph(%a: f32", known ? a : "[i]", ", %b: f32", known ? b : "[j]",
                                             ") { %y = MatMul(%a, %b) return %y }"),
                                {x, y});
      EXPECT_EQ(out.size(), 1u);
      return out.empty() ? Dims{-1} : dims_of(out[0]);
    };
    if (known) {
      EXPECT_EQ(product("[0,2]", "[2]", random({0, 2}, 1), random({2}, 1)), (Dims{0}));
      EXPECT_EQ(product("[0,2,3]", "[1,3,2]", random({0, 2, 3}, 1), random({1, 3, 2}, 1)), (Dims{0, 2, 2}));
    }
    EXPECT_EQ(product("[0]", "[0]", random({0}, 1), random({0}, 1)), Dims{});
  }
  for (const char* op : {"MatMul(%a, %w) %y = Add(%p, f32 [1.0, 2.0, 3.0])", "Gemm(%a, %w, f32 [1.0, 2.0, 3.0])"}) {
    const bool gemm = op[0] == 'G';
    for (const char* w : {"const %w: f32[0,3] = []", ""}) {
      std::vector<Value> in{random({2, 0}, 1)};
      if (!*w) in.push_back(random({0, 3}, 1));
      auto out = run_everywhere(absl::StrCat("graph(%a: f32[2,0]", *w ? "" : ", %w: f32[0,3]", ") { ", w,
                                             gemm ? " %y = " : " %p = ", op, " return %y }"),
                                in);
      ASSERT_EQ(out.size(), 1u);
      EXPECT_EQ(floats(out[0]), (std::vector<float>{1, 2, 3, 1, 2, 3})) << op;
    }
  }
}

TEST(Pitfalls, P12_NormalisingAConstantRow) {
  for (float value : {1234.0f, 1e6f}) {
    Tensor x = tensor_of<float>({1, 1, 256}, std::vector<float>(256, value));
    auto out = run_everywhere(
        "graph(%x: f32[1,1,256]) { %y = InstanceNormalization(%x, f32 [1.0], f32 [0.0]) return %y }", {x});
    ASSERT_EQ(out.size(), 1u);
    EXPECT_EQ(floats(out[0]), std::vector<float>(256, 0.0f));
  }
}

TEST(Pitfalls, P16_ResizeMustNotMixBatches) {
  auto out = run_everywhere(R"(graph(%x: f32[2,1,2,2]) {
    %y = Resize<mode="nearest", coordinate_transformation_mode="tf_half_pixel_for_nn", nearest_mode="ceil">(%x, _, _, [2, 1, 6, 6])
    return %y
  })",
                            {tensor_of<float>({2, 1, 2, 2}, {0, 0, 0, 0, 1, 1, 1, 1})});
  ASSERT_EQ(out.size(), 1u);
  ASSERT_EQ(dims_of(out[0]), (Dims{2, 1, 6, 6}));
  for (int i = 0; i < 72; ++i) ASSERT_EQ(floats(out[0])[i], i < 36 ? 0 : 1) << i;
}

TEST(Pitfalls, P17_MultiplyByAReciprocal) {
  const Value x = vec({1, 2, 3});
  const char* before[] = {"%m = Identity(%x)", "%m = Cast<to=1>(%x)", "%m, %mask = Dropout(%x)", "%m = Dropout(%x)"};
  for (const char* pass : before)
    for (const char* product : {"Mul(%m, %f)", "Mul(%f, %m)"}) {
      const std::string rest = absl::StrCat(pass, " %f = Div(f32 [1.0], %z) %y = ", product, " return %y }");
      auto constant = run_everywhere("graph(%x: f32[3]) { const %z: f32[1] = [4.0] " + rest, {x});
      ASSERT_EQ(constant.size(), 1u) << rest;
      EXPECT_EQ(floats(constant[0]), (std::vector<float>{0.25, 0.5, 0.75})) << rest;
      Tensor z = tensor_of<float>({2, 2, 1}, {1, 2, 4, 8});
      auto fed = run_everywhere("graph(%x: f32[3], %z: f32[2,2,1]) { " + rest, {x, z});
      ASSERT_EQ(fed.size(), 1u) << rest;
      EXPECT_EQ(floats(fed[0]), (std::vector<float>{1, 2, 3, .5, 1, 1.5, .25, .5, .75, .125, .25, .375})) << rest;
    }
  // z as [2,2,2] does not broadcast with x [3]: an error at every level, not a session that cannot be made at some.
  for (const char* product : {"Mul(%m, %f)", "Mul(%f, %m)"})
    expect_refused(absl::StrCat("graph(%x: f32[3], %z: f32[2,2,2]) { %m = Identity(%x) %f = Div(f32 [1.0], %z) %y = ",
                                product, " return %y }"),
                   {x, random({2, 2, 2}, 1)}, "broadcast");
}

template <typename T>
void relu_then_clip(const std::string& type, const std::vector<T>& x, const std::vector<T>& want) {
  for (const char* shape : {"[3]", "[n]"}) {
    const std::string low = absl::StrCat(type, "[] [-1]"), high = absl::StrCat(type, "[] [1]");
    auto out = run_everywhere(
        absl::StrCat("graph(%x: ", type, shape, ") { %t = Relu(%x) %y = Clip(%t, ", low, ", ", high, ") return %y }"),
        {tensor_of<T>({3}, x)});
    ASSERT_EQ(out.size(), 1u) << type;
    for (int i = 0; i < 3; ++i) EXPECT_EQ(out[0].tensor().template as<T>()[i], want[i]) << type << i;
  }
}

TEST(Pitfalls, P18_ReluThenClipOfEveryType) {
  relu_then_clip<double>("f64", {-2, 0.5, 3}, {0, 0.5, 1});
  relu_then_clip<float>("f32", {-2, 0.5, 3}, {0, 0.5, 1});
  relu_then_clip<int32_t>("i32", {-2, 0, 3}, {0, 0, 1});
  relu_then_clip<int64_t>("i64", {-2, 0, 3}, {0, 0, 1});
  relu_then_clip<int8_t>("i8", {-2, 0, 3}, {0, 0, 1});
  auto half = run_everywhere(
      "graph(%x: f16[3]) { %t = Relu(%x) %c = Clip(%t, f16[] [-1.0], f16[] [1.0]) %y = Cast<to=1>(%c) return %y }",
      {tensor_of<Float16>({3}, {Float16(-2.0f), Float16(0.5f), Float16(3.0f)})});
  ASSERT_EQ(half.size(), 1u);
  EXPECT_EQ(floats(half[0]), (std::vector<float>{0, 0.5, 1}));
  expect_refused("graph(%x: f32[3]) { %t = Relu(%x) %y = Clip(%t, f32[0] []) return %y }", {vec({1, 2, 3})}, "Clip");
  expect_refused("graph(%x: f32[3], %m: f32[0]) { %t = Relu(%x) %y = Clip(%t, %m) return %y }",
                 {vec({1, 2, 3}), random({0}, 1)}, "Clip");
}

TEST(Pitfalls, P19_GroupedConvolutionPlusAFullSizeConstant) {
  const Tensor x = random({1, 16, 6, 6}, 1), w = random({16, 4, 1, 1}, 2), b = random({16}, 3),
               k = random({1, 16, 6, 6}, 4);
  const std::string consts = absl::StrCat("const %w: f32[16,4,1,1] = ", list(w), " const %b: f32[16] = ", list(b),
                                          " const %k: f32[1,16,6,6] = ", list(k));
  for (const char* sum : {"Add(%c, %k)", "Add(%k, %c)"})
    for (bool relu : {false, true}) {
      auto out = run_everywhere(
          absl::StrCat("graph(%x: f32[1,16,6,6]) { ", consts, " %c = Conv<group=4>(%x, %w, %b) %s = ", sum,
                       relu ? " %y = Relu(%s)" : " %y = Identity(%s)", " return %y }"),
          {x}, 1e-5);
      ASSERT_EQ(out.size(), 1u);
      for (int o = 0; o < 16; ++o)
        for (int p = 0; p < 36; ++p) {
          double want = b.as<float>()[o] + k.as<float>()[o * 36 + p];
          for (int i = 0; i < 4; ++i)
            want += static_cast<double>(w.as<float>()[o * 4 + i]) * x.as<float>()[(o / 4 * 4 + i) * 36 + p];
          if (relu) want = std::max(want, 0.0);
          ASSERT_NEAR(floats(out[0])[o * 36 + p], want, 1e-4) << sum << o << " " << p;
        }
    }
}

TEST(Pitfalls, P20_GeluWithTaps) {
  const std::string body =
      "%a = Div(%x, 1.4142135) %e = Erf(%a) %p = Add(%e, 1.0) %q = Mul(%x, %p) %y = Mul(%q, 0.5) return ";
  auto one = run_everywhere("graph(%x: f32[]) { " + body + "%y }", {tensor_of<float>({}, {1})}, 1e-6);
  ASSERT_EQ(one.size(), 1u);
  EXPECT_TRUE(dims_of(one[0]).empty());
  EXPECT_NEAR(floats(one[0])[0], 0.8413447f, 1e-6);
  auto taps = run_everywhere("graph(%x: f32[2]) { " + body + "%y, %e, %q }", {vec({1, -1})}, 1e-6);
  ASSERT_EQ(taps.size(), 3u);
  EXPECT_NEAR(floats(taps[1])[0], 0.6826895f, 1e-6);
  EXPECT_NEAR(floats(taps[1])[1], -0.6826895f, 1e-6);
  EXPECT_NEAR(floats(taps[2])[0], 1.6826895f, 1e-6);
  EXPECT_NEAR(floats(taps[2])[1], -0.3173105f, 1e-6);
}

TEST(Pitfalls, P21_ChainsOfFoldedViews) {
  std::vector<float> w(4096);
  for (int i = 0; i < 4096; ++i) w[i] = static_cast<float>(i);
  const std::string text = absl::StrCat("graph(%x: f32[1,1]) { const %w: f32[64,64] = [", absl::StrJoin(w, ", "), R"(]
    %r = Reshape(%w, [1, 64, 64])
    %s = Squeeze(%r, [0])
    %f = Flatten<axis=0>(%s)
    %y = MatMul(%x, %f)
    return %y
  })");
  for (int session = 0; session < 10; ++session) {
    auto s = session_of(text);
    ASSERT_TRUE(s);
    for (int run = 0; run < 3; ++run) {
      std::vector<Value> out(1);
      const Status ran = s->run_ordered(std::vector<Value>{tensor_of<float>({1, 1}, {2})}, out);
      ASSERT_TRUE(ran.ok()) << ran;
      for (int i = 0; i < 4096; ++i) ASSERT_EQ(floats(out[0])[i], 2 * w[i]) << i;
    }
  }
  EXPECT_EQ(run_everywhere(text, {tensor_of<float>({1, 1}, {2})}).size(), 1u);
}

// Nothing to resize is no reason to divide by it.
TEST(Pitfalls, P16_ResizeOfNothing) {
  for (const char* shape : {"[1,0]", "[n,m]"})
    for (const char* mode : {"nearest", "linear", "cubic"}) {
      auto out = run_everywhere(absl::StrCat("graph(%x: f32", shape, ", %s: f32[k]) { %y = Resize<mode=\"", mode,
                                             "\">(%x, _, %s) return %y }"),
                                {random({1, 0}, 1), vec({2, 2})});
      ASSERT_EQ(out.size(), 1u);
      EXPECT_EQ(dims_of(out[0]), (Dims{2, 0}));
    }
}

// Shape arithmetic by a Slice that slices nothing, and a Squeeze of all axes that only the run tells.
TEST(Pitfalls, EmptyListsOfAxes) {
  auto same =
      run_everywhere("graph(%n: i64[0]) { const %c: i64[4] = [4, 5, 6, 7] %y = Slice(%c, i64[0] [], %n) return %y }",
                     {tensor_of<int64_t>({0}, {})});
  ASSERT_EQ(same.size(), 1u);
  EXPECT_EQ(int64s(same[0]), (std::vector<int64_t>{4, 5, 6, 7}));
  for (const char* shape : {"[0]", "[n]"})
    expect_refused(absl::StrCat("graph(%x: f32", shape, ", %a: i64[1]) { %y = Squeeze(%x, %a) return %y }"),
                   {random({0}, 1), tensor_of<int64_t>({1}, {0})}, "extent");
}

TEST(Pitfalls, P27_QuantisedEdges) {
  auto soft = run_everywhere(R"(graph(%x: i8[1,4]) {
    %d = DequantizeLinear(%x, 1.0, i8 0)
    %s = Softmax<axis=-1>(%d)
    %y = QuantizeLinear(%s, 0.00390625, i8 -128)
    return %y
  })",
                             {tensor_of<int8_t>({1, 4}, {127, -128, -128, -128})});
  ASSERT_EQ(soft.size(), 1u);
  const int8_t want[] = {127, -128, -128, -128};
  for (int i = 0; i < 4; ++i) EXPECT_EQ(soft[0].tensor().as<int8_t>()[i], want[i]);
  auto constant = run_everywhere(R"(graph() {
    const %c: i8[4] = [12, -45, 7, -3]
    %d = DequantizeLinear(%c, 0.02)
    %y = Reshape(%d, [2, 2])
    return %y
  })",
                                 {}, 1e-7);
  ASSERT_EQ(constant.size(), 1u);
  const float wanted[] = {.24f, -.9f, .14f, -.06f};
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(floats(constant[0])[i], wanted[i], 1e-6);
}

}  // namespace
}  // namespace forethought
