// The rules of a graph: each way to break one is noticed.
#include <gtest/gtest.h>

#include "graph/graph.h"

namespace forethought {
namespace {

// x → Add(x, k) → a → Neg → y, with k read twice.
std::unique_ptr<Graph> small_graph() {
  auto g = std::make_unique<Graph>();
  const ValueType f = ValueType::tensor(DType::kFloat);
  const ValueId x = g->add_input("x", f, {});
  const ValueId k = g->add_constant("k", tensor_of<float>({}, {1}));
  const ValueId a = g->add_value("a", f), y = g->add_value("y", f);
  g->add_node({"", "Sum", 13}, "sum", {x, k, k}, {a});
  g->add_node({"", "Neg", 13}, "neg", {a}, {y});
  g->add_output(y);
  return g;
}

TEST(Validate, AcceptsWhatHolds) { EXPECT_TRUE(validate(*small_graph()).ok()); }

TEST(Validate, NoticesEachBrokenRule) {
  struct Case {
    const char* what;
    void (*breaks)(Graph&);
  };
  const Case cases[] = {
      {"a use is missing", [](Graph& g) { g.value(g.find_value("k")).uses.pop_back(); }},
      {"a use is listed twice",
       [](Graph& g) {
         auto& uses = g.value(g.find_value("k")).uses;
         uses[1] = uses[0];
       }},
      {"a use too many",
       [](Graph& g) {
         auto& uses = g.value(g.find_value("k")).uses;
         uses.push_back(uses[0]);
       }},
      {"a use that is none", [](Graph& g) { g.value(g.find_value("x")).uses[0].slot = 1; }},
      {"a use of no node", [](Graph& g) { g.value(g.find_value("x")).uses[0].node.index = 99; }},
      {"an edge without a use", [](Graph& g) { g.node(NodeId{0}).inputs.push_back(g.find_value("x")); }},
      {"a producer that is none", [](Graph& g) { g.value(g.find_value("a")).producer = NodeId{1}; }},
      {"an input that is produced", [](Graph& g) { g.value(g.find_value("a")).is_input = true; }},
      {"nothing produces it", [](Graph& g) { g.set_output(NodeId{0}, 0, ValueId{}); }},
      {"a cycle", [](Graph& g) { g.set_input(NodeId{0}, 0, g.find_value("y")); }},
      {"a removed output", [](Graph& g) { g.value(g.find_value("y")).removed = true; }},
      {"captures without inputs", [](Graph& g) { g.node(NodeId{1}).captures = 2; }},
  };
  for (const Case& c : cases) {
    const auto g = small_graph();
    c.breaks(*g);
    EXPECT_FALSE(validate(*g).ok()) << c.what;
  }
}

}  // namespace
}  // namespace forethought
