#include "session/compiled_program.h"

#include "absl/strings/str_cat.h"

namespace forethought {

void describe_step(const ProgramStep& step, const KernelFacts& facts, ValueNo scratch, bool share, PlanStep* planned) {
  planned->reads.clear();
  planned->writes.clear();
  planned->aliases.clear();
  planned->may_overwrite.clear();
  planned->windows.clear();
  for (const int32_t v : step.inputs)
    if (v >= 0) planned->reads.push_back(v);
  for (const int32_t v : step.outputs)
    if (v >= 0) planned->writes.push_back(v);
  if (scratch != kNoId) planned->writes.push_back(scratch);
  if (!share) return;
  const auto in = [&](int i) { return step.inputs[i]; };
  const auto out = [&](int i) { return step.outputs[i]; };
  for (const Alias& a : facts.aliases)
    if (in(a.in) >= 0 && out(a.out) >= 0) planned->aliases.push_back({out(a.out), in(a.in), a.byte_offset});
  for (const Overwrite& o : facts.overwrites)
    if (in(o.in) >= 0 && out(o.out) >= 0) planned->may_overwrite.push_back({out(o.out), in(o.in)});
  for (const Window& w : facts.windows)
    if (in(w.in) >= 0 && out(w.out) >= 0) planned->windows.push_back({in(w.in), out(w.out), w.byte_offset});
}

PlanProblem CompiledProgram::problem() const {
  PlanProblem p;
  p.values = *plan_values;
  for (size_t v = 0; v < plan.values.size(); ++v) p.values[v].bytes = plan.values[v].bytes;
  p.devices = static_cast<int32_t>(device_slab_bytes.size());
  p.lanes = lanes;
  for (size_t s = 0; s < steps.size(); ++s) {
    PlanStep& step = p.steps.emplace_back();
    describe_step(steps[s], *(*facts)[s], scratch[s], shared, &step);
    step.lane = steps[s].lane;
    step.waits = steps[s].extras->waits;
    step.signals = steps[s].extras->signals;
  }
  return p;
}

std::shared_ptr<const GraphLists> lists_of(const Graph& graph, std::span<const NodeId> order) {
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
    step.name = lists->names.emplace_back(absl::StrCat(n.name, " (", to_string(n.op), ")"));
    step.scratch = lists->names.emplace_back(absl::StrCat("scratch of ", n.name, " (", to_string(n.op), ")"));
    step.node = id;
    step.work = work_of(n.op.type);
    step.has_bodies = !n.bodies.empty();
  }
  return lists;
}

}  // namespace forethought
