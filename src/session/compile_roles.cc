// What the planner hears of values.
#include <algorithm>

#include "session/compiling.h"

namespace forethought {
namespace {

// What a tensor takes at most of which only the run tells the size; kUnknownSize where nothing bounds it.
int64_t most_bytes(const Compiling& w, const ProgramValue& p, const SymShape& shape) {
  if (w.resizes || !shape.has_rank || p.dtype == DType::kUndefined) return kUnknownSize;
  Dims most;
  for (const Dim& d : shape.dims) {
    const std::optional<int64_t> bound = upper_bound(d).known();
    if (!bound) return kUnknownSize;
    most.push_back(*bound);
  }
  return storage_bytes(p.dtype, p.layout, most).value_or(kUnknownSize);
}

}  // namespace

void set_roles(Compiling& w) {
  auto& values = w.problem.values;
  values.clear();
  values.reserve(w.g.value_capacity() + w.scratch.size());
  values.resize(w.g.value_capacity());
  for (uint32_t i = 0; i < w.g.value_capacity(); ++i) {
    const PreparedValue& v = w.prepared.values[i];
    const ProgramValue& p = w.program.values[i];
    PlanValue& q = values[i];
    q.name = p.name;
    q.alignment = kValueAlignment;
    q.device = p.device;
    q.bytes = p.is_object() ? 0 : p.known ? p.bytes : kUnknownSize;
    if (q.bytes == kUnknownSize) q.most_bytes = most_bytes(w, p, w.table.values[i].shape);
    if (v.constant) {
      q.role = Role::weight;
      q.index = v.weight;
    } else if (v.removed || p.is_object()) {
      q.role = Role::object;
    } else if (!p.known) {
      q.role = Role::data_dependent;
    } else {
      q.role = Role::execution;
    }
  }
  for (size_t i = 0; i < w.g.inputs().size(); ++i) {
    PlanValue& q = values[w.g.inputs()[i].index];
    w.program.inputs.push_back(static_cast<int32_t>(w.g.inputs()[i].index));
    q.role = Role::input;
    q.index = static_cast<int32_t>(i);
  }
  // Tensors that enter an object live in counted buffers of their own; what a device makes is copied there.
  std::vector<uint8_t> of_device(values.size(), 0);
  for (size_t i = 0; w.has_devices() && i < w.program.steps.size(); ++i)
    for (const int32_t v : w.program.steps[i].outputs)
      if (v >= 0 && w.step_device[i] >= 0) of_device[v] = 1;
  for (const ProgramStep& s : w.program.steps)
    for (size_t i = 0; i < s.inputs.size() && i < 32; ++i)
      if (s.inputs[i] >= 0 && has_bit(s.escapes, i) && values[s.inputs[i]].role == Role::execution &&
          !of_device[s.inputs[i]])
        values[s.inputs[i]].role = Role::data_dependent;
  for (size_t i = 0; i < w.g.outputs().size(); ++i) {
    const int32_t v = static_cast<int32_t>(w.g.outputs()[i].index);
    const auto& listed = w.program.outputs;
    const bool again = std::find(listed.begin(), listed.end(), v) != listed.end();
    w.program.outputs.push_back(v);
    if (again || !w.g.value(w.g.outputs()[i]).producer.valid()) {
      w.program.copies.push_back({static_cast<int32_t>(i), v});
      continue;
    }
    PlanValue& q = values[v];
    if (q.role != Role::execution && q.role != Role::data_dependent) continue;
    q.index = static_cast<int32_t>(i);
    if (q.role == Role::execution) q.role = Role::output;
  }
  for (const Compiling::Scratch& s : w.scratch) {
    PlanValue q;
    q.name = s.name;
    q.bytes = s.bytes;
    q.alignment = kValueAlignment;
    q.role = Role::scratch;
    q.device = s.device;
    values.push_back(q);
  }
}

void resize_roles(Compiling& w) {
  for (uint32_t i = 0; i < w.g.value_capacity(); ++i) {
    const ProgramValue& p = w.program.values[i];
    w.problem.values[i].bytes = p.is_object() ? 0 : p.bytes;
  }
  for (size_t i = 0; i < w.scratch.size(); ++i) w.problem.values[w.g.value_capacity() + i].bytes = w.scratch[i].bytes;
  w.program.inputs = w.like->inputs;
  w.program.outputs = w.like->outputs;
  w.program.copies = w.like->copies;
}

}  // namespace forethought
