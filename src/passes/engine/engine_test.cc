// The pattern language, and what the engine keeps for every rule.
#include "passes/engine/engine.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "graph/text.h"
#include "ops/op.h"
#include "passes/engine/pattern.h"
#include "passes/rule_testing.h"

namespace forethought {
namespace {

using passes::any;
using passes::constant;
using passes::match;
using passes::op;
using passes::Pattern;

std::string around(std::string_view body) {
  return absl::StrCat("graph g(%x: f32[N,3], %z: f32[N,3]) { ", std::string(body), " return %y }");
}

bool matches(const Pattern& p, std::string_view body) {
  const auto g = graph_of(around(body));
  return match(p, *g, g->producer(g->outputs()[0])).has_value();
}

Journal run(Graph& graph, PassOptions options = {}, int limit = -1, PassStage stage = PassStage::basic) {
  options.library = &operator_library();
  options.isa = active_isa();
  Journal journal(limit);
  const Status s = run_passes(graph, stage, options, journal);
  EXPECT_TRUE(s.ok()) << s;
  return journal;
}

TEST(Pattern, CommutativeOperatorsInBothOrders) {
  const Pattern p = op("Exp", {any("x")}) + 1.0;
  EXPECT_TRUE(matches(p, "%e = Exp(%x) %y = Add(%e, 1.0)"));
  EXPECT_TRUE(matches(p, "%e = Exp(%x) %y = Add(1.0, %e)"));
  EXPECT_FALSE(matches(p, "%e = Exp(%x) %y = Sub(%e, 1.0)"));
  EXPECT_FALSE(matches(op("Exp", {any("x")}) - 1.0, "%e = Exp(%x) %y = Sub(1.0, %e)"));
}

TEST(Pattern, AssociativeChainsInEveryBracketing) {
  const Pattern p = any("x") * op("Exp", {any("x")}) * 0.5;
  for (const char* body :
       {"%e = Exp(%x) %a = Mul(%x, %e) %y = Mul(%a, 0.5)", "%e = Exp(%x) %a = Mul(%e, 0.5) %y = Mul(%x, %a)",
        "%e = Exp(%x) %a = Mul(0.5, %x) %y = Mul(%a, %e)"})
    EXPECT_TRUE(matches(p, body)) << body;
  EXPECT_FALSE(matches(p, "%e = Exp(%x) %a = Mul(%x, %e) %y = Mul(%a, 0.25)"));
  EXPECT_FALSE(matches(p, "%e = Exp(%x) %a = Mul(%x, %e) %b = Mul(%a, %x) %y = Mul(%b, 0.5)"));
  // An inner product that somebody else reads is no part of the chain.
  EXPECT_FALSE(matches(p + any("q"), "%e = Exp(%x) %a = Mul(%x, %e) %b = Mul(%a, 0.5) %y = Add(%b, %a)"));
}

TEST(Pattern, NamesNumbersOptionalsAlternatives) {
  EXPECT_TRUE(matches(any("x") + any("x"), "%y = Add(%x, %x)"));
  EXPECT_FALSE(matches(any("x") + any("x"), "%y = Add(%x, %z)"));
  EXPECT_TRUE(matches(any("x") / 1.4142135623731, "%y = Div(%x, 1.41421356)"));
  EXPECT_FALSE(matches(any("x") / 1.4142135623731, "%y = Div(%x, 1.414)"));
  EXPECT_FALSE(matches(any("x") * constant("c"), "%y = Mul(%x, %z)"));
  const Pattern clip = op("Clip", {any("x"), passes::optional(any("lo"))});
  EXPECT_TRUE(matches(clip, "%y = Clip(%x)"));
  EXPECT_TRUE(matches(clip, "%y = Clip(%x, 1.0)"));
  EXPECT_FALSE(matches(clip, "%y = Clip(%x, 1.0, 2.0)"));  // inputs that are not listed must be absent
  const Pattern either = op("Exp", {any("x")}) | op("Neg", {op("Exp", {any("x")})}).as("neg");
  EXPECT_TRUE(matches(either, "%y = Exp(%x)"));
  EXPECT_TRUE(matches(either, "%e = Exp(%x) %y = Neg(%e)"));
  EXPECT_FALSE(matches(either, "%y = Neg(%x)"));
  EXPECT_EQ(either.root_operators(), (std::vector<std::string>{"Exp", "Neg"}));
  EXPECT_EQ(either.depth(), 2);
}

TEST(Engine, InnerValuesThatOthersNeedStay) {
  const std::string norm = "const %w: f32[3,3,1] = [1, 2, 3, 4, 5, 6, 7, 8, 9] %a = Conv(%x, %w) %b = Mul(%a, 2.0) ";
  const auto conv = [&](std::string rest) { return "graph g(%x: f32[N,3,L], %c: bool[]) { " + norm + rest; };
  expect_declined("conv_mul", conv("return %b, %a }"), "is a graph output");
  expect_declined("conv_mul", conv("%d = Neg(%a) return %b, %d }"), "also feeds Neg");
  expect_declined(
      "conv_mul",
      conv("%d = If(%c; %a) { then_branch: graph(%p: f32[N,3,L]) { return %p } else_branch: graph(%q: f32[N,3,L]) { "
           "%r = Neg(%q) return %r } } return %b, %d }"),
      "captured by If");
}

TEST(Engine, KeepsNamesTypesAndOrigins) {
  const auto g = graph_of(
      "graph g(%x: f32[N,3,L]) { const %w: f32[3,3,1] = [1, 2, 3, 4, 5, 6, 7, 8, 9] %a = Conv(%x, %w) \"conv\" "
      "%b = Mul(%a, 2.0) \"scale\" %out = Relu(%b) \"act\" return %out }");
  run(*g);
  run(*g, {}, -1, PassStage::extended);
  ASSERT_EQ(g->node_count(), 1u);
  const GraphValue& out = g->value(g->outputs()[0]);
  EXPECT_EQ(out.name, "out");
  EXPECT_EQ(to_string(out.shape), "[N,3,L]");
  EXPECT_EQ(g->node(out.producer).origin, (std::vector<std::string>{"conv", "scale", "act"}));
}

TEST(Engine, AStepLimitStopsAndARuleCanBeDisabled) {
  const std::string text = around("%a = Identity(%x) %b = Neg(%a) %c = Identity(%b) %y = Exp(%c)");
  const auto one = graph_of(text), none = graph_of(text);
  EXPECT_EQ(run(*one, {}, 1).applied_count(), 1);
  EXPECT_EQ(one->node_count(), 3u);
  const std::string disabled[] = {"remove_no_ops"};
  PassOptions options;
  options.disabled = disabled;
  EXPECT_EQ(run(*none, options).applied_count(), 0);
}

TEST(Engine, OtherProvidersNodesAreLeftAlone) {
  const auto g = graph_of(around("const %w: f32[3,3] = [1, 2, 3, 4, 5, 6, 7, 8, 9] %a = MatMul(%x, %w) %y = Relu(%a)"));
  g->node(g->producer(g->find_value("a"))).provider = "OtherProvider";
  const Journal journal = run(*g, {}, -1, PassStage::extended);
  EXPECT_EQ(journal.applied_count(), 0);
  ASSERT_EQ(journal.entries().size(), 1u);
  EXPECT_NE(journal.entries()[0].reason.find("OtherProvider"), std::string::npos);
}

TEST(Engine, RewritesBodies) {
  const auto g = graph_of(
      "graph g(%x: f32[3], %c: bool[]) { %y = If(%c; %x) { then_branch: graph(%a: f32[3]) { %k = Mul(2.0, 3.0) "
      "%r = Mul(%a, %k) return %r } else_branch: graph(%b: f32[3]) { %s = Neg(%b) %t = Identity(%s) return %t } } "
      "return %y }");
  run(*g);
  EXPECT_EQ(g->node_count_deep(), 3u);
}

TEST(Engine, WhatFoldingRevealsIsInferredDownstream) {
  // The shape is known only once the floats are folded.
  const auto g = graph_of(
      around("%f = Mul([1.0, 1.5], 2.0) %s = Cast<to=7>(%f) %r = Expand(1.0, %s) %q = Neg(%r) %y = Add(%x, %q)"));
  run(*g);
  EXPECT_TRUE(g->is_constant(g->node(g->producer(g->outputs()[0])).inputs[1]));
}

TEST(Engine, P24NestedIfsAndLongChains) {
  std::string inner = "%r0 = Neg(%a0) return %r0";
  for (int i = 1; i <= 40; ++i)
    inner = absl::StrCat("const %c", i, ": bool[] = [1] %r", i, " = If(%c", i, "; %a", i, ") { then_branch: graph(%a",
                         i - 1, ": f32[3]) { ", inner, " } else_branch: graph(%b", i, ": f32[3]) { return %b", i,
                         " } } return %r", i);
  const auto nested = graph_of("graph g(%a40: f32[3]) { " + inner + " }");
  EXPECT_EQ(run(*nested).applied_count(), 40);
  EXPECT_EQ(nested->node_count_deep(), 1u);

  std::string chain = "graph g(%x0: f32[3]) { ";
  for (int i = 0; i < 20000; ++i)
    absl::StrAppend(&chain, "%x", i + 1, i % 2 ? " = Neg(%x" : " = Identity(%x", i, ")\n");
  const auto lengthy = graph_of(chain + " return %x20000 }");
  EXPECT_EQ(run(*lengthy).applied_count(), 10000);
}

}  // namespace
}  // namespace forethought
