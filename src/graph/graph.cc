#include "graph/graph.h"

#include <algorithm>
#include <queue>

#include "absl/strings/str_cat.h"

namespace forethought {

std::string to_string(const OpId& op) { return op.domain.empty() ? op.type : absl::StrCat(op.domain, ".", op.type); }

const Graph* GraphNode::body(std::string_view attribute) const {
  for (const auto& [name, graph] : bodies)
    if (name == attribute) return graph.get();
  return nullptr;
}

std::unique_ptr<Graph> Graph::clone() const {
  auto g = std::make_unique<Graph>();
  g->values_ = values_;
  g->inputs_ = inputs_;
  g->outputs_ = outputs_;
  g->names_ = names_;
  g->suffix_ = suffix_;
  g->info = info;
  g->name = name;
  g->nodes_.reserve(nodes_.size());
  for (const GraphNode& n : nodes_) {
    GraphNode c;
    c.op = n.op;
    c.name = n.name;
    c.inputs = n.inputs;
    c.outputs = n.outputs;
    c.captures = n.captures;
    c.attributes = n.attributes;
    c.origin = n.origin;
    c.impl = n.impl;
    c.provider = n.provider;
    c.removed = n.removed;
    for (const auto& [attribute, body] : n.bodies) c.bodies.emplace_back(attribute, body->clone());
    g->nodes_.push_back(std::move(c));
  }
  return g;
}

size_t Graph::node_count() const {
  return std::count_if(nodes_.begin(), nodes_.end(), [](const GraphNode& n) { return !n.removed; });
}

size_t Graph::node_count_deep() const {
  size_t n = 0;
  for (const GraphNode& node : nodes_) {
    if (node.removed) continue;
    ++n;
    for (const auto& [attribute, body] : node.bodies) n += body->node_count_deep();
  }
  return n;
}

std::vector<NodeId> Graph::order() const {
  std::vector<uint32_t> waiting(nodes_.size(), 0);
  std::priority_queue<uint32_t, std::vector<uint32_t>, std::greater<>> ready;
  size_t live = 0;
  for (uint32_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i].removed) continue;
    ++live;
    for (ValueId v : nodes_[i].inputs)
      if (producer(v).valid()) ++waiting[i];
    if (waiting[i] == 0) ready.push(i);
  }
  std::vector<NodeId> order;
  order.reserve(live);
  while (!ready.empty()) {
    const uint32_t i = ready.top();
    ready.pop();
    order.push_back(NodeId{i});
    for (ValueId v : nodes_[i].outputs) {
      if (!v.valid()) continue;
      for (const Use& u : value(v).uses)
        if (--waiting[u.node.index] == 0) ready.push(u.node.index);
    }
  }
  return order;  // shorter than the live nodes if there is a cycle; validate() reports it
}

ValueId Graph::find_value(std::string_view wanted) const {
  const auto it = names_.find(wanted);
  return it == names_.end() ? ValueId{} : it->second;
}

std::string Graph::unique_name(std::string_view wanted) {
  std::string base(wanted.empty() ? "value" : wanted);
  if (!wanted.empty() && !names_.contains(base)) return base;
  auto it = suffix_.try_emplace(base, 0).first;
  for (;;) {
    std::string candidate = absl::StrCat(base, "_", ++it->second);
    if (!names_.contains(candidate)) return candidate;
  }
}

ValueId Graph::add_value(std::string_view wanted, ValueType type, SymShape shape) {
  const ValueId id{static_cast<uint32_t>(values_.size())};
  GraphValue v;
  v.name = unique_name(wanted);
  v.type = std::move(type);
  v.shape = std::move(shape);
  names_.emplace(v.name, id);
  values_.push_back(std::move(v));
  return id;
}

ValueId Graph::add_input(std::string_view wanted, ValueType type, SymShape shape) {
  const ValueId id = add_value(wanted, std::move(type), std::move(shape));
  value(id).is_input = true;
  inputs_.push_back(id);
  return id;
}

ValueId Graph::add_constant(std::string_view wanted, Tensor contents) {
  const ValueId id = add_value(wanted, ValueType::tensor(contents.dtype), SymShape::of(contents.dims));
  value(id).constant = std::move(contents);
  return id;
}

void Graph::add_output(ValueId id) {
  value(id).is_output = true;
  outputs_.push_back(id);
}

NodeId Graph::add_node(OpId op, std::string_view node_name, std::vector<ValueId> inputs, std::vector<ValueId> outputs,
                       Attributes attributes) {
  const NodeId id{static_cast<uint32_t>(nodes_.size())};
  GraphNode n;
  n.op = std::move(op);
  n.name = std::string(node_name);
  n.attributes = std::move(attributes);
  nodes_.push_back(std::move(n));
  for (size_t i = 0; i < inputs.size(); ++i) set_input(id, static_cast<int>(i), inputs[i]);
  for (size_t i = 0; i < outputs.size(); ++i) set_output(id, static_cast<int>(i), outputs[i]);
  return id;
}

