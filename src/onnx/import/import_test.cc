// Import: names and edges, inputs and initializers, bodies and captures, functions, and what wrong models get.
#include "onnx/import/import.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "onnx/testing.h"

namespace forethought {
namespace {

using namespace onnx_testing;  // NOLINT
using testing::HasSubstr;

constexpr DType kF = DType::kFloat;

std::vector<std::string> ops(const Graph& g) {
  std::vector<std::string> names;
  for (const NodeId id : g.order()) names.push_back(to_string(g.node(id).op));
  return names;
}

// Import must succeed and give a graph that keeps every rule.
std::unique_ptr<Graph> good(const wire::Model& m, const ImportOptions& options = {}) {
  auto g = import(m, options);
  EXPECT_TRUE(g.ok()) << g.status();
  if (!g.ok()) return std::make_unique<Graph>();
  EXPECT_TRUE(validate(**g).ok()) << validate(**g);
  return std::move(*g);
}
std::string error(const wire::Model& m, const ImportOptions& options = {}) {
  auto g = import(m, options);
  EXPECT_FALSE(g.ok());
  return g.ok() ? "" : std::string(g.status().message());
}

wire::Model relu_model() {
  wire::Model m = model(17);
  m.graph.inputs.push_back(value("x", kF, {2, -1}));
  m.graph.nodes.push_back(node("Relu", {"x"}, {"y"}));
  m.graph.outputs.push_back(value("y", kF, {2, -1}));
  return m;
}

TEST(Import, SmallModel) {
  wire::Model m = relu_model();
  m.producer_name = "p";
  m.metadata.push_back({"character", "abc"});
  const auto g = good(m);
  EXPECT_EQ(ops(*g), std::vector<std::string>{"Relu"});
  ASSERT_EQ(g->inputs().size(), 1u);
  EXPECT_EQ(g->value(g->inputs()[0]).name, "x");
  EXPECT_EQ(to_string(g->value(g->inputs()[0]).shape), "[2,?]");
  EXPECT_EQ(g->value(g->outputs()[0]).name, "y");
  EXPECT_EQ(g->value(g->outputs()[0]).type, ValueType::tensor(kF));
  EXPECT_TRUE(g->value(g->outputs()[0]).declared.has_value());
  EXPECT_EQ(g->info.metadata[0].second, "abc");
  EXPECT_EQ(g->info.opsets[0].version, 17);
  EXPECT_EQ(g->node(NodeId{0}).op.version, 14);
  EXPECT_EQ(g->node(NodeId{0}).origin, std::vector<std::string>{"y"});
}

TEST(Import, NodesOutOfOrderAndSkippedInputs) {
  wire::Model m = model(13);
  m.graph.inputs.push_back(value("x", kF));
  m.graph.nodes.push_back(node("Neg", {"b"}, {"y"}));
  m.graph.nodes.push_back(node("Clip", {"a", "", "top"}, {"b"}));
  m.graph.nodes.push_back(node("Exp", {"x"}, {"a"}));
  m.graph.outputs.push_back(value("y", kF));
  Models t;
  m.graph.initializers.push_back(t.tensor<float>("top", {}, {1}));
  const auto g = good(m);
  EXPECT_EQ(ops(*g), (std::vector<std::string>{"Exp", "Clip", "Neg"}));
  const GraphNode& clip = g->node(g->producer(g->find_value("b")));
  ASSERT_EQ(clip.inputs.size(), 3u);
  EXPECT_FALSE(clip.inputs[1].valid());
  EXPECT_TRUE(g->is_constant(clip.inputs[2]));
}

TEST(Import, InitializersByIrVersion) {
  Models t;
  for (const int64_t ir : {3, 4}) {
    wire::Model m = model(9, ir);
    m.graph.inputs.push_back(value("x", kF, {2}));
    m.graph.inputs.push_back(value("w", kF, {2}));
    m.graph.initializers.push_back(t.tensor<float>("w", {2}, {1, 2}));
    m.graph.nodes.push_back(node("Add", {"x", "w"}, {"y"}));
    m.graph.outputs.push_back(value("y", kF));
    const auto g = good(m);
    const GraphValue& w = g->value(g->find_value("w"));
    EXPECT_EQ(g->inputs().size(), ir == 3 ? 1u : 2u);
    EXPECT_EQ(w.constant.has_value(), ir == 3);
    EXPECT_EQ(w.default_value.has_value(), ir == 4);
    const Tensor& contents = ir == 3 ? *w.constant : *w.default_value;
    EXPECT_EQ(contents.dims, (Dims{2}));
    EXPECT_EQ(g->info.copied_bytes, 0);
  }
}

TEST(Import, ConstantsBecomeValues) {
  Models t;
  wire::Model m = model(13);
  m.graph.nodes.push_back(node("Constant", {}, {"a"}, attrs(attr("value", t.tensor<int64_t>("", {2}, {3, 4})))));
  m.graph.nodes.push_back(node("Constant", {}, {"b"}, attrs(attr("value_floats", std::vector<float>{1, 2, 3}))));
  m.graph.nodes.push_back(node("Constant", {}, {"c"}, attrs(attr("value_string", "text"))));
  m.graph.nodes.push_back(node("Constant", {}, {"d"}, attrs(attr("value_int", int64_t{7}))));
  wire::Attribute sparse{.name = "sparse_value", .type = static_cast<int32_t>(AttrType::kSparseTensor)};
  sparse.sparse_tensors.push_back(
      {t.tensor<float>("", {2}, {5, 6}), t.tensor<int64_t>("", {2, 2}, {0, 1, 1, 0}), {2, 2}});
  m.graph.nodes.push_back(node("Constant", {}, {"e"}, attrs(std::move(sparse))));
  for (const char* name : {"a", "b", "c", "d", "e"}) m.graph.outputs.push_back({.name = name});
  const auto g = good(m);
  EXPECT_EQ(g->node_count(), 0u);
  const auto contents = [&](const char* name) { return *g->value(g->find_value(name)).constant; };
  EXPECT_EQ(contents("b").dims, (Dims{3}));
  EXPECT_EQ(contents("c").strings()[0], "text");
  EXPECT_EQ(contents("d").as<int64_t>()[0], 7);
  EXPECT_EQ(std::vector<float>(contents("e").as<float>(), contents("e").as<float>() + 4),
            (std::vector<float>{0, 5, 6, 0}));
}

TEST(Import, SparseInitializersAreChecked) {
  Models t;
  const auto with = [&](std::vector<int64_t> indices, std::vector<int64_t> index_dims, std::vector<int64_t> dims) {
    wire::Model m = relu_model();
    m.graph.sparse_initializers.push_back(
        {t.tensor<float>("w", {1}, {5}), t.tensor<int64_t>("", std::move(index_dims), indices), std::move(dims)});
    return m;
  };
  EXPECT_TRUE(import(with({3}, {1}, {2, 2})).ok());
  EXPECT_TRUE(import(with({1, 1}, {1, 2}, {2, 2})).ok());
  EXPECT_FALSE(import(with({4}, {1}, {2, 2})).ok());
  EXPECT_FALSE(import(with({-1}, {1}, {2, 2})).ok());
  EXPECT_FALSE(import(with({1, 2}, {1, 2}, {2, 2})).ok());
  EXPECT_FALSE(import(with({0, 0}, {2}, {2, 2})).ok());
  EXPECT_THAT(error(with({0}, {1}, {int64_t{1} << 40})), HasSubstr("as a dense one"));
}

// If with a branch that reads outer values: a computed one and a constant.
wire::Graph branch(std::string_view result, std::vector<wire::Node> nodes) {
  wire::Graph g{.name = "branch"};
  g.nodes = std::move(nodes);
  g.outputs.push_back(value(result, kF, {}, false));
  return g;
}

TEST(Import, BodiesAreClosed) {
  Models t;
  wire::Model m = model(16);
  m.graph.inputs.push_back(value("c", DType::kBool));
  m.graph.inputs.push_back(value("x", kF, {2}));
  m.graph.initializers.push_back(t.tensor<float>("k", {2}, {1, 2}));
  m.graph.nodes.push_back(node("Exp", {"x"}, {"e"}));
  std::vector<wire::Node> then_nodes, else_nodes;
  then_nodes.push_back(node("Add", {"e", "k"}, {"sum"}));
  else_nodes.push_back(node("Sub", {"x", "e"}, {"difference"}));
  m.graph.nodes.push_back(node("If", {"c"}, {"y"},
                               attrs(attr("else_branch", branch("difference", std::move(else_nodes))),
                                     attr("then_branch", branch("sum", std::move(then_nodes))))));
  m.graph.outputs.push_back(value("y", kF));
  const auto g = good(m);
  const GraphNode& n = g->node(g->producer(g->find_value("y")));
  EXPECT_EQ(n.formal_inputs(), 1);
  ASSERT_EQ(n.captures, 2);
  EXPECT_EQ(g->value(n.inputs[1]).name, "x");
  EXPECT_EQ(g->value(n.inputs[2]).name, "e");
  ASSERT_EQ(n.bodies.size(), 2u);
  EXPECT_EQ(n.bodies[0].first, "then_branch");
  const Graph& then_body = *n.bodies[0].second;
  EXPECT_EQ(then_body.inputs().size(), 2u);
  EXPECT_TRUE(then_body.is_constant(then_body.find_value("k")));
  EXPECT_EQ(then_body.value(then_body.find_value("k")).constant->data, g->value(g->find_value("k")).constant->data);
  EXPECT_EQ(g->value(g->find_value("y")).type, ValueType::tensor(kF));
}

TEST(Import, BodyMayReturnAnOuterValueAndHideOne) {
  wire::Model m = model(16);
  m.graph.inputs.push_back(value("c", DType::kBool));
  m.graph.inputs.push_back(value("x", kF, {2}));
  m.graph.nodes.push_back(node("Exp", {"x"}, {"e"}));
  std::vector<wire::Node> hiding;
  hiding.push_back(node("Neg", {"x"}, {"e"}));
  m.graph.nodes.push_back(
      node("If", {"c"}, {"y"},
           attrs(attr("then_branch", branch("e", {})), attr("else_branch", branch("e", std::move(hiding))))));
  m.graph.outputs.push_back(value("y", kF));
  const auto g = good(m);
  const GraphNode& n = g->node(g->producer(g->find_value("y")));
  EXPECT_EQ(n.captures, 2);
  const Graph& then_body = *n.bodies[0].second;
  EXPECT_TRUE(then_body.value(then_body.outputs()[0]).is_input);
  const Graph& else_body = *n.bodies[1].second;
  EXPECT_TRUE(else_body.producer(else_body.outputs()[0]).valid());
}

TEST(Import, P24NestedBodiesTakeLinearTime) {
  for (const int depth : {20, 31, 40, 90, 120, 127, 140}) {
    wire::Graph inner = branch("leaf", {});
    inner.nodes.push_back(node("Identity", {"x"}, {"leaf"}));
    Models t;
    for (int i = 0; i < depth; ++i) {
      const std::string_view name = t.keep("v" + std::to_string(i)), other = t.keep("w" + std::to_string(i));
      wire::Graph simple = branch(other, {});
      simple.nodes.push_back(node("Identity", {"x"}, {other}));
      wire::Graph outer = branch(name, {});
      outer.nodes.push_back(node("If", {"c"}, {name},
                                 attrs(attr("then_branch", std::move(inner)), attr("else_branch", std::move(simple)))));
      inner = std::move(outer);
    }
    wire::Model m = model(16);
    inner.inputs.push_back(value("c", DType::kBool));
    inner.inputs.push_back(value("x", kF, {2}));
    m.graph = std::move(inner);
    auto g = import(m);
    EXPECT_EQ(g.ok(), depth < 128) << depth << " " << g.status();
    if (g.ok()) {
      EXPECT_EQ((*g)->node_count_deep(), static_cast<size_t>(2 * depth + 1));
    }
  }
}

wire::Function function(std::string_view name, std::vector<std::string_view> in, std::vector<std::string_view> out,
                        std::vector<wire::Node> nodes) {
  wire::Function f{.name = name, .domain = "local", .inputs = std::move(in), .outputs = std::move(out)};
  f.nodes = std::move(nodes);
  f.opsets = {{"", 17}, {"local", 1}};
  return f;
}
wire::Node call(std::string_view name, std::vector<std::string_view> in, std::vector<std::string_view> out,
                std::vector<wire::Attribute> attributes = {}) {
  wire::Node n = node(name, std::move(in), std::move(out), std::move(attributes));
  n.domain = "local";
  return n;
}
template <typename... N>
std::vector<wire::Node> nodes(N&&... n) {
  std::vector<wire::Node> list;
  (list.push_back(std::forward<N>(n)), ...);
  return list;
}

TEST(Import, P26AttributesThroughNestedFunctions) {
  wire::Model m = model(17);
  m.opsets.push_back({"local", 1});
  m.functions.push_back(function("f1", {"x"}, {"y"},
                                 nodes(node("Constant", {}, {"k"}, attrs(ref("value_int", "inner", AttrType::kInt))),
                                       node("Add", {"x", "k"}, {"y"}))));
  m.functions[0].attributes = {"inner"};
  m.functions.push_back(
      function("func", {"x"}, {"y"}, nodes(call("f1", {"x"}, {"y"}, attrs(ref("inner", "outer", AttrType::kInt))))));
  m.functions[1].attributes = {"outer"};
  m.graph.inputs.push_back(value("x", DType::kInt64, {3}));
  m.graph.nodes.push_back(call("func", {"x"}, {"y"}, attrs(attr("outer", int64_t{1}))));
  m.graph.outputs.push_back(value("y", DType::kInt64));
  const auto g = good(m);
  ASSERT_EQ(ops(*g), std::vector<std::string>{"Add"});
  const GraphNode& add = g->node(g->order()[0]);
  EXPECT_EQ(g->value(add.inputs[1]).constant->as<int64_t>()[0], 1);
  EXPECT_EQ(g->value(g->outputs()[0]).name, "y");
  EXPECT_EQ(add.origin, std::vector<std::string>{"y"});
}

TEST(Import, FunctionDefaultsMissingInputsAndPassThrough) {
  wire::Model m = model(17);
  m.opsets.push_back({"local", 1});
  m.functions.push_back(function("f", {"x", "limit"}, {"y", "same"},
                                 nodes(node("LeakyRelu", {"x"}, {"a"}, attrs(ref("alpha", "slope", AttrType::kFloat))),
                                       node("Clip", {"a", "limit"}, {"y"}), node("Identity", {"x"}, {"unused"}))));
  m.functions[0].default_attributes = attrs(attr("slope", 0.25f));
  m.functions[0].outputs = {"y", "x"};
  m.graph.inputs.push_back(value("x", kF, {3}));
  m.graph.nodes.push_back(call("f", {"x"}, {"y", "z"}));
  m.graph.nodes.push_back(call("f", {"y"}, {"y2"}, attrs(attr("slope", 0.5f))));
  for (const char* name : {"y", "z", "y2"}) m.graph.outputs.push_back(value(name, kF));
  const auto g = good(m);
  const GraphNode& clip = g->node(g->producer(g->find_value("y")));
  EXPECT_EQ(clip.inputs.size(), 1u);
  EXPECT_EQ(g->node(g->producer(clip.inputs[0])).attributes.get_float("alpha", 0), 0.25f);
  EXPECT_EQ(g->node(g->producer(g->find_value("z"))).op.type, "Identity");
  const GraphNode& second = g->node(g->producer(g->find_value("y2")));
  EXPECT_EQ(g->node(g->producer(second.inputs[0])).attributes.get_float("alpha", 0), 0.5f);
}

TEST(Import, BodiesInsideFunctionsCaptureTheCallsValues) {
  wire::Model m = model(17);
  m.opsets.push_back({"local", 1});
  std::vector<wire::Node> then_nodes;
  then_nodes.push_back(node("LeakyRelu", {"u"}, {"t"}, attrs(ref("alpha", "slope", AttrType::kFloat))));
  m.functions.push_back(
      function("f", {"c", "x"}, {"y"},
               nodes(node("Exp", {"x"}, {"u"}), node("If", {"c"}, {"y"},
                                                     attrs(attr("then_branch", branch("t", std::move(then_nodes))),
                                                           attr("else_branch", branch("x", {})))))));
  m.functions[0].attributes = {"slope"};
  m.graph.inputs.push_back(value("cond", DType::kBool));
  m.graph.inputs.push_back(value("in", kF, {3}));
  m.graph.nodes.push_back(call("f", {"cond", "in"}, {"out"}, attrs(attr("slope", 0.5f))));
  m.graph.outputs.push_back(value("out", kF));
  const auto g = good(m);
  const GraphNode& n = g->node(g->producer(g->find_value("out")));
  ASSERT_EQ(n.op.type, "If");
  ASSERT_EQ(n.captures, 2);
  EXPECT_EQ(g->value(n.inputs[1]).name, "out/u");
  EXPECT_EQ(g->value(n.inputs[2]).name, "in");
  const Graph& body = *n.bodies[0].second;
  EXPECT_EQ(body.node(body.order()[0]).attributes.get_float("alpha", 0), 0.5f);
}

TEST(Import, LoopBodiesKeepFormalsBeforeCaptures) {
  for (const int64_t ir : {3, 8}) {
    Models t;
    wire::Model m = model(11, ir);
    wire::Graph body{.name = "body"};
    body.inputs.push_back(value("i", DType::kInt64));
    body.inputs.push_back(value("go", DType::kBool));
    body.inputs.push_back(value("s", kF, {2}));
    if (ir == 3) body.inputs.push_back(value("one", kF, {1}));  // an initializer, not a formal
    body.initializers.push_back(t.tensor<float>("one", {1}, {1}));
    body.nodes.push_back(node("Identity", {"go"}, {"go_on"}));
    body.nodes.push_back(node("Add", {"s", "one"}, {"plus"}));
    body.nodes.push_back(node("Mul", {"plus", "x"}, {"so"}));
    body.outputs.push_back(value("go_on", DType::kBool));
    body.outputs.push_back(value("so", kF, {2}));
    m.graph.inputs.push_back(value("n", DType::kInt64));
    m.graph.inputs.push_back(value("x", kF, {2}));
    m.graph.nodes.push_back(node("Loop", {"n", "", "x"}, {"y"}, attrs(attr("body", std::move(body)))));
    m.graph.outputs.push_back(value("y", kF));
    const auto g = good(m);
    const GraphNode& n = g->node(g->producer(g->find_value("y")));
    EXPECT_EQ(n.formal_inputs(), 3);
    EXPECT_FALSE(n.inputs[1].valid());
    ASSERT_EQ(n.captures, 1);
    ASSERT_EQ(n.bodies[0].second->inputs().size(), 4u);
    EXPECT_EQ(n.bodies[0].second->value(n.bodies[0].second->inputs()[2]).name, "s");
    EXPECT_EQ(n.bodies[0].second->value(n.bodies[0].second->inputs()[3]).name, "x");
    EXPECT_EQ(g->value(g->find_value("y")).type, ValueType::tensor(kF));
  }
}

TEST(Import, FunctionsKeepTheirOwnOpset) {
  wire::Model m = model(17);
  m.opsets.push_back({"local", 1});
  m.functions.push_back(function("f", {"x"}, {"y"},
                                 nodes(node("ReduceSum", {"x"}, {"y"}, attrs(attr("axes", std::vector<int64_t>{1}))))));
  m.functions[0].opsets = {{"", 11}};
  m.graph.inputs.push_back(value("x", kF, {3, 4}));
  m.graph.nodes.push_back(call("f", {"x"}, {"y"}));
  m.graph.outputs.push_back(value("y", kF));
  const auto g = good(m);
  EXPECT_EQ(g->node(g->order()[0]).inputs.size(), 2u);
}

TEST(Import, P24FunctionsThatCallEachOther) {
  wire::Model m = model(17);
  m.opsets.push_back({"local", 1});
  m.functions.push_back(function("a", {"x"}, {"y"}, nodes(call("b", {"x"}, {"y"}))));
  m.functions.push_back(function("b", {"x"}, {"y"}, nodes(call("a", {"x"}, {"y"}))));
  m.graph.inputs.push_back(value("x", kF, {3}));
  m.graph.nodes.push_back(call("a", {"x"}, {"y"}));
  m.graph.outputs.push_back(value("y", kF));
  EXPECT_THAT(error(m), HasSubstr("calls itself"));
}

TEST(Import, P24FunctionsThatDoubleAreStopped) {
  wire::Model m = model(17);
  m.opsets.push_back({"local", 1});
  Models t;
  for (int i = 0; i < 40; ++i) {
    const std::string_view name = t.keep("f" + std::to_string(i)), next = t.keep("f" + std::to_string(i + 1));
    m.functions.push_back(function(name, {"x"}, {"y"}, nodes(call(next, {"x"}, {"a"}), call(next, {"a"}, {"y"}))));
  }
  m.functions.push_back(function("f40", {"x"}, {"y"}, nodes(node("Neg", {"x"}, {"y"}))));
  m.graph.inputs.push_back(value("x", kF, {3}));
  m.graph.nodes.push_back(call("f0", {"x"}, {"y"}));
  m.graph.outputs.push_back(value("y", kF));
  EXPECT_THAT(error(m, {.max_nodes = 10'000}), HasSubstr("grows beyond 10000 nodes"));
}

TEST(Import, SchemaBodiesStandInForMissingKernels) {
  wire::Model m = model(17);
  m.graph.inputs.push_back(value("x", kF, {3}));
  m.graph.nodes.push_back(node("Elu", {"x"}, {"y"}, attrs(attr("alpha", 2.0f))));
  m.graph.nodes.push_back(node("GreaterOrEqual", {"y", "x"}, {"z"}));
  m.graph.outputs.push_back(value("z", DType::kBool));
  const ImportOptions options{
      .has_kernel = [](std::string_view, std::string_view op) { return op != "Elu" && op != "GreaterOrEqual"; }};
  const auto g = good(m, options);
  const auto names = ops(*g);
  EXPECT_THAT(names, testing::Contains("Where"));
  EXPECT_THAT(names, testing::Not(testing::Contains("Elu")));
  EXPECT_EQ(g->value(g->outputs()[0]).type, ValueType::tensor(DType::kBool));
  bool alpha = false;
  for (uint32_t i = 0; i < g->value_capacity(); ++i) {
    const auto& c = g->value(ValueId{i}).constant;
    alpha = alpha || (c && c->dtype == kF && c->elements() == 1 && *c->as<float>() == 2.0f);
  }
  EXPECT_TRUE(alpha);
}

TEST(Import, AllMissingOperatorsAreListed) {
  wire::Model m = model(17);
  m.opsets.push_back({"com.example", 1});
  m.graph.inputs.push_back(value("x", kF, {3}));
  m.graph.nodes.push_back(node("Relux", {"x"}, {"a"}));
  m.graph.nodes.push_back(node("Relux", {"a"}, {"b"}));
  m.graph.nodes.push_back(node("Bar", {"b"}, {"d"}));
  m.graph.nodes.back().domain = "com.example";
  m.graph.nodes.push_back(node("Gelu", {"d"}, {"e"}));
  m.graph.nodes.push_back(node("Det", {"e"}, {"y"}));
  m.graph.outputs.push_back(value("y", kF));
  const std::string text = error(m, {.has_kernel = [](std::string_view, std::string_view op) { return op == "Relu"; }});
  EXPECT_THAT(text, HasSubstr("4 operators"));
  EXPECT_THAT(text, HasSubstr("Relux (2 nodes, first 'a'): no such operator is known; the nearest is Relu"));
  EXPECT_THAT(text, HasSubstr("com.example.Bar"));
  EXPECT_THAT(text, HasSubstr("Gelu (1 node, first 'e'): exists from opset 20 on; the model uses 17"));
  EXPECT_THAT(text, HasSubstr("Det (1 node"));
}

TEST(Import, TypesWithoutKernelAreListedBesideMissingOperators) {
  wire::Model m = model(17);
  m.graph.inputs.push_back(value("x", kF, {3}));
  m.graph.nodes.push_back(node("Halve", {"x"}, {"a"}));
  m.graph.nodes.push_back(node("Relu", {"a"}, {"b"}));
  m.graph.nodes.push_back(node("Relu", {"x"}, {"y"}));
  m.graph.value_infos.push_back(value("a", DType::kBFloat16, {3}));
  m.graph.outputs.push_back(value("b", DType::kBFloat16));
  m.graph.outputs.push_back(value("y", kF));
  ImportOptions options;
  options.has_kernel = [](std::string_view, std::string_view op) { return op == "Relu"; };
  options.takes_types = [](const Graph& g, const GraphNode& n) -> Status {
    const ValueType& type = g.value(n.inputs[0]).type;
    return type == ValueType::tensor(kF) ? absl::OkStatus() : unsupported("input 0 is " + to_string(type));
  };
  const std::string text = error(m, options);
  EXPECT_THAT(text, HasSubstr("2 operators"));
  EXPECT_THAT(text, HasSubstr("Halve (1 node, first 'a'): no such operator is known"));
  EXPECT_THAT(text, HasSubstr("Relu (1 node, first 'b'): input 0 is tensor(bfloat16)"));
}

// A rewrite may take a node away before any kernel is asked.
TEST(Import, TypesThatNoVersionOfAnOperatorHasAreRefused) {
  const struct {
    const char* op;
    DType dtype;
    std::string says;
  } rows[] = {
      {"Max", DType::kInt4, "node 0 'y' (Max) › input 0 (data_0) is i4, which ONNX does not allow there"},
      {"Sum", DType::kInt64, "input 0 (data_0) is i64"},
      {"Dropout", DType::kString, "input 0 (data) is str"},
      {"Relu", DType::kBool, "input 0 (X) is bool"},
      {"Max", DType::kInt64, ""},  // from opset 12 on
      {"Identity", DType::kInt4, ""},
      {"Transpose", DType::kUint4, ""},
  };
  for (const auto& r : rows) {
    wire::Model m = model(21);
    m.graph.inputs.push_back(value("x", r.dtype, {-1}));
    m.graph.nodes.push_back(node(r.op, {"x"}, {"y"}));
    m.graph.outputs.push_back(value("y", r.dtype, {-1}));
    if (r.says.empty()) {
      good(m);
    } else {
      EXPECT_THAT(error(m), HasSubstr(r.says));
    }
  }
}

TEST(Import, OperatorsMissingInBodiesOfMissingOperatorsAreListed) {
  wire::Model m = model(17);
  m.graph.inputs.push_back(value("x", kF, {3}));
  m.graph.nodes.push_back(node("Scan", {"x"}, {"y"}));
  wire::Attribute body;
  body.name = "body";
  body.type = static_cast<int>(AttrType::kGraph);
  body.graphs.emplace_back();
  body.graphs[0].inputs.push_back(value("r", kF));
  body.graphs[0].nodes.push_back(node("Det", {"r"}, {"s"}));
  body.graphs[0].outputs.push_back(value("s", kF));
  m.graph.nodes.back().attributes.push_back(std::move(body));
  m.graph.outputs.push_back(value("y", kF));
  const std::string text = error(m, {.has_kernel = [](std::string_view, std::string_view op) { return op == "Relu"; }});
  EXPECT_THAT(text, HasSubstr("Scan (1 node"));
  EXPECT_THAT(text, HasSubstr("Det (1 node"));
}

TEST(Import, WrongModels) {
  struct Case {
    const char* what;
    void (*change)(wire::Model&);
    const char* expected;
  };
  const Case cases[] = {
      {"no opset", [](wire::Model& m) { m.opsets.clear(); }, "does not say which operator sets"},
      {"future opset", [](wire::Model& m) { m.opsets[0].version = 99; }, "newest known here is 28"},
      {"opset 0", [](wire::Model& m) { m.opsets[0].version = 0; }, "impossible"},
      {"future IR", [](wire::Model& m) { m.ir_version = 15; }, "IR version 15"},
      {"no IR", [](wire::Model& m) { m.ir_version = 0; }, "no IR version"},
      {"missing value", [](wire::Model& m) { m.graph.nodes[0].inputs[0] = "q"; }, "'q' is read but nothing makes it"},
      {"missing output", [](wire::Model& m) { m.graph.outputs[0].name = "q"; }, "'q' is read but nothing makes it"},
      {"no outputs", [](wire::Model& m) { m.graph.outputs.clear(); }, "no outputs"},
      {"twice made", [](wire::Model& m) { m.graph.nodes.push_back(node("Neg", {"x"}, {"y"})); }, "'y' is made twice"},
      {"input made",
       [](wire::Model& m) {
         m.graph.inputs.push_back(value("w", kF));
         m.graph.nodes.push_back(node("Neg", {"y"}, {"w"}));
       },
       "'w' is made twice"},
      {"cycle",
       [](wire::Model& m) {
         m.graph.nodes.push_back(node("Neg", {"b"}, {"a"}));
         m.graph.nodes.push_back(node("Add", {"a", "x"}, {"b"}));
       },
       "cycle"},
      {"cycle through itself", [](wire::Model& m) { m.graph.nodes[0].inputs[0] = "y"; }, "cycle"},
      {"duplicate input", [](wire::Model& m) { m.graph.inputs.push_back(value("x", kF)); }, "occurs twice"},
      {"input without type", [](wire::Model& m) { m.graph.inputs[0].type = {}; }, "has no type"},
      {"input without name", [](wire::Model& m) { m.graph.inputs[0].name = ""; }, "has no name"},
      {"strange type", [](wire::Model& m) { m.graph.inputs[0].type.elem_type = 77; }, "77"},
      {"too many inputs",
       [](wire::Model& m) {
         m.graph.nodes[0].inputs = {"x", "x"};
       },
       "at most 1"},
      {"no inputs", [](wire::Model& m) { m.graph.nodes[0].inputs.clear(); }, "at least 1"},
      {"too many outputs",
       [](wire::Model& m) {
         m.graph.nodes[0].outputs = {"y", "z"};
       },
       "at most 1"},
      {"wrong attribute kind",
       [](wire::Model& m) { m.graph.nodes[0] = node("LeakyRelu", {"x"}, {"y"}, attrs(attr("alpha", int64_t{1}))); },
       "must be FLOAT but is INT"},
      {"attribute twice",
       [](wire::Model& m) {
         m.graph.nodes[0] = node("Flatten", {"x"}, {"y"}, attrs(attr("axis", int64_t{1}), attr("axis", int64_t{2})));
       },
       "occurs twice"},
      {"reference outside of a function",
       [](wire::Model& m) {
         m.graph.nodes[0] = node("Flatten", {"x"}, {"y"}, attrs(ref("axis", "a", AttrType::kInt)));
       },
       "outside of a function"},
      {"constant without value", [](wire::Model& m) { m.graph.nodes.push_back(node("Constant", {}, {"k"})); },
       "exactly one value"},
      {"lying initializer",
       [](wire::Model& m) {
         m.graph.initializers.push_back(
             {.name = "w", .dims = {1000, 1000}, .data_type = 1, .has_raw = true, .raw = "1234"});
       },
       "needs 4000000 bytes"},
      {"overflowing initializer",
       [](wire::Model& m) {
         m.graph.initializers.push_back(
             {.name = "w", .dims = {1LL << 40, 1LL << 40}, .data_type = 1, .has_raw = true, .raw = "1234"});
       },
       "impossible dims"},
      {"initializer without name",
       [](wire::Model& m) {
         m.graph.initializers.push_back({.dims = {1}, .data_type = 1, .has_raw = true, .raw = "1234"});
       },
       "no name"},
      {"unused domain is fine, its operators not", [](wire::Model& m) { m.graph.nodes[0].domain = "ai.onnx.ml"; },
       "does not import an opset"},
  };
  for (const Case& c : cases) {
    wire::Model m = relu_model();
    c.change(m);
    EXPECT_THAT(error(m), HasSubstr(c.expected)) << c.what;
  }
}

TEST(Import, ErrorsNameTheNode) {
  wire::Model m = relu_model();
  m.graph.nodes.push_back(node("Slice", {"y"}, {"z"}, {}));
  m.opsets[0].version = 9;
  EXPECT_THAT(error(m), HasSubstr("node 1 'z' (Slice)"));
}

class ExternalDataTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("forethought_external_" + std::to_string(::getpid()));
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    std::ofstream file(folder_ / "inside.bin", std::ios::binary);
    for (int i = 0; i < 16; ++i) {
      const float f = static_cast<float>(i);
      file.write(reinterpret_cast<const char*>(&f), 4);
    }
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  wire::Model with(std::vector<wire::StringEntry> entries) {
    wire::Model m = model(17);
    m.graph.inputs.push_back(value("x", kF, {2}));
    m.graph.initializers.push_back(
        {.name = "w", .dims = {2}, .data_type = 1, .external = true, .external_data = std::move(entries)});
    m.graph.nodes.push_back(node("Add", {"x", "w"}, {"y"}));
    m.graph.outputs.push_back(value("y", kF));
    return m;
  }
  StatusOr<std::unique_ptr<Graph>> load(const wire::Model& m) {
    const auto path = folder_ / "model.onnx";
    std::ofstream(path, std::ios::binary) << wire::serialize(m);
    return load_model(path.string());
  }
  std::filesystem::path folder_;
};

TEST_F(ExternalDataTest, P23ReadsWhatLiesInside) {
  for (const bool length : {true, false}) {
    std::vector<wire::StringEntry> entries{{"location", "inside.bin"}, {"offset", "4"}};
    if (length) entries.push_back({"length", "8"});
    auto g = load(with(entries));
    ASSERT_TRUE(g.ok()) << g.status();
    const Tensor& w = *(*g)->value((*g)->find_value("w")).constant;
    EXPECT_EQ(w.as<float>()[0], 1);
    EXPECT_EQ(w.as<float>()[1], 2);
    EXPECT_EQ((*g)->info.copied_bytes, 0);
    EXPECT_TRUE(import(with(entries), {.folder = folder_.string()}).ok());
    EXPECT_FALSE(import(with(entries)).ok());
  }
}

TEST_F(ExternalDataTest, P23RefusesTheRest) {
  std::ofstream(folder_.parent_path() / "forethought_outside.bin") << "0123456789abcdef";
  const std::vector<std::vector<wire::StringEntry>> bad{
      {{"location", "../forethought_outside.bin"}},
      {{"location", "/dev/zero"}},
      {{"location", "inside.bin"}, {"offset", "60"}, {"length", "8"}},
      {{"location", "inside.bin"}, {"offset", "4"}, {"length", "4"}},
      {{"location", "inside.bin"}, {"offset", "-4"}, {"length", "8"}},
      {{"location", "inside.bin"}, {"offset", "9223372036854775807"}},
      {{"location", "inside.bin"}, {"offset", "x"}},
      {{"location", "absent.bin"}},
      {{"location", "*/_ORT_MEM_ADDR_/*"}, {"offset", "94000000"}, {"length", "8"}},
      {},
  };
  for (size_t i = 0; i < bad.size(); ++i) {
    EXPECT_FALSE(load(with(bad[i])).ok()) << i;
    EXPECT_FALSE(import(with(bad[i])).ok()) << i;
  }
  std::filesystem::remove(folder_.parent_path() / "forethought_outside.bin");
}

}  // namespace
}  // namespace forethought
