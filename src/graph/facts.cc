#include "graph/facts.h"

#include <algorithm>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "base/hash.h"
#include "graph/operator.h"
#include "graph/text.h"

namespace forethought {
namespace {

constexpr int kMaxDepth = 64;

Status infer_facts_at(const Graph& graph, FactTable& table, int depth);

// Lets a control-flow rule infer its bodies; each call leaves its facts in the body's table.
class Bodies final : public BodyInference {
 public:
  Bodies(const GraphNode& node, uint32_t id, FactTable& parent, int depth)
      : node_(node), id_(id), parent_(parent), depth_(depth) {}
  int bodies() const override { return static_cast<int>(node_.bodies.size()); }
  int inputs(int b) const override { return static_cast<int>(node_.bodies[b].second->inputs().size()); }
  int outputs(int b) const override { return static_cast<int>(node_.bodies[b].second->outputs().size()); }

  StatusOr<std::vector<InferOutput>> infer(int b, std::span<const InferInput> in) override {
    const Graph& body = *node_.bodies[b].second;
    if (in.size() != body.inputs().size())
      return invalid(
          absl::StrCat("body ", node_.bodies[b].first, " takes ", body.inputs().size(), " inputs, not ", in.size()));
    auto table = std::make_unique<FactTable>(seed_facts(body));
    for (size_t i = 0; i < in.size(); ++i) {
      ValueFact& f = (*table)[body.inputs()[i]];
      const bool typed = in[i].type && !in[i].type->is_unknown();
      if (typed) f.type = *in[i].type;
      f.shape = in[i].shape ? *in[i].shape : SymShape::unknown();
      f.value = in[i].value ? std::make_shared<const SymValue>(*in[i].value) : nullptr;
      if (in[i].contents) {
        if (auto v = decode_value(*in[i].contents)) f.value = std::make_shared<const SymValue>(std::move(*v));
      }
    }
    RETURN_IF_ERROR(
        with_context(infer_facts_at(body, *table, depth_ + 1), absl::StrCat("body ", node_.bodies[b].first)));
    std::vector<InferOutput> out;
    for (ValueId v : body.outputs()) {
      const ValueFact& f = (*table)[v];
      out.push_back({true, f.type, f.shape, f.value != nullptr, f.value ? *f.value : SymValue()});
    }
    parent_.bodies[{id_, b}] = std::move(table);
    return out;
  }

 private:
  const GraphNode& node_;
  uint32_t id_;
  FactTable& parent_;
  int depth_;
};

// A body is a graph of its own, so its address tells its values from those of other graphs that are called the same.
class NamesOfOutputs final : public DataNames {
 public:
  NamesOfOutputs(const Graph& graph, const GraphNode& node) : graph_(graph), node_(node) {}
  std::string name(int out) const override {
    std::string name = graph_.value(node_.outputs[out]).name;
    std::ranges::replace(name, '`', '\'');  // which dims as text quote with
    return name;
  }
  uint64_t id(int out) const override {
    const uint64_t key[] = {reinterpret_cast<uintptr_t>(&graph_), node_.outputs[out].index};
    return hash_bytes(key, sizeof(key));
  }

