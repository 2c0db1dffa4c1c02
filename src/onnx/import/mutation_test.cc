// Damaged models: every byte of small models changed, cut and repeated; import and saving end with a status, and what
// was imported keeps every rule and can be saved and loaded again.
#include <gtest/gtest.h>

#include <random>

#include "onnx/save/save.h"
#include "onnx/testing.h"

namespace forethought {
namespace {

using namespace onnx_testing;  // NOLINT

constexpr DType kF = DType::kFloat;

wire::Graph branch(std::string_view result, wire::Node n) {
  wire::Graph g{.name = "b"};
  g.nodes.push_back(std::move(n));
  g.outputs.push_back(value(result, kF, {}, false));
  return g;
}

std::vector<std::string> seeds() {
  Models t;
  std::vector<std::string> result;
  wire::Model m = model(6, 3);
  m.graph.inputs.push_back(value("x", kF, {2, 3}));
  m.graph.initializers.push_back(t.tensor<float>("w", {2}, {1, 2}));
  m.graph.nodes.push_back(
      node("Mul", {"x", "w"}, {"a"}, attrs(attr("broadcast", int64_t{1}), attr("axis", int64_t{0}))));
  m.graph.nodes.push_back(node("Clip", {"a"}, {"b"}, attrs(attr("max", 6.0f))));
  m.graph.nodes.push_back(node("Softmax", {"b"}, {"c"}));
  m.graph.nodes.push_back(node("Slice", {"c"}, {"y"},
                               attrs(attr("starts", std::vector<int64_t>{0}), attr("ends", std::vector<int64_t>{1}))));
  m.graph.outputs.push_back(value("y", kF));
  result.push_back(wire::serialize(m));

  wire::Model control = model(16);
  control.graph.inputs.push_back(value("c", DType::kBool));
  control.graph.inputs.push_back(value("x", kF, {2}));
  control.graph.initializers.push_back(t.tensor<float>("k", {2}, {1, 2}));
  control.graph.nodes.push_back(node("If", {"c"}, {"y"},
                                     attrs(attr("then_branch", branch("s", node("Add", {"x", "k"}, {"s"}))),
                                           attr("else_branch", branch("d", node("Elu", {"x"}, {"d"}))))));
  control.graph.outputs.push_back(value("y", kF));
  result.push_back(wire::serialize(control));

  wire::Model calls = model(17);
  calls.opsets.push_back({"l", 1});
  wire::Function f{.name = "f", .domain = "l", .inputs = {"a", "u"}, .outputs = {"b", "a"}};
  f.nodes.push_back(node("Constant", {}, {"k"}, attrs(ref("value_float", "v", AttrType::kFloat))));
  f.nodes.push_back(node("Add", {"a", "k"}, {"b"}));
  f.default_attributes = attrs(attr("v", 2.0f));
  f.opsets = {{"", 17}};
  calls.functions.push_back(std::move(f));
  calls.graph.inputs.push_back(value("x", kF, {2}));
  wire::Node call = node("f", {"x"}, {"y", "z"});
  call.domain = "l";
  calls.graph.nodes.push_back(std::move(call));
  calls.graph.outputs.push_back(value("y", kF));
  calls.graph.outputs.push_back(value("z", kF));
  result.push_back(wire::serialize(calls));
  return result;
}

int imported = 0;

void survive(std::string_view bytes) {
  const ImportOptions options{.has_kernel = [](std::string_view, std::string_view op) { return op != "Elu"; },
                              .max_nodes = 1000};
  auto g = import_model({bytes, {}}, options);
  if (!g.ok()) return;
  ++imported;
  ASSERT_TRUE(validate(**g).ok()) << validate(**g);
  auto saved = model_bytes(**g);
  if (!saved.ok()) return;
  auto again = import_model({*saved, {}}, {.has_kernel = [](std::string_view, std::string_view) { return true; }});
  ASSERT_TRUE(again.ok()) << again.status();
  ASSERT_TRUE(validate(**again).ok()) << validate(**again);
}

TEST(Mutation, EveryByteAndEveryCut) {
  imported = 0;
  for (const std::string& seed : seeds()) {
    ASSERT_NO_FATAL_FAILURE(survive(seed));
    for (size_t i = 0; i < seed.size(); ++i) {
      ASSERT_NO_FATAL_FAILURE(survive(std::string_view(seed).substr(0, i)));
      for (const int change : {1, 2, 4, 0x10, 0x80, 0xff}) {
        std::string s = seed;
        s[i] = static_cast<char>(s[i] ^ change);
        ASSERT_NO_FATAL_FAILURE(survive(s)) << "byte " << i << " change " << change;
      }
    }
  }
  EXPECT_GT(imported, 100);
}

TEST(Mutation, RandomEdits) {
  std::mt19937 random(1);
  const auto all = seeds();
  for (int round = 0; round < 20'000; ++round) {
    std::string s = all[random() % all.size()];
    for (int edits = 1 + static_cast<int>(random() % 4); edits > 0 && !s.empty(); --edits) {
      const size_t at = random() % s.size(), length = random() % 8;
      switch (random() % 4) {
        case 0:
          s[at] = static_cast<char>(random());
          break;
        case 1:
          s.erase(at, length);
          break;
        case 2:
          s.insert(at, s.substr(random() % s.size(), length));
          break;
        default:
          s.replace(at, length, all[random() % all.size()].substr(0, length));
          break;
      }
    }
    ASSERT_NO_FATAL_FAILURE(survive(s)) << "round " << round;
  }
}

}  // namespace
}  // namespace forethought
