// Graph validation: the rules that every edit must keep.
#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "graph/graph.h"

namespace forethought {
namespace {

std::string place(const Graph& g, NodeId id) {
  return absl::StrCat("node ", id.index, " '", g.node(id).name, "' (", to_string(g.node(id).op), ")");
}

// `readers` counts, by value, the input slots that read it.
Status check_edges(const Graph& g, NodeId id, std::vector<size_t>* readers) {
  const GraphNode& n = g.node(id);
  for (size_t i = 0; i < n.inputs.size(); ++i) {
    const ValueId v = n.inputs[i];
    if (!v.valid()) continue;
    if (v.index >= g.value_capacity() || g.value(v).removed)
      return internal(absl::StrCat(place(g, id), " reads a value that was removed (input ", i, ")"));
    const GraphValue& value = g.value(v);
    ++(*readers)[v.index];
    if (!value.producer.valid() && !value.is_input && !value.constant)
      return invalid(absl::StrCat(place(g, id), " reads '", value.name, "', which nothing produces"));
  }
  for (size_t i = 0; i < n.outputs.size(); ++i) {
    const ValueId v = n.outputs[i];
    if (!v.valid()) continue;
    if (v.index >= g.value_capacity() || g.value(v).removed || g.value(v).producer != id ||
        g.value(v).producer_slot != static_cast<int>(i))
      return internal(absl::StrCat(place(g, id), " and its output ", i, " disagree on the producer"));
    if (g.value(v).is_input || g.value(v).constant)
      return invalid(absl::StrCat(place(g, id), " writes '", g.value(v).name, "', an input or constant"));
  }
  return absl::OkStatus();
}

// The uses that the value lists are `readers` different input slots, each of which reads it.
Status check_uses(const Graph& g, ValueId id, size_t readers) {
  const GraphValue& v = g.value(id);
  for (const Use& u : v.uses) {
    if (u.node.index >= g.node_capacity() || g.node(u.node).removed ||
        u.slot >= static_cast<int>(g.node(u.node).inputs.size()) || g.node(u.node).inputs[u.slot] != id)
      return internal(absl::StrCat("value '", v.name, "' lists a use that is none"));
  }
  auto uses = v.uses;
  std::sort(uses.begin(), uses.end(),
            [](const Use& a, const Use& b) { return a.node != b.node ? a.node < b.node : a.slot < b.slot; });
  if (uses.size() != readers || std::adjacent_find(uses.begin(), uses.end()) != uses.end())
    return internal(absl::StrCat("value '", v.name, "' and its readers disagree on its uses"));
  return absl::OkStatus();
}

}  // namespace

Status validate(const Graph& g) {
  size_t live = 0;
  std::vector<size_t> readers(g.value_capacity(), 0);
  for (uint32_t i = 0; i < g.node_capacity(); ++i) {
    const NodeId id{i};
    const GraphNode& n = g.node(id);
    if (n.removed) continue;
    ++live;
    RETURN_IF_ERROR(check_edges(g, id, &readers));
    if (n.captures > static_cast<int>(n.inputs.size()))
      return internal(absl::StrCat(place(g, id), " has more captures than inputs"));
    for (const auto& [attribute, body] : n.bodies) {
      if (static_cast<int>(body->inputs().size()) < n.captures)
        return internal(
            absl::StrCat(place(g, id), " › body ", attribute, " has fewer inputs than the node has captures"));
      RETURN_IF_ERROR(with_context(validate(*body), absl::StrCat(place(g, id), " › body ", attribute)));
    }
  }
  std::set<std::string_view> names;
  for (uint32_t i = 0; i < g.value_capacity(); ++i) {
    const GraphValue& v = g.value(ValueId{i});
    if (v.removed) continue;
    if (!names.insert(v.name).second) return invalid(absl::StrCat("two values are named '", v.name, "'"));
    if (g.find_value(v.name) != ValueId{i}) return internal(absl::StrCat("the name '", v.name, "' leads elsewhere"));
    RETURN_IF_ERROR(check_uses(g, ValueId{i}, readers[i]));
  }
  for (ValueId v : g.outputs()) {
    if (!v.valid() || g.value(v).removed) return internal("a graph output was removed");
    const GraphValue& value = g.value(v);
    if (!value.producer.valid() && !value.is_input && !value.constant)
      return invalid(absl::StrCat("graph output '", value.name, "' is produced by nothing"));
  }
  if (g.order().size() != live) {
    std::vector<bool> done(g.node_capacity(), false);
    for (NodeId id : g.order()) done[id.index] = true;
    for (uint32_t i = 0; i < g.node_capacity(); ++i)
      if (!g.node(NodeId{i}).removed && !done[i])
        return invalid(absl::StrCat("the graph has a cycle through or before ", place(g, NodeId{i})));
  }
  return absl::OkStatus();
}

}  // namespace forethought