 private:
  const Graph& graph_;
  const GraphNode& node_;
};

// Whether all that is known of it is known by number, and nothing is open.
bool is_number(const InferInput& in) {
  const auto number = [](const Dim& d) { return d.is_known(); };
  if (!in.present || in.contents) return true;
  return in.type && in.type->is_tensor() && in.shape && in.shape->is_known() &&
         (!in.value || std::ranges::all_of(in.value->ints, number));
}

// Runs the rule of one node. `bodies_of` takes the tables of its bodies, and the node if it is the first whose answers
// are no formulas. `bounded`: dims that data decide have names.
Status infer_outputs_at(const Graph& graph, NodeId id, std::span<const InferInput> in, std::span<InferOutput> out,
                        FactTable& bodies_of, int depth, bool bounded) {
  const GraphNode& n = graph.node(id);
  if (!n.impl) return internal("the operator was not bound");
  for (size_t i = 0; i < n.outputs.size(); ++i) out[i].wanted = n.outputs[i].valid();
  Bodies bodies(n, id.index, bodies_of, depth);
  const NamesOfOutputs names(graph, n);
  InferCtx ctx(in, out, n.bodies.empty() ? nullptr : &bodies, bounded ? &names : nullptr, bodies_of.wants_formulas);
  RETURN_IF_ERROR(n.impl->infer(ctx));
  if (!ctx.is_by_formula() && !bodies_of.not_by_formula.valid() && !std::ranges::all_of(in, is_number))
    bodies_of.not_by_formula = id;
  for (size_t i = 0; i < out.size(); ++i)
    for (const Dim& d : out[i].shape.dims)
      if (d.is_known() && d.value() < 0)
        return invalid(absl::StrCat("output ", i, " would have the shape ", to_string(out[i].shape),
                                    ", with a negative dimension"));
  return absl::OkStatus();
}

Status infer_one(const Graph& graph, NodeId id, FactTable& table, int depth) {
  const GraphNode& n = graph.node(id);
  absl::InlinedVector<InferInput, 8> in(n.inputs.size());
  for (size_t i = 0; i < n.inputs.size(); ++i) {
    if (!n.inputs[i].valid()) continue;
    const ValueFact& f = table[n.inputs[i]];
    in[i] = {true, &f.type, &f.shape, f.constant, f.value.get()};
  }
  absl::InlinedVector<InferOutput, 2> out(n.outputs.size());
  RETURN_IF_ERROR(infer_outputs_at(graph, id, {in.data(), in.size()}, {out.data(), out.size()}, table, depth, true));
  for (size_t i = 0; i < n.outputs.size(); ++i) {
    if (!n.outputs[i].valid()) continue;
    ValueFact& f = table[n.outputs[i]];
    f.type = std::move(out[i].type);
    f.shape = std::move(out[i].shape);
    f.value = out[i].has_value ? std::make_shared<const SymValue>(std::move(out[i].value)) : nullptr;
  }
  return absl::OkStatus();
}

Status infer_facts_at(const Graph& graph, FactTable& table, int depth) {
  if (depth > kMaxDepth) return invalid(absl::StrCat("bodies are nested deeper than ", kMaxDepth));
  table.not_by_formula = NodeId();
  table.filled_by = nullptr;
  for (NodeId id : table.order) {
    if (Status s = infer_one(graph, id, table, depth); !s.ok())
      return with_context(std::move(s), absl::StrCat("node ", described(graph.node(id))));
  }
  return absl::OkStatus();
}

void seed_value(const GraphValue& v, ValueFact& f) {
  if (v.constant) {
    f.type = ValueType::tensor(v.constant->dtype);
    f.shape = SymShape::of(v.constant->dims);
    f.constant = &*v.constant;
  } else if (v.is_input) {
    f.type = v.type;
    f.shape = v.shape;
  }
}

void write_back(Graph& graph, FactTable& table) {
  for (uint32_t i = 0; i < graph.value_capacity(); ++i) {
    GraphValue& v = graph.value(ValueId{i});
    if (v.removed || v.constant) continue;
    ValueFact& f = table.values[i];
    v.type = f.type;
    v.shape = f.shape;
    v.known.reset();
    if (f.value) v.known = *f.value;
  }
  for (auto& [key, body] : table.bodies) write_back(*graph.node(NodeId{key.first}).bodies[key.second].second, *body);
}

}  // namespace

FactTable seed_facts(const Graph& graph) {
  FactTable t;
  t.values.resize(graph.value_capacity());
  for (uint32_t i = 0; i < graph.value_capacity(); ++i) seed_value(graph.value(ValueId{i}), t.values[i]);
  t.order = graph.order();
  return t;
}

void seed_again(const Graph& graph, FactTable& table) {
  table.bodies.clear();
  for (ValueId id : graph.inputs()) {
    table[id].value = nullptr;
    seed_value(graph.value(id), table[id]);
  }
}

Status infer_facts(const Graph& graph, FactTable& table) { return infer_facts_at(graph, table, 0); }

StatusOr<std::vector<InferOutput>> infer_outputs(const Graph& graph, NodeId id, std::span<const InferInput> inputs,
                                                 bool bounded) {
  FactTable bodies;
  std::vector<InferOutput> out(graph.node(id).outputs.size());
  RETURN_IF_ERROR(infer_outputs_at(graph, id, inputs, out, bodies, 0, bounded));
  return out;
}

Status infer_shapes(Graph& graph) {
  FactTable table = seed_facts(graph);
  RETURN_IF_ERROR(infer_facts(graph, table));
  write_back(graph, table);
  return absl::OkStatus();
}

}  // namespace forethought
