// Optimised graphs give the results of plain ones: convolution regions in blocked channels, folding, fusions.
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "base/cpu.h"
#include "graph/text.h"
#include "session/session_testing.h"

namespace forethought {
namespace {

// "const %name: f32[dims] = [...]" with numbers in [-1, 1).
std::string weights(const std::string& name, std::initializer_list<int64_t> dims) {
  std::string shape, values;
  int64_t n = 1;
  for (int64_t d : dims) {
    absl::StrAppend(&shape, shape.empty() ? "" : ",", d);
    n *= d;
  }
  uint32_t state = static_cast<uint32_t>(name.size() * 7919 + n);
  for (char c : name) state = state * 31 + static_cast<uint32_t>(c);
  for (int64_t i = 0; i < n; ++i) {
    state = state * 1664525 + 1013904223;
    absl::StrAppend(&values, values.empty() ? "" : ", ", static_cast<double>(state >> 8) / (1 << 23) - 1);
  }
  return absl::StrCat("const %", name, ": f32[", shape, "] = [", values, "] ");
}

Tensor ramp(std::initializer_list<int64_t> dims) {
  Tensor t = make_tensor(DType::kFloat, Dims(dims)).value();
  for (int64_t i = 0; i < t.elements(); ++i) t.as<float>()[i] = static_cast<float>((i * 37) % 101) / 50 - 1;
  return t;
}

constexpr double kRounding = 1e-4;

// Nodes of a type after all passes.
int count(const std::string& text, std::string_view type) {
  const auto session = session_of(text);
  int n = 0;
  if (!session) return -1;
  const Graph& g = *session->prepared().view;
  for (uint32_t i = 0; i < g.node_capacity(); ++i) n += !g.node(NodeId{i}).removed && g.node(NodeId{i}).op.type == type;
  return n;
}

std::string network(const std::string& input) {
  return "graph g(%x: f32[" + input + "]) { " + weights("w0", {32, 3, 3, 3}) + weights("b0", {32}) +
         weights("w1", {32, 32, 3, 3}) + weights("w2", {24, 32, 1, 1}) + weights("w3", {32, 24, 1, 1}) +
         weights("dw", {32, 1, 3, 3}) + weights("s1", {8, 32, 1, 1}) + weights("s2", {32, 8, 1, 1}) +
         weights("fc", {64, 5}) + weights("scale", {64}) + weights("shift", {64}) + weights("mean", {64}) +
         "const %var: f32[64] = [" +
         [] {
           std::string v = "1";
           for (int i = 1; i < 64; ++i) absl::StrAppend(&v, ", ", 1 + i % 3);
           return v;
         }() +
         "] "
         "%c0 = Conv<pads=[1, 1, 1, 1], strides=[2, 2]>(%x, %w0, %b0) %r0 = Relu(%c0) "
         "%p0 = MaxPool<kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]>(%r0) "
         "%c1 = Conv<pads=[1, 1, 1, 1]>(%p0, %w1) %a1 = Add(%c1, %p0) %r1 = Relu(%a1) "
         "%c2 = Conv(%r1, %w2) %h2 = HardSwish(%c2) %c3 = Conv(%h2, %w3) "
         "%d = Conv<group=32, pads=[1, 1, 1, 1]>(%c3, %dw) "
         "%g = GlobalAveragePool(%d) %g1 = Conv(%g, %s1) %g2 = Relu(%g1) %g3 = Conv(%g2, %s2) %g4 = HardSigmoid(%g3) "
         "%m = Mul(%d, %g4) %j = Concat<axis=1>(%m, %r1) "
         "%n = BatchNormalization(%j, %scale, %shift, %mean, %var) %e = Relu(%n) "
         "%q = GlobalAveragePool(%e) %f = Flatten(%q) %y = MatMul(%f, %fc) return %y, %r1 }";
}

TEST(Layouts, AConvolutionNetAtEveryLevel) {
  run_everywhere(network("1,3,20,28"), {ramp({1, 3, 20, 28})}, kRounding);
  run_everywhere(network("N,3,H,W"), {ramp({2, 3, 17, 23})}, kRounding);
}

TEST(Layouts, ReordersStandAtTheEdgesOnly) {
  if (active_isa() == Isa::scalar) GTEST_SKIP() << "the scalar tier has no blocked layouts";
  // For the graph output in the midst of the region; pooling to one pixel writes plain values itself.
  EXPECT_EQ(count(network("1,3,20,28"), "Reorder"), 1);
  EXPECT_EQ(count(network("1,3,20,28"), "Conv"), 2);
}

TEST(Layouts, OneConvolutionAloneNeedsNoReorderInFront) {
  const std::string text =
      "graph g(%x: f32[1,16,8,8]) { " + weights("w", {16, 16, 3, 3}) + "%y = Conv(%x, %w) return %y }";
  run_everywhere(text, {ramp({1, 16, 8, 8})}, kRounding);
}

TEST(Layouts, OddChannelsSplitsAndOneDimension) {
  run_everywhere(
      "graph g(%x: f32[N,7,L]) { " + weights("w", {19, 7, 3}) + weights("v", {5, 19, 3}) +
          "%a = Conv<pads=[1, 1]>(%x, %w) %b = Sigmoid(%a) %c = Conv<pads=[1, 1]>(%b, %v) %y = Exp(%c) return %y }",
      {ramp({2, 7, 33})}, kRounding);
  run_everywhere("graph g(%x: f32[N,3,H,W]) { " + weights("w", {32, 3, 3, 3}) + weights("v", {8, 16, 1, 1}) +
                     "%a = Conv(%x, %w) %b, %c = Split<axis=1, num_outputs=2>(%a) %d = Conv(%b, %v) %e = Conv(%c, %v) "
                     "%f = Concat<axis=1>(%d, %e) %y = Transpose<perm=[0, 2, 3, 1]>(%f) return %y }",
                 {ramp({2, 3, 9, 11})}, kRounding);
}

TEST(Layouts, InsideBodies) {
  run_everywhere(
      "graph g(%x: f32[1,16,6,6], %c: bool[]) { %y = If(%c; %x) { then_branch: graph(%a: f32[1,16,6,6]) { " +
          weights("w", {16, 16, 1, 1}) +
          "%p = Conv(%a, %w) %q = Relu(%p) %r = Conv(%q, %w) return %r } else_branch: graph(%b: f32[1,16,6,6]) { "
          "return %b } } return %y }",
      {ramp({1, 16, 6, 6}),
       [] {
         Tensor t = make_tensor(DType::kBool, {}).value();
         *t.as<uint8_t>() = 1;
         return t;
       }()},
      kRounding);
}

TEST(Passes, P17MultiplyByAReciprocal) {
  Tensor x = tensor_of<float>({3}, {1, 2, 3});
  for (const char* pass : {"Identity(%x)", "Cast<to=1>(%x)", "Dropout(%x)"})
    for (const char* product : {"Mul(%m, %f)", "Mul(%f, %m)"}) {
      const std::string body = std::string("%m = ") + pass + " %f = Div(%one, %z) %y = " + product + " return %y }";
      const auto r =
          run_everywhere("graph g(%x: f32[3]) { const %one: f32[1] = [1] const %z: f32[1] = [2] " + body, {x});
      EXPECT_EQ(floats(r[0]), (std::vector<float>{0.5f, 1, 1.5f}));
    }
}

TEST(Passes, P20GeluWithTaps) {
  Tensor x = tensor_of<float>({2}, {1, -1});
  const auto r = run_everywhere(
      "graph g(%x: f32[2]) { %a = Div(%x, 1.41421356) %e = Erf(%a) %p = Add(%e, 1.0) %q = Mul(%x, %p) "
      "%y = Mul(%q, 0.5) return %y, %e, %q }",
      {x});
  EXPECT_NEAR(floats(r[1])[0], 0.6826895f, 1e-5);
  EXPECT_NEAR(floats(r[2])[1], -0.3173105f, 1e-5);
}

TEST(Passes, P21ChainsOfFoldedViews) {
  for (int session = 0; session < 10; ++session) {
    const auto r = run_everywhere("graph g(%x: f32[1,1]) { " + weights("w", {8, 8}) +
                                      "%a = Reshape(%w, [1, 8, 8]) %b = Squeeze(%a, [0]) %c = Flatten<axis=0>(%b) %y = "
                                      "MatMul(%x, %c) return %y }",
                                  {tensor_of<float>({1, 1}, {2})});
    EXPECT_EQ(to_string(dims_of(r[0])), "[1,64]");
  }
}

TEST(Passes, OutputsThatBecomeConstant) {
  const auto r = run_everywhere(
      "graph g(%x: f32[2,3]) { %s = Shape(%x) %t = Identity(%s) %u = Neg(%x) %k = Mul(2.0, 3.0) "
      "return %s, %t, %u, %k }",
      {ramp({2, 3})});
  EXPECT_EQ(int64s(r[1]), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(floats(r[3])[0], 6);
}

}  // namespace
}  // namespace forethought
