// Watches runs step by step: no step finds an input spoilt or not made, writes outside its outputs, or reads freed
// bytes.
#include "exec/shadow.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "exec/program.h"

namespace forethought {
namespace {

bool watched(const ProgramValue& v) {
  return v.known && v.bytes > 0 && (v.base == Base::slab || v.base == Base::output);
}

}  // namespace

void ShadowSink::restart(Level& level, const Program* program) {
  level = Level();
  level.program = program;
  level.last_read.assign(program->values.size(), -1);
  level.made.resize(program->values.size());
  level.at.resize(program->values.size());
  for (size_t s = 0; s < program->steps.size(); ++s) {
    for (const int32_t v : program->steps[s].inputs) {
      if (v >= 0) level.last_read[v] = static_cast<int32_t>(s);
    }
  }
  for (const int32_t v : program->outputs) level.last_read[v] = INT32_MAX;
  for (const Program::CopyOut& c : program->copies) level.last_read[c.from] = INT32_MAX;
}

void ShadowSink::find_slab(Level& level, const StepEvent& event) {
  const ProgramStep& step = level.program->steps[event.step];
  const auto look = [&](const std::vector<int32_t>& values, std::span<const Arg> args) {
    for (size_t i = 0; i < values.size() && i < args.size(); ++i) {
      if (values[i] < 0 || !args[i].data) continue;
      const ProgramValue& v = level.program->values[values[i]];
      if (v.base == Base::slab) level.slab = static_cast<std::byte*>(args[i].data) - v.offset;
    }
  };
  look(step.inputs, event.ctx->inputs);
  look(step.outputs, event.ctx->outputs);
}

// Every byte of the slab that changed must belong to an output, the scratch or a body of the step.
void ShadowSink::check_strays(const Level& level, const StepEvent& event) {
  const ProgramStep& step = level.program->steps[event.step];
  std::vector<Span> allowed;
  for (const int32_t v : step.outputs) {
    if (v < 0 || level.program->values[v].base != Base::slab) continue;
    allowed.push_back(
        {level.program->values[v].offset, level.program->values[v].offset + level.program->values[v].bytes});
  }
  if (event.ctx->scratch_data) {
    const int64_t begin = event.ctx->scratch_data - level.slab;
    const auto workers = static_cast<size_t>(event.ctx->host->workers());
    allowed.push_back({begin, begin + static_cast<int64_t>(step.scratch_shared + workers * step.scratch_per_worker)});
  }
  for (size_t b = 0; b < step.body_slab_offset.size(); ++b) {
    if (step.body_slab_offset[b] < 0) continue;
    allowed.push_back({step.body_slab_offset[b], step.body_slab_offset[b] + step.body_slab_bytes[b]});
  }
  std::sort(allowed.begin(), allowed.end(), [](const Span& a, const Span& b) { return a.begin < b.begin; });
  const auto end = static_cast<int64_t>(level.image.size());
  allowed.push_back({end, end});
  int64_t from = 0;
  for (const Span& span : allowed) {
    const int64_t to = std::clamp<int64_t>(span.begin, from, end);
    if (std::memcmp(level.image.data() + from, level.slab + from, static_cast<size_t>(to - from)) != 0) {
      const auto [was, is] = std::mismatch(level.image.begin() + from, level.image.begin() + to, level.slab + from);
      faults_.push_back(fmt::format("step {} wrote at byte {} of the slab, which is none of its outputs", step.name,
                                    is - level.slab));
      return;
    }
    from = std::clamp<int64_t>(span.end, from, end);
  }
}

void ShadowSink::keep_outputs(Level& level, const StepEvent& event) {
  const ProgramStep& step = level.program->steps[event.step];
  for (size_t i = 0; i < step.outputs.size() && i < event.ctx->outputs.size(); ++i) {
    const int32_t v = step.outputs[i];
    if (v < 0 || !watched(level.program->values[v]) || !event.ctx->outputs[i].data) continue;
    const auto* data = static_cast<const std::byte*>(event.ctx->outputs[i].data);
    level.at[v] = data;
    level.made[v].assign(data, data + level.program->values[v].bytes);
  }
}

// Fills what no later step reads.
void ShadowSink::poison_dead(Level& level, int32_t step) {
  std::vector<Span> live;
  for (size_t v = 0; v < level.made.size(); ++v) {
    const ProgramValue& value = level.program->values[v];
    if (value.base != Base::slab || level.made[v].empty() || level.last_read[v] <= step) continue;
    live.push_back({value.offset, value.offset + value.bytes});
  }
  std::sort(live.begin(), live.end(), [](const Span& a, const Span& b) { return a.begin < b.begin; });
  live.push_back({level.program->slab_bytes, level.program->slab_bytes});
  int64_t from = 0;
  for (const Span& span : live) {
    if (span.begin > from) {
      std::memset(level.slab + from, static_cast<int>(poison_), static_cast<size_t>(span.begin - from));
    }
    from = std::max(from, span.end);
  }
  level.image.assign(level.slab, level.slab + level.program->slab_bytes);
}

// The inputs of a step that is about to run are as their steps made them.
void ShadowSink::check_inputs(const Level& level, int32_t step) {
  if (static_cast<size_t>(step) >= level.program->steps.size()) return;
  for (const int32_t v : level.program->steps[step].inputs) {
    if (v < 0 || !watched(level.program->values[v])) continue;
    const std::string& name = level.program->values[v].name;
    if (level.made[v].empty()) {
      if (level.program->values[v].base == Base::slab) {
        faults_.push_back(
            fmt::format("step {} reads '{}', which no step has made", level.program->steps[step].name, name));
      }
    } else if (std::memcmp(level.made[v].data(), level.at[v], level.made[v].size()) != 0) {
      faults_.push_back(fmt::format("step {} finds '{}' spoilt", level.program->steps[step].name, name));
    }
  }
}

void ShadowSink::on_step(const StepEvent& event) {
  if (event.program->lanes > 1 || !event.ctx) return;
  const auto depth = static_cast<size_t>(event.depth);
  levels_.resize(depth + 1);  // bodies below are over
  Level& level = levels_[depth];
  if (level.program != event.program || event.step <= level.last) restart(level, event.program);
  level.last = event.step;
  ++steps_;
  if (!level.slab) find_slab(level, event);
  if (!level.image.empty()) check_strays(level, event);
  keep_outputs(level, event);
  if (level.slab) poison_dead(level, event.step);
  check_inputs(level, event.step + 1);
}

}  // namespace forethought
