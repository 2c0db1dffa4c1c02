// Bodies of nodes: closed graphs whose captured outer values are inputs.
#include <fmt/format.h>

#include <algorithm>

#include "onnx/import/builder.h"

namespace forethought {
namespace {

constexpr int kMaxDepth = 200;  // bodies and calls within each other

// If's branches stand in the order of its declaration; the other operators have one body.
bool comes_first(std::string_view a, std::string_view b) { return a == "then_branch" && b == "else_branch"; }

}  // namespace

Status Builder::add_bodies(Scope& scope, const wire::Node& node, NodeId id) {
  std::vector<const wire::Attribute*> graphs;
  for (const wire::Attribute& a : node.attributes) {
    if (static_cast<AttrType>(a.type) == AttrType::kGraph && a.ref_name.empty()) graphs.push_back(&a);
  }
  if (graphs.empty()) return absl::OkStatus();
  std::stable_sort(graphs.begin(), graphs.end(), [](auto* a, auto* b) { return comes_first(a->name, b->name); });
  // Outer constants are known for good: a body holds them itself. All else that it reads outside is captured.
  std::vector<std::pair<std::string_view, ValueId>> constants, captures;
  for (const std::string_view name : free_names_.of_bodies(node)) {
    ASSIGN_OR_RETURN(const ValueId v, resolve(scope, name));
    (!v.valid() || scope.graph->is_constant(v) ? constants : captures).emplace_back(name, v);
  }
  for (const auto& [name, v] : captures) scope.graph->add_capture(id, v);
  for (const wire::Attribute* a : graphs) {
    if (scope.graph->node(id).body(a->name)) return invalid(fmt::format("attribute '{}' occurs twice", a->name));
    auto made = body(scope, a->graphs[0], constants, captures);
    if (!made.ok()) return with_context(made.status(), fmt::format("body {}", a->name));
    scope.graph->node(id).bodies.emplace_back(a->name, std::move(*made));
  }
  return absl::OkStatus();
}

StatusOr<std::unique_ptr<Graph>> Builder::body(const Scope& outer, const wire::Graph& graph,
                                               const std::vector<std::pair<std::string_view, ValueId>>& constants,
                                               const std::vector<std::pair<std::string_view, ValueId>>& captures) {
  if (depth_ >= kMaxDepth) return invalid(fmt::format("bodies and functions are nested more than {} deep", kMaxDepth));
  ++depth_;
  auto result = std::make_unique<Graph>();
  result->name = graph.name;
  Scope scope{.graph = result.get(), .frame = outer.frame};
  for (const auto* list : {&graph.value_infos, &graph.outputs}) {
    for (const wire::ValueInfo& v : *list) scope.hints.emplace(v.name, &v.type);
  }
  std::unordered_map<std::string_view, bool> initialised;
  for (const wire::Tensor& t : graph.initializers) initialised.emplace(t.name, true);
  for (const wire::ValueInfo& input : graph.inputs) {
    if (initialised.contains(input.name)) continue;
    auto declared = Converter::type(input.type);
    if (!declared.ok()) return with_context(declared.status(), fmt::format("input '{}'", input.name));
    if (input.name.empty() || scope.names.contains(input.name)) {
      return invalid(fmt::format("input '{}': the name is empty or occurs twice", input.name));
    }
    const ValueId id = result->add_input(input.name, declared->type, {});
    result->value(id).declared = std::move(declared->shape);
    scope.names.emplace(input.name, id);
  }
  RETURN_IF_ERROR(add_initializers(scope, graph));
  // A name that this body defines itself hides the outer one, which another body of the node may still read.
  std::unordered_map<std::string_view, bool> free;
  for (const std::string_view name : free_names_.of(graph)) free.emplace(name, true);
  for (const auto& [name, v] : captures) {
    const ValueId id = result->add_input(name, outer.graph->value(v).type, {});
    if (free.contains(name)) scope.names.emplace(name, id);
  }
  for (const auto& [name, v] : constants) {
    if (!free.contains(name)) continue;
    scope.names.emplace(name, v.valid() ? result->add_constant(name, *outer.graph->value(v).constant) : ValueId{});
  }
  RETURN_IF_ERROR(add_nodes(scope, graph.nodes));
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    ASSIGN_OR_RETURN(const ValueId id, resolve(scope, graph.outputs[i].name));
    if (!id.valid()) {
      // Left open by a call that leaves an input out.
      return invalid(fmt::format("output {} '{}' has no value", i, graph.outputs[i].name));
    }
    result->add_output(id);
  }
  --depth_;
  return result;
}

}  // namespace forethought
