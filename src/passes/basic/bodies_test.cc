// Rules around bodies and types: sink_constants and cast_like, a rewrite and a near miss each.
#include <gtest/gtest.h>

#include "graph/graph.h"
#include "passes/rule_testing.h"

namespace forethought {
namespace {

std::string loop(const std::string& weight, const std::string& results = "_, %z") {
  return "graph g(%x: f32[2,3], %k: f32[3,3], %m: i64[]) { " + weight + " " + results +
         R"( = Loop(%m, bool true, %x; %w, %k) {
    body: graph(%i: i64[], %c: bool[], %s: f32[2,3], %v: f32[3,3], %u: f32[3,3]) {
      %a = MatMul(%s, %v)
      %b = MatMul(%a, %u)
      return %c, %b, %v
    }
  } return %z })";
}

TEST(SinkConstants, BodiesGetTheirOwn) {
  const auto g = graph_of(loop("const %w: f32[3,3] = [1, 2, 3, 4, 5, 6, 7, 8, 9]"));
  ASSERT_EQ(run_rule(*g, "sink_constants").applied_count(), 1);
  const NodeId id = g->order()[0];
  const GraphNode& n = g->node(id);
  EXPECT_FALSE(n.outputs[0].valid());  // what was skipped stays skipped
  const Graph& body = *n.bodies[0].second;
  const GraphNode& first = body.node(body.order()[0]);
  ASSERT_TRUE(body.is_constant(first.inputs[1]));
  EXPECT_EQ(body.value(first.inputs[1]).constant->data, g->value(n.inputs[3]).constant->data);  // shared, not copied
  EXPECT_FALSE(body.is_constant(body.node(body.order()[1]).inputs[1]));
  EXPECT_TRUE(body.value(body.outputs()[2]).is_input);  // given back as it is: it stays a capture
}

TEST(SinkConstants, WhatIsComputedStays) { expect_declined("sink_constants", loop("%w = Neg(%k)"), ""); }

TEST(CastLike, BecomesACast) {
  expect_rewrite("cast_like", "graph g(%x: f32[N,3], %l: f16[2]) { %y = CastLike(%x, %l) return %y }",
                 "graph g(%x: f32[N,3], %l: f16[2]) { %y = Cast<to=10>(%x) return %y }");
  expect_declined("cast_like", "graph g(%x: f32[N,3]) { %y = Cast<to=10>(%x) return %y }", "");
}

}  // namespace
}  // namespace forethought
