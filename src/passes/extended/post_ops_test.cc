// The rules of the extended stage and the convolution rules of the basic one: a rewrite and a near miss each.
#include <gtest/gtest.h>

#include "ops/op.h"
#include "passes/rule_testing.h"

namespace forethought {
namespace {

constexpr double kFolded = 1e-5;  // rounding of folded weights

std::string conv_graph(std::string_view body, std::string_view constants = "") {
  return "graph g(%x: f32[N,2,4,4], %r: f32[N,2,4,4]) { const %w: f32[2,2,1,1] = [1, -2, 0.5, 3] " +
         std::string(constants) + " " + std::string(body) + " return %y }";
}

TEST(ConvBatchNorm, GoesIntoTheWeights) {
  expect_rewrite(
      "conv_batch_norm",
      conv_graph(
          "%a = Conv(%x, %w, [0.5, 1.0]) %y = BatchNormalization<epsilon=0.0>(%a, %s, %b, %m, %v)",
          "const %s: f32[2] = [2, 3] const %b: f32[2] = [1, 1] const %m: f32[2] = [0, 1] const %v: f32[2] = [4, 1]"),
      "graph g(%x: f32[N,2,4,4], %r: f32[N,2,4,4]) { const %w: f32[2,2,1,1] = [1, -2, 1.5, 9] "
      "%y = Conv(%x, %w, [1.5, 1.0]) return %y }",
      kFolded);
}

TEST(ConvBatchNorm, NeedsConstantsAndOneReader) {
  const char* stats =
      "const %s: f32[2] = [2, 3] const %b: f32[2] = [1, 1] const %m: f32[2] = [0, 1] const %v: f32[2] = [4, 1]";
  expect_declined("conv_batch_norm",
                  conv_graph("%a = Conv(%x, %w) %z = BatchNormalization(%a, %s, %b, %m, %v) %y = Add(%z, %a)", stats),
                  "also feeds");
  expect_declined(
      "conv_batch_norm",
      conv_graph("%a = Conv(%x, %w) %c = Conv(%r, %w) %z = BatchNormalization(%a, %s, %b, %m, %v) %y = Add(%z, %c)",
                 stats),
      "shared");
}

TEST(BatchNormMulAdd, GoIntoScaleAndBias) {
  const auto norm = [](std::string body, std::string scale, std::string shift) {
    return "graph g(%x: f32[N,2,4]) { const %s: f32[2] = [" + scale + "] const %b: f32[2] = [" + shift +
           "] const %c: f32[2,1] = [3, -1] " + body + " return %y }";
  };
  const std::string bn = "BatchNormalization(%x, %s, %b, [0.5, 1.0], [4.0, 1.0]) ";
  expect_rewrite("batch_norm_mul", norm("%a = " + bn + "%y = Mul(%c, %a)", "2, 3", "1, 5"),
                 norm("%y = " + bn, "6, -3", "3, -5"), kFolded);
  expect_rewrite("batch_norm_add", norm("%a = " + bn + "%y = Add(%a, %c)", "2, 3", "1, 5"),
                 norm("%y = " + bn, "2, 3", "4, 4"), kFolded);
  expect_declined("batch_norm_mul", norm("%a = " + bn + "%y = Mul(%a, [1.0, 2.0, 3.0, 4.0])", "2, 3", "1, 5"),
                  "not one number a channel");
  expect_declined("batch_norm_add", norm("%a = " + bn + "%z = Add(%a, %c) %y = Mul(%z, %a)", "2, 3", "1, 5"),
                  "also feeds");
}

TEST(ConvMul, OneNumberAChannel) {
  expect_rewrite("conv_mul",
                 conv_graph("%a = Conv(%x, %w, [1.0, 1.0]) %y = Mul(%c, %a)", "const %c: f32[2,1,1] = [2, 4]"),
                 "graph g(%x: f32[N,2,4,4], %r: f32[N,2,4,4]) { const %w: f32[2,2,1,1] = [2, -4, 2, 12] "
                 "%y = Conv(%x, %w, [2.0, 4.0]) return %y }",
                 kFolded);
  expect_declined("conv_mul", conv_graph("%a = Conv(%x, %w) %y = Mul(%a, %c)", "const %c: f32[4] = [2, 4, 1, 1]"),
                  "not one number a channel");
}

TEST(ConvAdd, ScalarsAndChannels) {
  expect_rewrite("conv_add", conv_graph("%a = Conv(%x, %w) %y = Add(%a, 0.5)"),
                 conv_graph("%y = Conv(%x, %w, [0.5, 0.5])"), kFolded);
  expect_rewrite("conv_add", conv_graph("%a = Conv(%x, %w) %y = Add(%a, %c)", "const %c: f32[1,2,1,1] = [2, 4]"),
                 conv_graph("%y = Conv(%x, %w, [2.0, 4.0])"), kFolded);
}

TEST(ConvAdd, P19AConstantOfFullSizeIsNoBias) {
  const std::string full =
      "graph g(%x: f32[1,2,2,1]) { const %w: f32[2,1,1,1] = [1, 2] const %c: f32[1,2,2,1] = [1, 2, 3, 4] "
      "%a = Conv<group=2>(%x, %w, [1.0, 2.0]) %y = Add(%a, %c) return %y }";
  expect_declined("conv_add", full, "not one number a channel");
  expect_declined("fuse_residual", full, "no bias");
}

TEST(ScaleConv, BeforeAGroupedConvolutionWithPads) {
  const char* head = "graph g(%x: f32[N,4,3,3]) { const %c: f32[1,4,1,1] = [1, 2, 3, 4] ";
  const std::string attributes = "<group=2, pads=[1, 1, 1, 1], kernel_shape=[2, 2]>";
  expect_rewrite("scale_conv",
                 std::string(head) +
                     "const %w: f32[2,2,2,2] = [1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4] %m = Mul(%x, %c) "
                     "%y = Conv" +
                     attributes + "(%m, %w) return %y }",
                 std::string(head) +
                     "const %w: f32[2,2,2,2] = [1, 1, 1, 1, 4, 4, 4, 4, 9, 9, 9, 9, 16, 16, 16, 16] "
                     "%y = Conv" +
                     attributes + "(%x, %w) return %y }",
                 kFolded);
  expect_declined("scale_conv",
                  "graph g(%x: f32[N,1,3,3]) { const %c: f32[1,2,1,1] = [1, 2] const %w: f32[1,2,1,1] = [1, 2] "
                  "%m = Mul(%x, %c) %y = Conv(%m, %w) return %y }",
                  "broadcasts");
}

TEST(ShiftConv, OnlyWithoutPads) {
  expect_rewrite("shift_conv", conv_graph("%m = Add(0.5, %x) %y = Conv(%m, %w, [1.0, 2.0])"),
                 conv_graph("%y = Conv(%x, %w, [0.5, 3.75])"), kFolded);
  expect_declined("shift_conv", conv_graph("%m = Add(0.5, %x) %y = Conv<pads=[1, 1, 0, 0]>(%m, %w)"), "pads");
  expect_declined("shift_conv", conv_graph("%m = Add(0.5, %x) %y = Conv<auto_pad=\"SAME_UPPER\">(%m, %w)"), "pads");
}

TEST(SumOfTwo, IsAnAdd) {
  expect_rewrite("sum_of_two", conv_graph("%y = Sum(%x, %r)"), conv_graph("%y = Add(%x, %r)"));
  expect_declined("sum_of_two", conv_graph("%y = Sum(%x, %r, %x)"), "");
}

TEST(ReluClip, P18TheTypesThatClipHas) {
  for (const char* type : {"f64", "f32", "f16", "i32", "i8"}) {
    const std::string t = type,
                      x = "graph g(%x: " + t + "[3]) { const %lo: " + t + "[] = [-1] const %hi: " + t + "[] = [1] ";
    expect_rewrite("relu_clip", x + "%t = Relu(%x) %y = Clip(%t, %lo, %hi) return %y }",
                   x + "const %zero: " + t + "[] = [0] %y = Clip(%x, %zero, %hi) return %y }");
  }
  expect_declined("relu_clip", "graph g(%x: f32[3], %lo: f32[]) { %t = Relu(%x) %y = Clip(%t, %lo) return %y }",
                  "only at run");
  expect_declined("relu_clip", "graph g(%x: f32[3]) { %t = Relu(%x) %y = Clip(%t, -1.0, 1.0) return %y, %t }",
                  "is a graph output");
}

TEST(HardSwish, EveryForm) {
  const auto around = [](const char* body) { return "graph g(%x: f32[N,5]) { " + std::string(body) + " return %y }"; };
  const std::string wanted = around("%y = HardSwish(%x)");
  for (const char* body : {"%a = Add(%x, 3.0) %b = Clip(%a, 0.0, 6.0) %c = Mul(%x, %b) %y = Div(%c, 6.0)",
                           "%a = Add(3.0, %x) %b = Clip(%a, 0.0, 6.0) %c = Div(%b, 6.0) %y = Mul(%c, %x)",
                           "%a = Add(%x, 3.0) %b = Clip(%a, 0.0, 6.0) %c = Mul(%b, 0.16666667) %y = Mul(%x, %c)",
                           "%a = Add(%x, 3.0) %b = Clip(%a, 0.0, 6.0) %c = Mul(%b, %x) %y = Mul(%c, 0.16666667)",
                           "%a = HardSigmoid<alpha=0.16666667>(%x) %y = Mul(%x, %a)"})
    expect_rewrite("hard_swish", around(body), wanted, 1e-6);
  expect_declined("hard_swish", around("%a = Add(%x, 3.0) %b = Clip(%a, 0.0, 6.0) %c = Mul(%x, %b) %y = Div(%c, 5.0)"),
                  "");
  expect_declined("hard_swish", around("%a = HardSigmoid(%x) %y = Mul(%x, %a)"), "x/6");
  expect_declined(
      "hard_swish",
      around("%a = Add(%x, 3.0) %b = Clip(%a, 0.0, 6.0) %c = Mul(%x, %b) %z = Div(%c, 6.0) %y = Add(%z, %b)"),
      "also feeds");
}

TEST(FuseActivation, IntoConvolutionsAndProducts) {
  const std::pair<const char*, const char*> activations[] = {
      {"Relu(%a)", "activation=\"Relu\""},
      {"LeakyRelu<alpha=0.5>(%a)", "activation=\"LeakyRelu\", activation_params=floats[0.5]"},
      {"Clip(%a, 0.0, 6.0)", "activation=\"Clip\", activation_params=floats[0.0, 6.0]"},
      {"Sigmoid(%a)", "activation=\"Sigmoid\""},
      {"Tanh(%a)", "activation=\"Tanh\""},
      {"HardSwish(%a)", "activation=\"HardSwish\""},
      {"Elu(%a)", "activation=\"Elu\", activation_params=floats[1.0]"},
      {"HardSigmoid(%a)", "activation=\"HardSigmoid\", activation_params=floats[0.2, 0.5]"}};
  for (const auto& [op, attributes] : activations) {
    const std::string text = op, a = attributes;
    expect_rewrite("fuse_activation", conv_graph("%a = Conv(%x, %w) %y = " + text),
                   conv_graph("%y = forethought.FusedConv<" + a + ">(%x, %w)"), 1e-5);
    const auto product = [](std::string body) {
      return "graph g(%x: f32[M,2]) { const %w: f32[2,3] = [1, 2, 3, 4, 5, -6] " + body + " return %y }";
    };
    expect_rewrite("fuse_activation", product("%a = Gemm(%x, %w, 1.0) %y = " + text),
                   product("%y = forethought.FusedGemm<" + a + ">(%x, %w, 1.0)"), 1e-5);
    expect_rewrite("fuse_activation", product("%a = MatMul(%x, %w) %y = " + text),
                   product("%y = forethought.FusedMatMul<" + a + ">(%x, %w)"), 1e-5);
  }
}

TEST(FuseActivation, NotWhereAKernelOrABoundIsMissing) {
  expect_declined("fuse_activation",
                  "graph g(%x: f16[1,1,2,2], %w: f16[1,1,1,1]) { %a = Conv(%x, %w) %y = Relu(%a) return %y }",
                  "this build has f32");
  expect_declined("fuse_activation",
                  "graph g(%x: f32[2,2], %lo: f32[]) { %a = MatMul(%x, %x) %y = Clip(%a, %lo) return %y }",
                  "not constant");
  expect_declined("fuse_activation", conv_graph("%a = Conv(%x, %w) %b = Relu(%a) %y = Add(%a, %b)"), "also feeds");
  expect_declined("fuse_activation",
                  conv_graph("%a = forethought.FusedConv<activation=\"Relu\">(%x, %w) %y = Sigmoid(%a)"),
                  "activation already");
}

TEST(FuseGelu, IntoTheProductThatMakesX) {
  const std::string wanted = conv_graph("%y = forethought.FusedConv<activation=\"Gelu\">(%x, %w)");
  for (const char* body :
       {"%d = Div(%a, 1.41421356) %e = Erf(%d) %p = Add(%e, 1.0) %q = Mul(%a, %p) %y = Mul(%q, 0.5)",
        "%d = Mul(0.70710678, %a) %e = Erf(%d) %p = Add(1.0, %e) %h = Mul(%a, 0.5) %y = Mul(%h, %p)",
        "%d = Div(%a, 1.41421356) %e = Erf(%d) %p = Add(%e, 1.0) %q = Mul(%p, 0.5) %y = Mul(%q, %a)"})
    expect_rewrite("fuse_gelu", conv_graph("%a = Conv(%x, %w) " + std::string(body)), wanted, 1e-5);
}

TEST(FuseGelu, ComesBeforeTheScaleGoesIntoTheNextConvolution) {
  const auto g =
      graph_of(conv_graph("%a = Conv(%x, %w) %d = Div(%a, 1.41421356) %e = Erf(%d) %p = Add(%e, 1.0) %q = Mul(%a, %p) "
                          "%g = Mul(%q, 0.5) %y = Conv(%g, %w)"));
  PassOptions options;
  options.library = &operator_library();
  options.isa = active_isa();
  Journal journal;
  for (PassStage stage : {PassStage::basic, PassStage::extended})
    ASSERT_TRUE(run_passes(*g, stage, options, journal).ok());
  EXPECT_EQ(g->node_count(), 2u);
}

TEST(FuseGelu, P20NotWithTaps) {
  const char* body = "%d = Div(%a, 1.41421356) %e = Erf(%d) %p = Add(%e, 1.0) %q = Mul(%a, %p) %z = Mul(%q, 0.5) ";
  expect_declined("fuse_gelu", conv_graph("%a = Conv(%x, %w) " + std::string(body) + "%y = Add(%z, %e)"),
                  "also feeds Add");
  expect_declined("fuse_gelu", conv_graph("%a = Conv(%x, %w) " + std::string(body) + "%y = Add(%z, %a)"),
                  "also feeds Add");
  expect_declined("fuse_gelu", conv_graph("%a = Conv(%x, %w) " + std::string(body) + "%y = Add(%q, %z)"), "");
  expect_declined("fuse_gelu", conv_graph("%a = Neg(%x) " + std::string(body) + "%y = Neg(%z)"), "");
}

TEST(FuseSwish, IntoTheProductThatMakesX) {
  expect_rewrite("fuse_swish",
                 "graph g(%x: f32[M,2]) { const %w: f32[2,3] = [1, 2, 3, 4, 5, -6] %a = MatMul(%x, %w) "
                 "%s = Sigmoid(%a) %y = Mul(%s, %a) return %y }",
                 "graph g(%x: f32[M,2]) { const %w: f32[2,3] = [1, 2, 3, 4, 5, -6] "
                 "%y = forethought.FusedMatMul<activation=\"Swish\">(%x, %w) return %y }",
                 1e-5);
  expect_declined("fuse_swish", conv_graph("%a = Conv(%x, %w) %s = Sigmoid(%a) %z = Mul(%s, %a) %y = Add(%z, %s)"),
                  "also feeds");
  expect_declined("fuse_swish", conv_graph("%a = Conv(%x, %w) %s = Sigmoid(%r) %y = Mul(%s, %a)"), "");
}

TEST(FuseResidual, OfTwoConvolutionsTheOneThatNobodyElseReads) {
  expect_rewrite("fuse_residual", conv_graph("%a = Conv(%x, %w) %b = Conv(%a, %w) %y = Add(%a, %b)"),
                 conv_graph("%a = Conv(%x, %w) %y = forethought.FusedConv(%a, %w, _, %a)"), 1e-5);
}

TEST(FuseResidual, OfTheSameShape) {
  expect_rewrite("fuse_residual", conv_graph("%a = Conv(%x, %w) %y = Add(%r, %a)"),
                 conv_graph("%y = forethought.FusedConv(%x, %w, _, %r)"), 1e-5);
  expect_declined("fuse_residual",
                  "graph g(%x: f32[N,1,4,4], %r: f32[1,1,4,4]) { const %w: f32[1,1,1,1] = [2] %a = Conv(%x, %w) %y = "
                  "Add(%r, %a) return %y }",
                  "the convolution gives");
  expect_declined("fuse_residual",
                  conv_graph("%a = forethought.FusedConv<activation=\"Relu\">(%x, %w) %y = Add(%r, %a)"), "activation");
}

TEST(FuseBias, OneNumberAColumn) {
  const auto product = [](std::string body, std::string c) {
    return "graph g(%x: f32[M,2,2]) { const %w: f32[2,3] = [1, 2, 3, 4, 5, -6] const %c: " + c + " " + body +
           " return %y }";
  };
  expect_rewrite("fuse_bias", product("%a = MatMul(%x, %w) %y = Add(%c, %a)", "f32[3] = [1, 2, 3]"),
                 product("%y = forethought.FusedMatMul(%x, %w, %c)", "f32[3] = [1, 2, 3]"), 1e-5);
  expect_declined("fuse_bias", product("%a = MatMul(%x, %w) %y = Add(%c, %a)", "f32[2,3] = [1, 2, 3, 4, 5, 6]"),
                  "one number a column");
}

TEST(FuseAddend, IntoGemm) {
  const auto product = [](std::string body) {
    return "graph g(%x: f32[M,2], %r: f32[M,3], %s: f32[K,3]) { const %w: f32[2,3] = [1, 2, 3, 4, 5, -6] " + body +
           " return %y }";
  };
  expect_rewrite("fuse_addend", product("%a = Gemm<alpha=2.0>(%x, %w) %y = Add(%r, %a)"),
                 product("%y = Gemm<alpha=2.0, beta=1.0>(%x, %w, %r)"), 1e-5);
  expect_declined("fuse_addend", product("%a = Gemm(%x, %w) %y = Add(%s, %a)"), "need not broadcast");
}

TEST(FoldWeights, DequantisedOnce) {
  expect_rewrite("fold_weights",
                 "graph g(%x: f32[2,2]) { const %q: i8[2,2] = [1, 2, 3, 4] %w = DequantizeLinear(%q, 0.5) %y = "
                 "MatMul(%x, %w) return %y }",
                 "graph g(%x: f32[2,2]) { const %w: f32[2,2] = [0.5, 1, 1.5, 2] %y = MatMul(%x, %w) return %y }");
  expect_declined("fold_weights", "graph g(%q: i8[2,2]) { %y = DequantizeLinear(%q, 0.5) return %y }", "");
}

}  // namespace
}  // namespace forethought
