#include "partition/fuse.h"

#include <algorithm>
#include <set>

namespace forethought {

bool is_convex(const Graph& graph, std::span<const NodeId> nodes) {
  const std::set<NodeId> inside(nodes.begin(), nodes.end());
  // Outside nodes that a node of the set leads to; none of them may lead back in.
  std::vector<NodeId> work;
  std::set<NodeId> seen;
  auto follow = [&](NodeId id) {
    for (ValueId v : graph.node(id).outputs) {
      if (!v.valid()) continue;
      for (const Use& u : graph.value(v).uses)
        if (!inside.contains(u.node) && seen.insert(u.node).second) work.push_back(u.node);
    }
  };
  for (NodeId id : nodes) follow(id);
  while (!work.empty()) {
    const NodeId id = work.back();
    work.pop_back();
    for (ValueId v : graph.node(id).outputs) {
      if (!v.valid()) continue;
      for (const Use& u : graph.value(v).uses)
        if (inside.contains(u.node)) return false;
    }
    follow(id);
  }
  return true;
}

Extracted extract(const Graph& graph, std::span<const NodeId> nodes) {
  Extracted cut;
  cut.graph = std::make_unique<Graph>();
  Graph& sub = *cut.graph;
  sub.info = graph.info;
  const std::set<NodeId> inside(nodes.begin(), nodes.end());
  std::map<ValueId, ValueId> mapped;
  auto take = [&](ValueId v) {
    if (!v.valid()) return ValueId{};
    if (const auto it = mapped.find(v); it != mapped.end()) return it->second;
    const GraphValue& outer = graph.value(v);
    ValueId inner;
    if (outer.constant) {
      inner = sub.add_constant(outer.name, *outer.constant);
    } else if (inside.contains(outer.producer)) {
      inner = sub.add_value(outer.name, outer.type, outer.shape);
    } else {
      inner = sub.add_input(outer.name, outer.type, outer.shape);
      cut.inputs.push_back(v);
    }
    sub.value(inner).known = outer.known;
    mapped.emplace(v, inner);
    return inner;
  };
  for (NodeId id : graph.order()) {
    if (!inside.contains(id)) continue;
    const GraphNode& n = graph.node(id);
    std::vector<ValueId> in, out;
    for (ValueId v : n.inputs) in.push_back(take(v));
    for (ValueId v : n.outputs) out.push_back(take(v));
    GraphNode& copy = sub.node(sub.add_node(n.op, n.name, in, out, n.attributes));
    copy.captures = n.captures;
    copy.impl = n.impl;
    copy.origin = n.origin;
    for (const auto& [attribute, body] : n.bodies) copy.bodies.emplace_back(attribute, body->clone());
    for (ValueId v : n.outputs) {
      if (!v.valid()) continue;
      const GraphValue& value = graph.value(v);
      const bool leaves = value.is_output || std::any_of(value.uses.begin(), value.uses.end(),
                                                         [&](const Use& u) { return !inside.contains(u.node); });
      if (!leaves) continue;
      sub.add_output(mapped.at(v));
      cut.outputs.push_back(v);
    }
  }
  return cut;
}

NodeId replace_by_one(Graph& graph, std::span<const NodeId> nodes, const Extracted& cut, OpId op,
                      std::string_view name) {
  std::vector<std::string> origin;
  for (NodeId id : nodes) {
    GraphNode& n = graph.node(id);
    if (n.origin.empty()) origin.push_back(n.name);
    origin.insert(origin.end(), n.origin.begin(), n.origin.end());
    for (ValueId& v : n.outputs) {  // what leaves the set keeps its value and gets the new node as producer
      if (std::find(cut.outputs.begin(), cut.outputs.end(), v) == cut.outputs.end()) continue;
      graph.value(v).producer = NodeId{};
      v = ValueId{};
    }
  }
  // Consumers before producers, so that inner values have no uses left when their producer goes.
  std::vector<NodeId> order;
  const std::set<NodeId> inside(nodes.begin(), nodes.end());
  for (uint32_t i = 0; i < graph.node_capacity(); ++i)
    if (inside.contains(NodeId{i})) order.push_back(NodeId{i});
  std::vector<ValueId> inner;
  for (NodeId id : order)
    for (ValueId v : graph.node(id).outputs)
      if (v.valid()) inner.push_back(v);
  for (NodeId id : order) graph.remove_node(id);
  for (ValueId v : inner)
    if (!graph.value(v).removed) graph.remove_value(v);
  const NodeId fused = graph.add_node(std::move(op), name, cut.inputs, cut.outputs);
  graph.node(fused).origin = std::move(origin);
  return fused;
}

}  // namespace forethought
