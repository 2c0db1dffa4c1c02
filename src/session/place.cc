#include "session/place.h"

#include <vector>

namespace forethought {
namespace {

void place_values(const PreparedGraph& prepared, CompiledProgram& program) {
  const Graph& g = *prepared.view;
  const Plan& plan = program.plan;
  for (uint32_t i = 0; i < g.value_capacity(); ++i) {
    ProgramValue& p = program.values[i];
    if (prepared.values[i].removed) continue;
    const ValuePlace& at = plan.values[i];
    p.offset = at.offset;
    p.index = at.index;
    switch (at.arena) {
      case ArenaKind::slab:
        p.base = Base::slab;
        break;
      case ArenaKind::input:
        p.base = Base::input;
        break;
      case ArenaKind::output:
        p.base = Base::output;
        break;
      case ArenaKind::weights:
        p.base = Base::weight;
        break;
      case ArenaKind::side:
        p.base = Base::side;
        break;
      case ArenaKind::none:
        p.base = p.is_object() ? Base::object : Base::none;
        break;
    }
    p.root = at.root == static_cast<int32_t>(i) ? -1 : at.root;
    if (p.base == Base::side) p.offset = at.offset_in_root;
    if (prepared.values[i].constant) p.base = Base::weight, p.index = prepared.values[i].weight, p.offset = 0;
  }
  for (size_t i = 0; i < g.inputs().size(); ++i) {
    ProgramValue& p = program.values[g.inputs()[i].index];
    p.base = Base::input;
    p.index = static_cast<int32_t>(i);
    p.offset = 0;
  }
  program.weights = prepared.weights;
  program.slab_bytes = plan.peak;
  program.region_bytes = plan.region;
  for (const SlabFigures& f : plan.devices) {
    program.device_slab_bytes.push_back(f.peak);
    program.device_region_bytes.push_back(f.region);
  }
}

void place_scratch(int workers, CompiledProgram& program) {
  for (size_t s = 0; s < program.steps.size(); ++s) {
    if (program.scratch[s] < 0) continue;
    ProgramStep& step = program.steps[s];
    step.scratch_offset = program.plan.values[program.scratch[s]].offset;
    const int64_t own = own_scratch_bytes(step, workers);
    if (step.extras->bodies.empty()) continue;
    for (StepExtras::Body& body : step.extras.write().bodies)
      if (body.slab_bytes > 0) body.slab_offset = step.scratch_offset + own;
  }
}

// After which step a counted buffer or an object is of no use to anybody. What a device reads, and what several lanes
// use, stays until the run ends, when all lanes are drained.
void find_releases(const PreparedGraph& prepared, std::span<const int32_t> step_device, CompiledProgram& program) {
  const size_t values = prepared.view->value_capacity();
  const auto goes_back = [&](size_t v) {
    const Base base = program.values[v].base;
    return (base == Base::side || base == Base::object) && !prepared.values[v].constant;
  };
  size_t first = 0;
  while (first < values && !goes_back(first)) ++first;
  if (first == values) return;
  std::vector<int32_t> last(values, -1);
  auto root = [&](int32_t v) { return program.values[v].root >= 0 ? program.values[v].root : v; };
  for (size_t s = 0; s < program.steps.size(); ++s) {
    for (int32_t v : program.steps[s].inputs)
      if (v >= 0) last[root(v)] = static_cast<int32_t>(s);
    for (int32_t v : program.steps[s].outputs)
      if (v >= 0) last[root(v)] = static_cast<int32_t>(s);
  }
  for (size_t s = 0; s < program.steps.size(); ++s)
    for (int32_t v : program.steps[s].inputs)
      if (v >= 0 && step_device[s] >= 0) last[root(v)] = -1;
  for (const ProgramStep& step : program.steps)
    for (const auto* list : {&step.inputs, &step.outputs})
      for (int32_t v : *list)
        if (v >= 0 && last[root(v)] >= 0 && program.steps[last[root(v)]].lane != step.lane) last[root(v)] = -1;
  for (int32_t v : program.outputs) last[root(v)] = -1;
  for (int32_t v : program.inputs) last[root(v)] = -1;
  for (size_t v = first; v < last.size(); ++v)
    if (last[v] >= 0 && goes_back(v))
      program.steps[last[v]].extras.write().release_after.push_back(static_cast<int32_t>(v));
}

}  // namespace

void place(const PreparedGraph& prepared, std::span<const int32_t> step_device, int workers, CompiledProgram& program) {
  place_values(prepared, program);
  place_scratch(workers, program);
  find_releases(prepared, step_device, program);
}

}  // namespace forethought
