// Steps that need more than a call of their kernel: memory just before, a choice of kernel, bodies, releases.
#include <fmt/format.h>

#include <algorithm>

#include "base/checked.h"
#include "exec/frame.h"
#include "memory/mapped_file.h"

namespace forethought {
namespace {

// Frames that are kept for one body; a loop whose shapes change every trip makes a new program each time anyway.
constexpr size_t kFramesPerBody = 4;

}  // namespace

Status Frame::run_special(int32_t index) {
  const StepExtras& extras = *program_->steps[index].extras.operator->();
  if (extras.reads.empty()) return run_beyond_kernel(index);
  std::ranges::for_each(extras.reads, ask_for_pages);
  if (options_.ahead && options_.ahead->load(std::memory_order_relaxed))
    std::ranges::for_each(extras.ahead, ask_for_pages);
  Status status = run_beyond_kernel(index);
  std::ranges::for_each(status.ok() ? extras.drops : extras.reads, drop_pages);
  return status;
}

Status Frame::run_beyond_kernel(int32_t index) {
  const ProgramStep& step = program_->steps[index];
  for (int32_t v : step.outputs) {
    if (v >= 0 && !program_->values[v].known) hide(v);
  }
  if (!step.runnable) {
    RETURN_IF_ERROR(run_dynamic(index));
  } else {
    RETURN_IF_ERROR(prepare_outputs(step));
    RETURN_IF_ERROR(step.runnable->run(steps_[index].ctx));
  }
  for (int32_t v : step.extras->release_after) {
    if (held_index_[v] >= 0) held(v) = Value();
  }
  return absl::OkStatus();
}

Status Frame::prepare_outputs(const ProgramStep& step) {
  for (size_t slot = 0; slot < step.outputs.size(); ++slot) {
    const int32_t v = step.outputs[slot];
    if (v < 0 || sized_at_run(step.sized_at_run, slot)) continue;
    const ProgramValue& facts = program_->values[v];
    if (facts.known && !is_plain_object(facts)) RETURN_IF_ERROR(make_output(v, facts.dtype, facts.dims));
  }
  return absl::OkStatus();
}

Status Frame::run_dynamic(int32_t index) {
  const ProgramStep& step = program_->steps[index];
  if (!program_->resolver)
    return internal("its shapes are known only now and the program has nobody who resolves them");
  RunCtx ctx = steps_[index].ctx;
  ASSIGN_OR_RETURN(const ResolvedStep resolved, program_->resolver->resolve(step.node, ctx.inputs, ctx.outputs));
  const Runnable* runnable = resolved.runnable ? resolved.runnable : resolved.facts.instance.get();
  if (!runnable) return internal("the resolver gave no kernel");
  for (size_t slot = 0; slot < step.outputs.size(); ++slot) {
    if (step.outputs[slot] >= 0) RETURN_IF_ERROR(place_dynamic_output(step, slot, resolved));
  }
  ctx.scratch_shared = round_up(resolved.facts.scratch_shared, 64);
  ctx.scratch_per_worker = round_up(resolved.facts.scratch_per_worker, 64);
  Lease scratch;
  const auto per_workers = checked_mul(static_cast<int64_t>(ctx.scratch_per_worker), environment_.pool->size());
  const auto bytes = per_workers ? checked_add(static_cast<int64_t>(ctx.scratch_shared), *per_workers) : std::nullopt;
  if (!bytes) return internal("its kernel asks for more scratch than there is memory");
  if (*bytes > 0) {
    ASSIGN_OR_RETURN(scratch, environment_.side->take(*bytes, "the kernel's scratch"));
    ctx.scratch_data = static_cast<std::byte*>(scratch.data());
  }
  return runnable->run(ctx);
}

Status Frame::place_dynamic_output(const ProgramStep& step, size_t slot, const ResolvedStep& resolved) {
  const int32_t v = step.outputs[slot];
  const ProgramValue& facts = program_->values[v];
  if (is_plain_object(facts)) return absl::OkStatus();
  const bool has_dtype = slot < resolved.output_dtypes.size() && resolved.output_dtypes[slot] != DType::kUndefined;
  const DType dtype = has_dtype ? resolved.output_dtypes[slot] : facts.dtype;
  for (int32_t a : uses_[v]) args_[a].dtype = dtype;
  const bool dims_known = slot < resolved.output_known.size() && resolved.output_known[slot];
  if (!dims_known || sized_at_run(resolved.facts.sized_at_run, slot)) return absl::OkStatus();  // the kernel asks
  const Dims& dims = resolved.output_dims[slot];
  if (facts.base == Base::side && facts.root < 0) {
    for (const Alias& alias : resolved.facts.aliases) {
      if (alias.out == static_cast<int>(slot) && share_input(step, v, alias, dtype, dims)) return absl::OkStatus();
    }
  }
  return make_output(v, dtype, dims);
}

// Makes side value `v` a view of the step's input where those bytes stay as they are until the run ends or the last
// counted reference goes: not in the slab, which is reused, nor in an output, which may be written in place.
bool Frame::share_input(const ProgramStep& step, int32_t v, const Alias& alias, DType dtype,
                        std::span<const int64_t> dims) {
  const int32_t from = step.inputs[alias.in];
  if (from < 0 || is_plain_object(program_->values[from]) || !program_->values[from].strides.empty()) return false;
  const Base base = program_->values[from].base;
  if (base != Base::side && base != Base::input && base != Base::weight) return false;
  Tensor source = tensor_of_value(from);
  const ProgramValue& facts = program_->values[v];
  const auto bytes = storage_bytes(dtype, facts.layout, dims);
  if (!source.data || !bytes || alias.byte_offset < 0 || *bytes > source.bytes() ||
      alias.byte_offset > source.bytes() - *bytes) {
    return false;
  }
  Tensor view;
  view.dtype = dtype;
  view.layout = facts.layout;
  view.dims.assign(dims.begin(), dims.end());
  view.data = static_cast<std::byte*>(source.data) + alias.byte_offset;
  if (const BufferRef* owner = owner_of(from)) view.owner = *owner;
  held(v) = std::move(view);
  show_tensor(v, held(v).tensor());
  return true;
}

// The frame of the program for these inputs: mostly the one that ran last.
StatusOr<Frame*> Frame::child_for(int32_t index, int body, std::span<const BodyValue> inputs) {
  const auto& bodies = program_->steps[index].extras->bodies;
  if (body < 0 || static_cast<size_t>(body) >= bodies.size()) return internal("it has no such body");
  ProgramSource& source = *bodies[body].source;
  auto& frames = children_[steps_[index].first_child + body].frames;
  if (!frames.empty() && source.serves(*frames.front()->program(), inputs)) return frames.front().get();
  ASSIGN_OR_RETURN(std::shared_ptr<const Program> program, source.program_for(inputs));
  auto found = std::ranges::find_if(frames, [&](const auto& f) { return f->program() == program.get(); });
  if (found == frames.end()) {
    if (frames.size() == kFramesPerBody) frames.pop_back();
    frames.insert(frames.begin(), std::make_unique<Frame>(environment_, std::move(program), depth_ + 1));
  } else {
    std::rotate(frames.begin(), found, found + 1);
  }
  return frames.front().get();
}

Status Frame::run_body(int32_t index, int body, std::span<const BodyValue> inputs, std::span<BodyValue> outputs,
                       std::span<int32_t> passed) {
  ASSIGN_OR_RETURN(Frame * child, child_for(index, body, inputs));
  const StepExtras::Body& planned = program_->steps[index].extras->bodies[body];
  Children& children = children_[steps_[index].first_child + body];
  const int64_t bytes = child->program()->slab_bytes;
  if (planned.slab_offset >= 0 && bytes <= planned.slab_bytes) {
    std::byte* const inside = slab().at(planned.slab_offset);
    return child->run({{&inside, 1}}, inputs, outputs, options_, passed);
  }
  if (!children.slab) children.slab = environment_.slabs->take(bytes);
  RETURN_IF_ERROR(children.slab->ensure(bytes, "the slab of a body"));
  children.slab->set_in_use(true);
  Status status = child->run(children.slab->place(), inputs, outputs, options_, passed);
  children.slab->set_in_use(false);
  return status;
}

bool Frame::Host::body_output_dims(int body, std::span<const BodyValue> inputs, int output, Dims* dims) {
  const StatusOr<Frame*> child = frame_->child_for(current, body, inputs);
  if (!child.ok()) return false;
  const Program& program = *(*child)->program();
  if (output < 0 || static_cast<size_t>(output) >= program.outputs.size()) return false;
  const ProgramValue& value = program.values[program.outputs[output]];
  if (!value.known || is_text(value) || !value.layout.is_plain()) return false;
  dims->assign(value.dims.begin(), value.dims.end());
  return true;
}

}  // namespace forethought
