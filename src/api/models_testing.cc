#include "api/models_testing.h"

#include "graph/text.h"
#include "onnx/save/save.h"
#include "onnx/testing.h"

namespace forethought_testing {

using namespace forethought;                // NOLINT
using namespace forethought::onnx_testing;  // NOLINT

std::string affine_model() {
  Models models;
  wire::Model m = model(17);
  m.producer_name = "maker";
  m.metadata.push_back({"alphabet", "abc"});
  const auto rows = [](std::string_view name) {
    wire::ValueInfo v = value(name, DType::kFloat, {-1, 3});
    v.type.dims[0] = {wire::Dim::Kind::kParam, 0, "N"};
    return v;
  };
  m.graph.inputs.push_back(rows("x"));
  m.graph.outputs.push_back(rows("y"));
  m.graph.outputs.push_back(value("s", DType::kFloat, {}));
  m.graph.initializers.push_back(models.tensor<float>("two", {}, {2}));
  m.graph.initializers.push_back(models.tensor<float>("one", {}, {1}));
  m.graph.nodes.push_back(node("Mul", {"x", "two"}, {"m"}));
  m.graph.nodes.push_back(node("Add", {"m", "one"}, {"y"}));
  m.graph.nodes.push_back(node("ReduceSum", {"y"}, {"s"}, attrs(attr("keepdims", int64_t{0}))));
  return wire::serialize(m);
}

std::string sequence_model() {
  wire::Model m = model(17);
  m.graph.inputs.push_back(value("a", DType::kFloat, {2}));
  m.graph.inputs.push_back(value("b", DType::kFloat, {2}));
  wire::ValueInfo q{.name = "q"};
  q.type.kind = wire::Type::Kind::kSequence;
  q.type.element = std::make_unique<wire::Type>(value("", DType::kFloat, {2}).type);
  m.graph.outputs.push_back(std::move(q));
  m.graph.nodes.push_back(node("SequenceConstruct", {"a", "b"}, {"q"}));
  return wire::serialize(m);
}

std::string state_model() {
  Models models;
  wire::Model m = model(17);
  m.graph.inputs.push_back(value("h", DType::kFloat, {3}));
  m.graph.inputs.push_back(value("x", DType::kFloat, {3}));
  m.graph.outputs.push_back(value("next", DType::kFloat, {3}));
  m.graph.outputs.push_back(value("y", DType::kFloat, {3}));
  m.graph.initializers.push_back(models.tensor<float>("ten", {}, {10}));
  m.graph.nodes.push_back(node("Add", {"h", "x"}, {"next"}));
  m.graph.nodes.push_back(node("Mul", {"next", "ten"}, {"y"}));
  return wire::serialize(m);
}

std::string layers_model() {
  const auto graph = graph_from_text(R"(graph layers(%x: f32[N,16]) {
    %v: f32[16,32] = Expand(0.5, [16, 32])
    %w: f32[32,4] = Expand(0.25, [32, 4])
    %a = MatMul(%x, %v)
    %b = Softmax<axis=-1>(%a)
    %c = Concat<axis=1>(%b, %x)
    %d = MatMul(%b, %w)
    return %c, %d
  })");
  return model_bytes(**graph).value();
}

std::string branches_model() {
  const auto graph = graph_from_text(R"(graph branches(%x: f32[N,4]) {
    %sum = ReduceSum<keepdims=0>(%x)
    %some = Relu(%sum)
    %flag = Cast<to=9>(%some)
    %y = If(%flag; %x) {
      then_branch: graph(%p: f32[N,4]) {
        %q = Neg(%p)
        return %q
      }
      else_branch: graph(%p: f32[N,4]) {
        %q = Exp(%p)
        %r = Sub(%q, 1.0)
        return %r
      }
    }
    %found = NonZero(%y)
    %z = Cast<to=1>(%found)
    return %y, %z
  })");
  return model_bytes(**graph).value();
}

std::string parallel_model() {
  const auto graph = graph_from_text(R"(graph parallel(%x: f32[N,8]) {
    %a = Softmax(%x)
    %b = Softmax<axis=0>(%x)
    %c = Softmax(%a)
    %d = Softmax<axis=0>(%b)
    %y = Add(%c, %d)
    return %y
  })");
  return model_bytes(**graph).value();
}

std::string loop_model(bool stacks) {
  const std::string head = "graph loop(%m: i64[], %x: f32[2]) { %y", loop = R"( = Loop(%m, bool true, %x) {
      body: graph(%i: i64[], %go: bool[], %s: f32[2]) {
        %next = Neg(%s)
        %on = Identity(%go)
        %slice = Identity(%s)
        return %on, %next)";
  const std::string text =
      stacks ? head + ", %all" + loop + ", %slice } } return %y, %all }" : head + loop + " } } return %y }";
  const auto graph = graph_from_text(text);
  return model_bytes(**graph).value();
}

}  // namespace forethought_testing
