#include "onnx/import/batched_scan.h"

#include <fmt/format.h>

#include "graph/schema/schema.h"
#include "onnx/import/types.h"

namespace forethought {
namespace {

// Nodes of the body over one sequence.
class Body {
 public:
  Body(Graph& graph, const GraphNode& old) : graph_(graph), old_(old) {}

  ValueId node(std::string_view op, std::vector<ValueId> inputs, Attributes attributes = {}) {
    const ValueId out = graph_.add_value("");
    const NodeId id =
        graph_.add_node({"", std::string(op), schema_versions("", op).back().since_version},
                        fmt::format("{}/{}", old_.name, op), std::move(inputs), {out}, std::move(attributes));
    graph_.node(id).origin = old_.origin;
    derive_output_types(graph_, id);
    return out;
  }
  ValueId ints(const std::vector<int64_t>& values) {
    return graph_.add_constant("", tensor_of<int64_t>({static_cast<int64_t>(values.size())}, values));
  }
  // The first `length` elements along the first axis.
  ValueId first(ValueId x, ValueId length) { return node("Slice", {x, ints({0}), length, ints({0})}); }
  // Zeroes after the end, up to as many elements along the first axis as there were before first().
  ValueId filled(ValueId y, ValueId length, ValueId full) {
    Attributes along;
    along.set("axis", int64_t{0});
    const ValueId pads = node("Concat", {ints({0}), node("Sub", {full, length})}, std::move(along));
    return node("Pad", {y, pads, ValueId{}, ints({0})});
  }
  ValueId extent(ValueId x) {
    Attributes first_dim;
    first_dim.set("start", int64_t{0});
    first_dim.set("end", int64_t{1});
    return node("Shape", {x}, std::move(first_dim));
  }

 private:
  Graph& graph_;
  const GraphNode& old_;
};

}  // namespace

Status spell_out_batched_scan(Graph& graph, NodeId id) {
  GraphNode& old = graph.node(id);
  const int64_t slices = old.attributes.get_int("num_scan_inputs", 0);
  const int formals = old.formal_inputs(), states = formals - 1 - static_cast<int>(slices);
  if (old.bodies.size() != 1 || slices < 1 || states < 0)
    return invalid(fmt::format("has {} inputs for lengths, states and {} scan inputs", formals, slices));
  const ValueId lengths = old.inputs[0];

  auto body = std::make_unique<Graph>();
  body->name = old.bodies[0].second->name;
  Body b(*body, old);
  const std::vector<ValueId> before(old.inputs.begin(), old.inputs.end());
  std::vector<ValueId> outer, inner;
  for (int i = 1; i < formals; ++i) {
    if (!old.inputs[i].valid()) return invalid(fmt::format("input {} is skipped", i));
    outer.push_back(old.inputs[i]);
    inner.push_back(body->add_input("", graph.value(old.inputs[i]).type, {}));
  }
  ValueId length, full;
  if (lengths.valid()) {
    outer.push_back(lengths);
    const ValueId one = body->add_input("", ValueType::tensor(DType::kInt64), {});
    length = b.node("Reshape", {one, b.ints({1})});
    full = b.extent(inner[static_cast<size_t>(states)]);
    for (size_t i = static_cast<size_t>(states); i < inner.size(); ++i) inner[i] = b.first(inner[i], length);
  }
  const OpId scan{"", "Scan", schema_versions("", "Scan").back().since_version};
  std::vector<ValueId> made;
  for (size_t i = 0; i < old.bodies[0].second->outputs().size(); ++i) made.push_back(body->add_value(""));
  Attributes attributes;
  attributes.set("num_scan_inputs", slices);
  if (const auto* ways = old.attributes.get_ints("scan_input_directions"))
    attributes.set("scan_input_directions", *ways);
  const NodeId sequence = body->add_node(scan, old.name + "/sequence", inner, made, std::move(attributes));
  for (size_t i = static_cast<size_t>(formals); i < before.size(); ++i)
    body->add_capture(sequence, body->add_input("", graph.value(before[i]).type, {}));
  body->node(sequence).bodies = std::move(old.bodies);
  body->node(sequence).origin = old.origin;
  derive_output_types(*body, sequence);
  for (size_t i = 0; i < made.size(); ++i)
    body->add_output(lengths.valid() && static_cast<int>(i) >= states ? b.filled(made[i], length, full) : made[i]);

  // The node itself becomes the one over the batch: lengths come last, or go.
  old.attributes = Attributes();
  old.attributes.set("num_scan_inputs", static_cast<int64_t>(outer.size()));
  old.op = scan;
  old.bodies.clear();
  old.bodies.emplace_back("body", std::move(body));
  outer.insert(outer.end(), before.begin() + formals, before.end());
  for (size_t i = 0; i < before.size(); ++i)
    graph.set_input(id, static_cast<int>(i), i < outer.size() ? outer[i] : ValueId{});
  if (!lengths.valid()) old.inputs.pop_back();
  derive_output_types(graph, id);
  return absl::OkStatus();
}

}  // namespace forethought
