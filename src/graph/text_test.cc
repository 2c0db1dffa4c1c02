// The text form of graphs: it reads back to the same graph, and refuses what is no graph.
#include "graph/text.h"

#include <gtest/gtest.h>

namespace forethought {
namespace {

TEST(GraphText, RoundTrips) {
  const char* text = R"(graph main(%x: f32[N,5], %c: bool[], %d: f32[2] = [1.5, -2.0]) {
  const %w: f32[2,2] = [1.0, 2.0, 3.0, 4.0]
  const %k: i64[1] = [7]
  %a: f32[N,5], _ = Split<axis=1, names=strings["a", "b\n"], scales=floats[1.0, 2.5], sizes=[1, 2]>(%x, _, %k) "/l0/Split"
  %"odd name": f32[2*N + 1,floor_div(N,2)] = com.example.Odd<mode="x", value=f32[2] [1.0, 2.0]>(%a)
  %s: seq(tensor(int64)) = SequenceEmpty<dtype=7>()
  %y: f32? = If(%c; %a, %w) {
    then_branch: graph(%p: f32[N,5], %q: f32[2,2]) {
      return %p
    }
    else_branch: graph(%p: f32[N,5], %q: f32[2,2]) {
      %r: f32[N,5]{nChw16c} = Relu(%p)
      return %r
    }
  }
  return %y, %s
}
)";
  auto g = graph_from_text(text);
  ASSERT_TRUE(g.ok()) << g.status();
  EXPECT_EQ(to_text(**g), text);
}

TEST(GraphText, LiteralsBecomeConstants) {
  auto g = graph_from_text(
      "graph(%x: f32[N]) { %a = Div(%x, 1.41421356) %b = Reshape(%a, [1, -1]) %c = Add(%b, f16 [1.0]) return %c }");
  ASSERT_TRUE(g.ok()) << g.status();
  int constants = 0;
  for (uint32_t i = 0; i < (*g)->value_capacity(); ++i) constants += (*g)->is_constant(ValueId{i});
  EXPECT_EQ(constants, 3);
  auto again = graph_from_text(to_text(**g));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(to_text(**again), to_text(**g));
}

TEST(GraphText, LongConstantsAsBase64) {
  Graph g;
  Tensor t = make_tensor(DType::kFloat, std::vector<int64_t>{100}).value();
  for (int i = 0; i < 100; ++i) t.as<float>()[i] = static_cast<float>(i) * 0.1f;
  g.add_output(g.add_constant("w", t));
  auto again = graph_from_text(to_text(g));
  ASSERT_TRUE(again.ok()) << again.status();
  const Tensor& back = *(*again)->value((*again)->outputs()[0]).constant;
  for (int i = 0; i < 100; ++i) EXPECT_EQ(back.as<float>()[i], t.as<float>()[i]);
  const std::string elided = to_text(g, {.elide = true});
  auto refused = graph_from_text(elided);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.status().message().find("elided"), std::string::npos);
}

TEST(GraphText, ErrorsNameTheLine) {
  for (const char* bad :
       {"", "graph", "graph(", "graph(%x: f32[N]) {\n  %y = Relu(%x\n  return %y }", "graph() { return %z }",
        "graph(%x: q32[1]) { return %x }", "graph(%x: f32[1]) { %y = Relu(%z) return %y }",
        "graph() { const %w: f32[4611686018427387904,4] = [1.0] return %w }"}) {
    auto g = graph_from_text(bad);
    EXPECT_FALSE(g.ok()) << bad;
  }
  auto g = graph_from_text("graph(%x: f32[N]) {\n  %y = Relu(!)\n  return %y }");
  ASSERT_FALSE(g.ok());
  EXPECT_NE(g.status().message().find("line 2"), std::string::npos) << g.status();
}

}  // namespace
}  // namespace forethought