void Graph::drop_use(ValueId v, NodeId n, int slot) {
  auto& uses = value(v).uses;
  const auto it = std::find(uses.begin(), uses.end(), Use{n, slot});
  if (it != uses.end()) uses.erase(it);
}

void Graph::set_input(NodeId id, int slot, ValueId v) {
  GraphNode& n = node(id);
  if (slot >= static_cast<int>(n.inputs.size())) n.inputs.resize(slot + 1);
  if (n.inputs[slot].valid()) drop_use(n.inputs[slot], id, slot);
  n.inputs[slot] = v;
  if (v.valid()) value(v).uses.push_back({id, slot});
}

void Graph::add_capture(NodeId id, ValueId outer) {
  set_input(id, static_cast<int>(node(id).inputs.size()), outer);
  ++node(id).captures;
}

void Graph::set_output(NodeId id, int slot, ValueId v) {
  GraphNode& n = node(id);
  if (slot >= static_cast<int>(n.outputs.size())) n.outputs.resize(slot + 1);
  if (n.outputs[slot].valid()) value(n.outputs[slot]).producer = NodeId{};
  n.outputs[slot] = v;
  if (v.valid()) {
    value(v).producer = id;
    value(v).producer_slot = slot;
  }
}

void Graph::replace_uses(ValueId from, ValueId to) {
  if (from == to) return;
  const auto uses = value(from).uses;
  for (const Use& u : uses) set_input(u.node, u.slot, to);
  if (!value(from).is_output) return;
  const GraphValue& t = value(to);
  const bool keeps_name = t.is_input || t.is_output || t.constant.has_value();
  ValueId result = to;
  if (keeps_name) {
    // Detach the old producer first: the Identity becomes the producer of the output's own value.
    if (const NodeId p = value(from).producer; p.valid()) node(p).outputs[value(from).producer_slot] = ValueId{};
    value(from).producer = NodeId{};
    value(from).layout = value(to).layout;
    add_node({"", "Identity", 25}, value(from).name, {to}, {from});
    return;
  }
  const std::string output_name = value(from).name;
  const std::string old_name = value(to).name;
  names_.erase(output_name);
  names_.erase(old_name);
  value(from).name = old_name;
  value(result).name = output_name;
  names_[output_name] = result;
  names_[old_name] = from;
  value(from).is_output = false;
  value(result).is_output = true;
  std::replace(outputs_.begin(), outputs_.end(), from, result);
}

void Graph::remove_node(NodeId id) {
  GraphNode& n = node(id);
  for (size_t i = 0; i < n.inputs.size(); ++i)
    if (n.inputs[i].valid()) drop_use(n.inputs[i], id, static_cast<int>(i));
  for (ValueId v : n.outputs) {
    if (!v.valid()) continue;
    value(v).producer = NodeId{};
    if (value(v).uses.empty() && !value(v).is_output) remove_value(v);
  }
  n.inputs.clear();
  n.outputs.clear();
  n.bodies.clear();
  n.impl.reset();
  n.removed = true;
}

void Graph::remove_value(ValueId id) {
  GraphValue& v = value(id);
  if (v.removed) return;
  names_.erase(v.name);
  v.constant.reset();
  v.known.reset();
  v.removed = true;
}

void Graph::make_constant(ValueId id, Tensor contents) {
  GraphValue& v = value(id);
  if (v.producer.valid()) node(v.producer).outputs[v.producer_slot] = ValueId{};
  v.producer = NodeId{};
  v.type = ValueType::tensor(contents.dtype);
  v.shape = SymShape::of(contents.dims);
  v.layout = contents.layout;
  v.constant = std::move(contents);
}

size_t Graph::remove_dead() {
  std::vector<NodeId> work;
  auto dead = [&](const GraphNode& n) {
    return !n.removed && std::all_of(n.outputs.begin(), n.outputs.end(), [&](ValueId v) {
      return !v.valid() || (value(v).uses.empty() && !value(v).is_output);
    });
  };
  for (uint32_t i = 0; i < nodes_.size(); ++i)
    if (dead(nodes_[i])) work.push_back(NodeId{i});
  size_t removed = 0;
  while (!work.empty()) {
    const NodeId id = work.back();
    work.pop_back();
    if (node(id).removed) continue;
    const auto inputs = node(id).inputs;
    remove_node(id);
    ++removed;
    for (ValueId v : inputs)
      if (const NodeId p = producer(v); p.valid() && dead(node(p))) work.push_back(p);
  }
  for (uint32_t i = 0; i < values_.size(); ++i) {
    const GraphValue& v = values_[i];
    if (!v.removed && v.constant && v.uses.empty() && !v.is_output && !v.is_input) remove_value(ValueId{i});
  }
  return removed;
}

void Graph::rename(ValueId id, std::string_view wanted) {
  names_.erase(value(id).name);
  value(id).name = unique_name(wanted);
  names_.emplace(value(id).name, id);
}

}  // namespace forethought
