#include "session/compiled_program.h"

#include "absl/strings/str_cat.h"

namespace forethought {

void describe_step(const ProgramStep& step, const KernelFacts& facts, std::span<const ProgramValue> values,
                   ValueNo scratch, bool share, PlanStep* planned) {
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
    if (in(a.in) >= 0 && out(a.out) >= 0) {
      // The kernel tells how far the first elements are apart, the planner wants to know that of the lowest.
      const int64_t apart = values[in(a.in)].first + a.byte_offset - values[out(a.out)].first;
      planned->aliases.push_back({out(a.out), in(a.in), apart});
    }
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
  p.region_bytes.push_back(plan.region);
  for (const SlabFigures& f : plan.devices) p.region_bytes.push_back(f.region);
  for (size_t s = 0; s < steps.size(); ++s) {
    PlanStep& step = p.steps.emplace_back();
    describe_step(steps[s], *(*facts)[s], values, scratch[s], shared, &step);
    step.lane = steps[s].lane;
    step.waits = steps[s].extras->waits;
    step.signals = steps[s].extras->signals;
  }
  return p;
}

}  // namespace forethought
