// The rules of the basic stage: a rewrite and a near miss each.
#include <gtest/gtest.h>

#include "passes/rule_testing.h"

namespace forethought {
namespace {

std::string around(std::string_view body) { return "graph g(%x: f32[N,3]) { " + std::string(body) + " return %y }"; }

TEST(FoldConstants, EvaluatesWhatIsConstant) {
  expect_rewrite("fold_constants", around("%a = Mul([2.0, 3.0, 4.0], 0.5) %b = Neg(%a) %y = Add(%x, %b)"),
                 around("%y = Add(%x, [-1.0, -1.5, -2.0])"));
  expect_rewrite("fold_constants",
                 "graph g(%x: f32[4,3]) { %s = Shape(%x) %k = Gather(%s, 1) %y = Add(%k, 1) return %y }",
                 "graph g(%x: f32[4,3]) { const %y: i64[] = [4] return %y }");
}

TEST(FoldConstants, KeepsWhatAnInputFeeds) {
  expect_declined("fold_constants", around("%a = Neg(%x) %y = Mul(%a, 2.0)"), "");
}

TEST(FoldConstants, ShapesWithSymbolsStay) {
  expect_declined("fold_constants", "graph g(%x: f32[N,3]) { %y = Shape(%x) return %y }", "");
}

TEST(FoldConstants, KeepsQuantisedWeights) {
  expect_declined("fold_constants",
                  "graph g(%x: f32[2,2]) { const %q: i8[2,2] = [1, 2, 3, 4] %w = DequantizeLinear(%q, 0.5) "
                  "%y = MatMul(%x, %w) return %y }",
                  "quantised weights");
}

TEST(FoldConstants, P24HugeResultsAreNotAllocated) {
  const auto g = graph_of("graph g() { %a = ConstantOfShape([1099511627776]) %y = Shape(%a) return %y }");
  run_rule(*g, "fold_constants");
  ASSERT_TRUE(g->is_constant(g->outputs()[0]));
  EXPECT_EQ(*g->value(g->outputs()[0]).constant->as<int64_t>(), int64_t{1} << 40);
  expect_declined("fold_constants", "graph g() { %y = ConstantOfShape([1099511627776]) return %y }", "larger than");
}

TEST(FoldConstants, StopsAtTheBudget) {
  const auto g = graph_of("graph g() { %y = ConstantOfShape([100000]) return %y }");
  PassOptions options;
  options.fold_budget = 1000;
  EXPECT_EQ(run_rule(*g, "fold_constants", options).applied_count(), 0);
  options.fold_budget = 1000000;
  EXPECT_EQ(run_rule(*g, "fold_constants", options).applied_count(), 1);
}

TEST(FoldConstants, P21ChainsOfFoldedViewsOwnTheirBytes) {
  Tensor result;
  {
    const auto g = graph_of(
        "graph g() { const %w: f32[2,2] = [1, 2, 3, 4] %a = Reshape(%w, [1, 2, 2]) %b = Squeeze(%a, [0]) "
        "%y = Flatten<axis=0>(%b) return %y }");
    run_rule(*g, "fold_constants");
    ASSERT_TRUE(g->is_constant(g->outputs()[0]));
    EXPECT_EQ(g->node_count(), 0u);
    result = *g->value(g->outputs()[0]).constant;
  }
  EXPECT_EQ(to_string(result.dims), "[1,4]");
  EXPECT_EQ(result.as<float>()[3], 4);
}

TEST(RemoveNoOps, DropsWhatChangesNothing) {
  for (const char* op :
       {"Identity(%a)", "Cast<to=1>(%a)", "Dropout(%a)", "Mul(%a, 1.0)", "Mul(1.0, %a)", "Div(%a, 1.0)", "Sub(%a, 0.0)",
        "Add(%a, -0.0)", "Reshape(%a, [0, 3])", "Transpose<perm=[0, 1]>(%a)", "Concat<axis=0>(%a)",
        "Slice(%a, [0], [3], [1])", "Pad(%a, [0, 0, 0, 0])", "Tile(%a, [1, 1])", "Expand(%a, [1, 3])"})
    expect_rewrite("remove_no_ops", around("%a = Neg(%x) %b = " + std::string(op) + " %y = Exp(%b)"),
                   around("%a = Neg(%x) %y = Exp(%a)"));
}

TEST(RemoveNoOps, KeepsWhatChangesSomething) {
  const std::pair<const char*, const char*> cases[] = {
      {"Cast<to=11>(%a)", ""},
      {"Mul(%a, %k)", "broadcasts"},
      {"Add(%a, 0.0)", "-0.0 + 0 is +0.0"},
      {"Mul(%a, 2.0)", ""},
      {"Div(1.0, %a)", ""},
      {"Sub(0.0, %a)", ""},
      {"Slice(%a, [-1], [-4], [1], [-1])", ""},
      {"Transpose<perm=[1, 0]>(%a)", ""},
      {"Reshape(%a, [3, -1])", ""},
      {"Pad(%a, [1, 0, -1, 0])", ""},
  };
  for (const auto& [op, reason] : cases)
    expect_declined("remove_no_ops", around("const %k: f32[1,1,1] = [1] %a = Neg(%x) %y = " + std::string(op)), reason);
}

TEST(RemoveNoOps, AnOutputOfTheGraphKeepsItsName) {
  const auto g = graph_of(around("%a = Neg(%x) %y = Identity(%a)"));
  run_rule(*g, "remove_no_ops");
  EXPECT_EQ(g->node_count(), 1u);
  EXPECT_EQ(g->value(g->outputs()[0]).name, "y");
  expect_declined("remove_no_ops", around("%y = Identity(%x)"), "graph output");
}

TEST(InlineIf, TakesTheBranch) {
  constexpr const char* kText =
      "graph g(%x: f32[3,10]) { const %c: bool[] = [COND] %y = If(%c; %x) { then_branch: graph(%a: f32[3,10]) { "
      "%r = Neg(%a) %s = Exp(%r) return %s } else_branch: graph(%b: f32[3,10]) { return %b } } %z = Neg(%y) return %z "
      "}";
  for (const auto& [cond, nodes] : {std::pair{"1", 3u}, std::pair{"0", 1u}}) {
    std::string text = kText;
    text.replace(text.find("COND"), 4, cond);
    const auto g = graph_of(text);
    EXPECT_EQ(run_rule(*g, "inline_if").applied_count(), 1);
    EXPECT_EQ(g->node_count(), nodes);
  }
  expect_declined("inline_if",
                  "graph g(%x: f32[3], %c: bool[]) { %y = If(%c; %x) { then_branch: graph(%a: f32[3]) { return %a } "
                  "else_branch: graph(%b: f32[3]) { return %b } } return %y }",
                  "");
}

}  // namespace
}  // namespace forethought
