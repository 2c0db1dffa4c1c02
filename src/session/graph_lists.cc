#include "session/graph_lists.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "graph/attribute.h"
#include "graph/text.h"
#include "providers/cpu/cpu_provider.h"

namespace forethought {
namespace {

bool same_attributes(const Attributes& a, const Attributes& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& x, const auto& y) { return x.first == y.first && equal(x.second, y.second); });
}

// Whether two nodes give their kernels the same arguments where the types and dims of their operands are equal.
bool same_kind(const PreparedGraph& prepared, NodeId a, NodeId b) {
  const GraphNode &m = prepared.view->node(a), &n = prepared.view->node(b);
  const PreparedNode &p = prepared.nodes[a.index], &q = prepared.nodes[b.index];
  const auto same_place = [&](ValueId v, ValueId w) {
    if (!v.valid() || !w.valid()) return v.valid() == w.valid();
    const PreparedValue &a = prepared.values[v.index], &b = prepared.values[w.index];
    return a.layout == b.layout && a.may_stride == b.may_stride &&
           prepared.dense_because(static_cast<int32_t>(v.index)) ==
               prepared.dense_because(static_cast<int32_t>(w.index));
  };
  if (m.op != n.op || !std::ranges::equal(m.inputs, n.inputs, same_place) ||
      !std::ranges::equal(m.outputs, n.outputs, same_place) || !same_attributes(m.attributes, n.attributes))
    return false;
  for (size_t i = 0; i < m.inputs.size(); ++i) {
    if (p.is_packed(i) != q.is_packed(i) || (p.is_packed(i) && p.packed[i].format != q.packed[i].format)) return false;
    if (!has_bit(p.contents, i) || !m.inputs[i].valid()) continue;
    const Tensor *s = prepared.values[m.inputs[i].index].constant, *t = prepared.values[n.inputs[i].index].constant;
    if (!s != !t || (s && (!s->data || !t->data || !equal(AttributeValue(*s), AttributeValue(*t))))) return false;
  }
  return true;
}

void find_kinds(const PreparedGraph& prepared, GraphLists& lists) {
  constexpr size_t kMostCompared = 16;               // of one operator: nodes may all differ, and there may be many
  std::map<std::string, std::vector<size_t>> first;  // steps that are the first of their kind, by operator
  for (size_t s = 0; s < lists.steps.size(); ++s) {
    GraphLists::Step& step = lists.steps[s];
    const GraphNode& n = prepared.view->node(step.node);
    if (step.has_bodies || n.provider != kCpuProvider) continue;  // what another provider made says not all it does
    std::vector<size_t>& known = first[n.op.type];
    const auto compared = known.size() > kMostCompared ? known.end() - kMostCompared : known.begin();
    const auto like = std::find_if(compared, known.end(),
                                   [&](size_t k) { return same_kind(prepared, lists.steps[k].node, step.node); });
    if (like == known.end()) {
      known.push_back(s);
      continue;
    }
    int32_t& kind = lists.steps[*like].kind;
    if (kind < 0) kind = lists.kinds++;
    step.kind = kind;
  }
}

}  // namespace

std::shared_ptr<const GraphLists> lists_of(const PreparedGraph& prepared) {
  const Graph& graph = *prepared.view;
  const std::vector<NodeId>& order = prepared.order;
  auto lists = std::make_shared<GraphLists>();
  for (uint32_t i = 0; i < graph.value_capacity(); ++i) lists->values.push_back(graph.value(ValueId{i}).name);
  size_t operands = 0;
  for (const NodeId id : order) operands += graph.node(id).inputs.size() + graph.node(id).outputs.size();
  lists->operands.reserve(operands);  // spans point into it
  const auto listed = [&](const auto& ids) {
    const size_t first = lists->operands.size();
    for (const ValueId v : ids) lists->operands.push_back(v.valid() ? static_cast<int32_t>(v.index) : -1);
    return std::span<const int32_t>(lists->operands).subspan(first);
  };
  for (const NodeId id : order) {
    const GraphNode& n = graph.node(id);
    GraphLists::Step& step = lists->steps.emplace_back();
    step.inputs = listed(n.inputs);
    step.outputs = listed(n.outputs);
    step.name = lists->names.emplace_back(described(n));
    step.scratch = lists->names.emplace_back("scratch of " + std::string(step.name));
    step.node = id;
    step.work = work_of(n.op.type);
    step.has_bodies = !n.bodies.empty();
  }
  find_kinds(prepared, *lists);
  return lists;
}

}  // namespace forethought
