#include "passes/engine/edit.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "graph/facts.h"
#include "graph/text.h"

namespace forethought::passes {
namespace {

bool is_read(const GraphValue& v) { return v.is_output || !v.uses.empty(); }

StatusOr<std::vector<InferOutput>> infer(const Graph& graph, NodeId id) {
  const GraphNode& n = graph.node(id);
  std::vector<InferInput> in(n.inputs.size());
  for (size_t i = 0; i < in.size(); ++i) {
    if (!n.inputs[i].valid()) continue;
    const GraphValue& v = graph.value(n.inputs[i]);
    in[i] = {true, &v.type, &v.shape, v.constant ? &*v.constant : nullptr, v.known ? &*v.known : nullptr};
  }
  auto out = infer_outputs(graph, id, in, true);
  if (!out.ok()) return with_context(out.status(), absl::StrCat("node ", described(n)));
  return out;
}

bool all_known(const GraphValue& v) {
  if (v.constant) return true;
  return v.known && !v.known->is_float &&
         std::all_of(v.known->ints.begin(), v.known->ints.end(), [](const Dim& d) { return d.is_known(); });
}

int known_elements(const std::optional<SymValue>& v) {
  if (!v) return -1;
  if (v->is_float) return static_cast<int>(v->floats.size());
  return static_cast<int>(std::count_if(v->ints.begin(), v->ints.end(), [](const Dim& d) { return !d.is_unknown(); }));
}

// The dims of which either shape knows more; numbers before symbols. Keeps `was` where the ranks differ.
bool sharpen(SymShape& was, const SymShape& now) {
  if (!now.has_rank) return false;
  if (!was.has_rank) {
    was = now;
    return true;
  }
  if (was.rank() != now.rank()) return false;
  bool more = false;
  for (int d = 0; d < was.rank(); ++d) {
    Dim& old = was.dims[d];
    if ((old.is_unknown() && !now.dims[d].is_unknown()) || (old.is_symbolic() && now.dims[d].is_known())) {
      old = now.dims[d];
      more = true;
    }
  }
  return more;
}

bool sharpen(GraphValue& v, const ValueType& type, const SymShape& shape, bool has_value, const SymValue& value) {
  bool more = false;
  if (v.type.is_unknown() && !type.is_unknown()) v.type = type, more = true;
  more |= sharpen(v.shape, shape);
  if (has_value && (!v.known || known_elements(value) > known_elements(v.known))) v.known = value, more = true;
  return more;
}

// Ok, or how `now` contradicts or says less than `was`.
Status same_shape(const SymShape& was, const SymShape& now, const std::string& name) {
  if (!was.has_rank) return absl::OkStatus();
  bool ok = now.has_rank && was.rank() == now.rank();
  for (int d = 0; ok && d < was.rank(); ++d) {
    const Dim &a = was.dims[d], &b = now.dims[d];
    // A number where there was a symbol is what the new form happens to know; the reverse would lose it. Dims that data
    // decide are called after the value that they were first seen of.
    ok = a.is_unknown() || a.same(b) || (a.is_symbolic() && b.is_known()) || a.depends_on_data();
  }
  if (ok) return absl::OkStatus();
  return unsupported(absl::StrCat("'", name, "' would be ", to_string(now), ", not ", to_string(was)));
}

}  // namespace

Status Edit::prepare() {
  RETURN_IF_ERROR(check_taken());
  constants_.assign(rewrite_.constants().size(), ValueId{});
  Status s = make_nodes();
  if (s.ok()) s = check_results();
  if (!s.ok()) take_back();
  return s;
}

Status Edit::check_taken() const {
  const auto inside = [&](NodeId n) {
    return n == root_ || std::find(rewrite_.taken().begin(), rewrite_.taken().end(), n) != rewrite_.taken().end();
  };
  for (NodeId id : rewrite_.taken()) {
    if (id == root_) continue;
    if (graph_.node(id).provider != graph_.node(root_).provider)
      return unsupported(absl::StrCat("node ", graph_.node(id).name, " runs on ", graph_.node(id).provider));
    for (ValueId v : graph_.node(id).outputs) {
      if (!v.valid()) continue;
      const GraphValue& value = graph_.value(v);
      if (value.is_output) return unsupported(absl::StrCat("'", value.name, "' is a graph output"));
      for (const Use& u : value.uses) {
        if (inside(u.node)) continue;
        const GraphNode& reader = graph_.node(u.node);
        const bool captured = u.slot >= reader.formal_inputs();
        return unsupported(absl::StrCat("'", value.name, captured ? "' is captured by " : "' also feeds ",
                                        to_string(reader.op), " ", reader.name));
      }
    }
  }
  if (rewrite_.is_partial()) return absl::OkStatus();
  const GraphNode& root = graph_.node(root_);
  for (size_t i = 0; i < root.outputs.size(); ++i) {
    if (!root.outputs[i].valid() || !is_read(graph_.value(root.outputs[i]))) continue;
    const bool given = std::any_of(rewrite_.results().begin(), rewrite_.results().end(),
                                   [&](const auto& r) { return r.first == static_cast<int>(i); });
    if (!given) return unsupported(absl::StrCat("output ", i, " is read too"));
  }
  return absl::OkStatus();
}

StatusOr<ValueId> Edit::resolve(const Ref& ref) {
  switch (ref.kind) {
    case Ref::Kind::none:
      return ValueId{};
    case Ref::Kind::existing:
      return ValueId{ref.index};
    case Ref::Kind::made:
      return outputs_[ref.index][ref.slot];
    case Ref::Kind::constant:
      break;
  }
  ValueId& v = constants_[ref.index];
  if (!v.valid()) {
    const Rewrite::NewConstant& c = rewrite_.constants()[ref.index];
    const std::string& like = c.like.valid() ? graph_.value(c.like).name : graph_.node(root_).name;
    v = graph_.add_constant(like.empty() ? "constant" : like, c.contents);
  }
  return v;
}

void Edit::inherit(GraphNode& n, const Rewrite::NewNode& wanted) const {
  n.provider = graph_.node(root_).provider;
  n.origin = wanted.origin;
  if (!n.origin.empty()) return;
  std::vector<NodeId> from(rewrite_.taken().rbegin(), rewrite_.taken().rend());  // patterns name them from the root up
  if (std::find(from.begin(), from.end(), root_) == from.end()) from.push_back(root_);
  const auto add = [&](const std::string& name) {
    if (!name.empty() && std::find(n.origin.begin(), n.origin.end(), name) == n.origin.end()) n.origin.push_back(name);
  };
  for (NodeId id : from) {
    const GraphNode& old = graph_.node(id);
    if (old.origin.empty()) add(old.name);
    for (const std::string& name : old.origin) add(name);
  }
}

Status Edit::make_nodes() {
  for (Rewrite::NewNode& wanted : rewrite_.nodes()) {
    std::vector<ValueId> in, out;
    for (const Ref& ref : wanted.inputs) {
      ASSIGN_OR_RETURN(const ValueId v, resolve(ref));
      in.push_back(v);
    }
    for (size_t i = 0; i < static_cast<size_t>(wanted.outputs); ++i) {
      const bool skipped = i < wanted.skipped.size() && wanted.skipped[i];
      out.push_back(skipped ? ValueId{}
                            : graph_.add_value(i < wanted.output_names.size() ? wanted.output_names[i] : ""));
    }
    const std::string name = wanted.name.empty() ? graph_.node(root_).name : wanted.name;
    const NodeId id = graph_.add_node(wanted.op, name, in, out, wanted.attributes);
    nodes_.push_back(id);
    outputs_.push_back(out);
    GraphNode& n = graph_.node(id);
    n.captures = wanted.captures;
    n.bodies = std::move(wanted.bodies);
    inherit(n, wanted);
    ASSIGN_OR_RETURN(n.impl, library_.bind(n));
    RETURN_IF_ERROR(library_.supports(graph_, n));
    ASSIGN_OR_RETURN(std::vector<InferOutput> facts, infer(graph_, id));
    for (size_t i = 0; i < out.size(); ++i) {
      if (!out[i].valid()) continue;
      GraphValue& v = graph_.value(out[i]);
      v.type = std::move(facts[i].type);
      v.shape = std::move(facts[i].shape);
      if (facts[i].has_value) v.known = std::move(facts[i].value);
    }
  }
  return absl::OkStatus();
}

Status Edit::check_results() const {
  for (const auto& [slot, ref] : rewrite_.results()) {
    const ValueId old_id = graph_.node(root_).outputs[slot];
    if (!old_id.valid()) continue;
    const GraphValue& old = graph_.value(old_id);
    ValueType type;
    SymShape shape;
    if (ref.kind == Ref::Kind::constant) {
      type = ValueType::tensor(rewrite_.constants()[ref.index].contents.dtype);
      shape = SymShape::of(rewrite_.constants()[ref.index].contents.dims);
    } else {
      const ValueId v = ref.kind == Ref::Kind::made ? outputs_[ref.index][ref.slot] : ValueId{ref.index};
      const GraphValue& now = graph_.value(v);
      type = now.type;
      shape = now.shape;
      if (ref.kind == Ref::Kind::existing && old.is_output && (now.is_input || now.is_output) &&
          graph_.node(root_).op.is("Identity"))
        return unsupported(absl::StrCat("'", old.name, "' is a graph output and so has a name of its own"));
    }
    if (!old.type.is_unknown() && !(type == old.type))
      return unsupported(absl::StrCat("'", old.name, "' would be ", to_string(type), ", not ", to_string(old.type)));
    if (type.is_tensor() || type.is_unknown()) RETURN_IF_ERROR(same_shape(old.shape, shape, old.name));
  }
  return absl::OkStatus();
}

void Edit::take_back() {
  for (size_t i = nodes_.size(); i-- > 0;) graph_.remove_node(nodes_[i]);
  for (ValueId v : constants_)
    if (v.valid()) graph_.remove_value(v);
  // Outputs of a node that could not be added whole.
  for (const auto& outputs : outputs_)
    for (ValueId v : outputs)
      if (v.valid() && !graph_.value(v).removed) graph_.remove_value(v);
  nodes_.clear();
}

// The new node writes the old value itself: its id, name, readers and role as an output stay.
void Edit::switch_to_made(ValueId old, const Ref& ref) {
  const ValueId fresh = outputs_[ref.index][ref.slot];
  const GraphValue facts = graph_.value(fresh);
  graph_.set_output(nodes_[ref.index], ref.slot, old);
  outputs_[ref.index][ref.slot] = old;
  for (const Use& u : facts.uses) graph_.set_input(u.node, u.slot, old);
  graph_.remove_value(fresh);
  if (sharpen(graph_.value(old), facts.type, facts.shape, facts.known.has_value(), facts.known.value_or(SymValue{})))
    sharper_.push_back(old);
}

void Edit::commit() {
  for (const auto& [slot, ref] : rewrite_.results()) {
    const ValueId old = graph_.node(root_).outputs[slot];
    if (!old.valid()) continue;
    const Ref::Kind kind = ref.kind;
    if (kind == Ref::Kind::constant) {
      if (!all_known(graph_.value(old))) sharper_.push_back(old);
      graph_.make_constant(old, rewrite_.constants()[ref.index].contents);
      changed_.push_back(old);
      continue;
    }
    const ValueId now = kind == Ref::Kind::made ? outputs_[ref.index][ref.slot] : ValueId{ref.index};
    if (kind == Ref::Kind::made && graph_.value(now).producer == nodes_[ref.index] && !graph_.value(now).is_output &&
        std::none_of(changed_.begin(), changed_.end(), [&](ValueId v) { return v == now; })) {
      graph_.set_output(root_, slot, ValueId{});
      switch_to_made(old, ref);
      changed_.push_back(old);
      continue;
    }
    if (graph_.is_constant(now) && graph_.value(old).is_output) {
      const Tensor contents = *graph_.value(now).constant;
      graph_.make_constant(old, contents);
      changed_.push_back(old);
      continue;
    }
    if (sharpen(graph_.value(now), graph_.value(old).type, graph_.value(old).shape, graph_.value(old).known.has_value(),
                graph_.value(old).known.value_or(SymValue{})))
      sharper_.push_back(now);
    const size_t before = graph_.node_capacity();
    graph_.replace_uses(old, now);
    for (uint32_t i = static_cast<uint32_t>(before); i < graph_.node_capacity(); ++i) {
      GraphNode& identity = graph_.node(NodeId{i});  // a graph output that keeps its name
      identity.provider = graph_.node(root_).provider;
      if (auto bound = library_.bind(identity); bound.ok()) identity.impl = *std::move(bound);
      nodes_.push_back(NodeId{i});
    }
    changed_.push_back(now);
    if (!graph_.value(old).removed) changed_.push_back(old);
  }
  remove_unread(root_);
  for (NodeId id : rewrite_.taken())
    if (!graph_.node(id).removed) remove_unread(id);
  for (NodeId id : nodes_)
    for (ValueId v : graph_.node(id).inputs)
      if (v.valid()) changed_.push_back(v);
}

void Edit::remove_unread(NodeId start) {
  std::vector<NodeId> work{start};
  while (!work.empty()) {
    const NodeId id = work.back();
    work.pop_back();
    const GraphNode& n = graph_.node(id);
    if (n.removed || std::any_of(n.outputs.begin(), n.outputs.end(),
                                 [&](ValueId v) { return v.valid() && is_read(graph_.value(v)); }))
      continue;
    const auto inputs = n.inputs;
    graph_.remove_node(id);
    for (ValueId v : inputs) {
      if (!v.valid() || graph_.value(v).removed) continue;
      if (graph_.is_constant(v) && !is_read(graph_.value(v)) && !graph_.value(v).is_input) {
        graph_.remove_value(v);
        continue;
      }
      changed_.push_back(v);
      if (const NodeId p = graph_.producer(v); p.valid()) work.push_back(p);
    }
  }
}

Status Edit::check(NodeId id) const {
  const GraphNode& n = graph_.node(id);
  if (n.removed) return absl::OkStatus();
  for (size_t i = 0; i < n.inputs.size(); ++i) {
    if (!n.inputs[i].valid()) continue;
    const GraphValue& v = graph_.value(n.inputs[i]);
    if (v.removed || (!v.producer.valid() && !v.is_input && !v.constant))
      return internal(absl::StrCat("input ", i, " of ", to_string(n.op), " is '", v.name, "', which nothing makes"));
  }
  for (ValueId v : n.outputs)
    if (v.valid() && (graph_.value(v).removed || graph_.value(v).producer != id))
      return internal(absl::StrCat("an output of ", to_string(n.op), " is not its own"));
  return absl::OkStatus();
}

std::vector<ValueId> infer_again(Graph& graph, NodeId id) {
  std::vector<ValueId> more;
  const auto facts = infer(graph, id);
  if (!facts.ok()) return more;
  for (size_t i = 0; i < facts->size(); ++i) {
    const ValueId v = graph.node(id).outputs[i];
    if (!v.valid()) continue;
    const InferOutput& f = (*facts)[i];
    if (sharpen(graph.value(v), f.type, f.shape, f.has_value, f.value)) more.push_back(v);
  }
  return more;
}

}  // namespace forethought::passes
