// A run of a frame: bind what changed, walk the steps, hand the outputs out.
#include "exec/frame.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <iterator>
#include <new>
#include <utility>

#include "threading/thread_scope.h"

namespace forethought {
namespace {

const std::atomic<bool> never_cancelled{false};

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

Status Frame::run(const SlabPlace& slab, std::span<const Value> inputs, std::span<Value> outputs,
                  const ExecOptions& options, std::span<int32_t> passed) {
  if (inputs.size() != program_->inputs.size() || outputs.size() != program_->outputs.size()) {
    return internal(fmt::format("the program has {} inputs and {} outputs; the run gave {} and {}",
                                program_->inputs.size(), program_->outputs.size(), inputs.size(), outputs.size()));
  }
  const ThreadScope scope;
  inputs_ = inputs;
  outputs_ = outputs;
  passed_ = passed;
  options_ = options;
  if (!options_.cancel) options_.cancel = &never_cancelled;
  bind_slab(slab);
  Status status;
  try {
    status = run_bound();
  } catch (const std::bad_alloc&) {
    status = exhausted("the system has no more memory for strings and sequences");
  } catch (const std::exception& e) {
    status = step_error(hosts_.front().current, internal(fmt::format("a library failed: {}", e.what())));
  }
  for (DeviceSlab& device : devices_) device.blocks.clear();
  drop_held();
  if (status.ok() && depth_ == 0 && gives_objects_) status = own_objects();
  if (!status.ok()) {
    for (size_t o = 0; o < outputs.size(); ++o) {
      if (!preset_[o]) outputs[o] = Value();
    }
  }
  inputs_ = {};
  outputs_ = {};
  passed_ = {};
  return status;
}

int64_t Frame::give_slabs_back() {
  int64_t bytes = 0;
  for (Children& c : children_) {
    for (const auto& frame : c.frames) bytes += frame->give_slabs_back();
    if (!c.slab) continue;
    bytes += c.slab->capacity();
    environment_.slabs->give_back(std::move(c.slab));
  }
  return bytes;
}

int64_t Frame::slab_excess() const {
  int64_t bytes = 0;
  for (const Children& c : children_) {
    for (const auto& frame : c.frames) bytes += frame->slab_excess();
    if (c.slab) bytes += c.slab->excess();
  }
  return bytes;
}

Status Frame::run_bound() {
  std::fill(preset_.begin(), preset_.end(), uint8_t{0});
  RETURN_IF_ERROR(bind_inputs());
  RETURN_IF_ERROR(bind_outputs());
  if (options_.sink) options_.sink->on_run(*program_, depth_, slab());
  if (lanes_) {
    RETURN_IF_ERROR(run_lanes());
  } else {
    RETURN_IF_ERROR(options_.sink ? run_steps<true>() : run_steps<false>());
  }
  return finish_outputs();
}

void Frame::bind_slab(const SlabPlace& slab) {
#ifdef FORETHOUGHT_DEBUG_CHECKS
  const int64_t bytes = program_->slab_bytes, region = program_->region_bytes > 0 ? program_->region_bytes : bytes;
  for (size_t r = 0; r < slab.regions.size() && slab.regions[r]; ++r) {  // NaN: reading before writing shows
    const int64_t rest = bytes - static_cast<int64_t>(r) * region;
    std::memset(slab.regions[r], 0xff, static_cast<size_t>(std::clamp<int64_t>(rest, 0, region)));
  }
#endif
  if (std::ranges::equal(slab.regions, slab_)) return;
  slab_.assign(slab.regions.begin(), slab.regions.end());
  bind_slab_to(slab_fixups_, scratch_fixups_, this->slab());
}

void Frame::bind_slab_to(const std::vector<Fixup>& arguments, const std::vector<Fixup>& scratch,
                         const SlabPlace& slab) {
  for (const Fixup& f : arguments) args_[f.arg].data = slab.at(f.offset);
  for (const Fixup& f : scratch) steps_[f.arg].ctx.scratch_data = slab.at(f.offset);
}

Status Frame::bind_inputs() {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const int32_t v = program_->inputs[i];
    const ProgramValue& value = program_->values[v];
    if (is_plain_object(value)) {
      for (int32_t a : uses_[v]) args_[a].object = const_cast<Value*>(&inputs_[i]);  // kernels only read inputs
      continue;
    }
    if (!inputs_[i].is_tensor()) return internal(fmt::format("input '{}' is no tensor", value.name));
    const Tensor& tensor = inputs_[i].tensor();
    const bool fits = tensor.dtype == value.dtype && tensor.layout == value.layout &&
                      std::ranges::equal(tensor.strides, value.strides) &&
                      (!value.known || std::ranges::equal(tensor.dims, value.dims));
    if (!fits) {
      return internal(fmt::format("input '{}' is {}{}, but the program was made for {}{}", value.name,
                                  name(tensor.dtype), to_string(tensor.dims), name(value.dtype),
                                  to_string(value.dims)));
    }
    // Places count from the lowest element.
    bind_group(static_cast<int32_t>(i), tensor.data ? static_cast<std::byte*>(tensor.data) - value.first : nullptr);
    if (!value.known) show_tensor(v, tensor);
  }
  return absl::OkStatus();
}

Status Frame::bind_outputs() {
  const auto inputs = static_cast<int32_t>(inputs_.size());
  for (size_t o = 0; o < outputs_.size(); ++o) {
    const int32_t v = program_->outputs[o];
    const ProgramValue& value = program_->values[v];
    const bool has_memory = outputs_[o].is_tensor() && outputs_[o].tensor().data && !is_plain_object(value) &&
                            outputs_[o].tensor().dtype == value.dtype && !is_text(value);
    preset_[o] = has_memory && (!value.known || outputs_[o].tensor().bytes() == value.bytes);
    if (value.base != Base::output || value.index != static_cast<int32_t>(o) || is_plain_object(value)) continue;
    if (!value.known || is_text(value)) {
      bind_group(inputs + static_cast<int32_t>(o), nullptr);  // until its step makes it
      continue;
    }
    if (preset_[o]) {
      Tensor& tensor = outputs_[o].tensor();
      tensor.dims.assign(value.dims.begin(), value.dims.end());
      tensor.layout = value.layout;
    } else {
      ASSIGN_OR_RETURN(outputs_[o], take_tensor(output_pool(), value.name, value.dtype, value.layout, value.dims));
    }
    bind_group(inputs + static_cast<int32_t>(o), outputs_[o].tensor().data);
  }
  return absl::OkStatus();
}

template <bool kSink>
Status Frame::run_steps() {
  const std::atomic<bool>& cancel = *options_.cancel;
  const auto count = static_cast<int32_t>(steps_.size());
  Host& host = hosts_.front();
  for (int32_t i = 0; i < count; ++i) {
    if (cancel.load(std::memory_order_relaxed)) [[unlikely]] {
      return cancelled_before(i);
    }
    Step& step = steps_[i];
    host.current = i;
    int64_t begin = 0;
    if constexpr (kSink) {
      options_.sink->on_begin({program_.get(), i, depth_, 0, 0, &step.ctx});
      begin = now_ns();
    }
    Status status = step.special ? run_special(i) : step.runnable->run(step.ctx);
    if (!status.ok()) [[unlikely]]
      return step_error(i, std::move(status));
    if constexpr (kSink) {
      options_.sink->on_step({program_.get(), i, depth_, begin, now_ns(), &step.ctx});
    }
  }
  return absl::OkStatus();
}

bool Frame::fit() const { return unfit_.ok() && (!lanes_ || lanes_->built().ok()); }

Status Frame::run_lanes() {
  RETURN_IF_ERROR(unfit_);
  RETURN_IF_ERROR(bind_devices());
  Status status = lanes_->run(lane_steps_, *options_.cancel);
  return status.ok() || lanes_->where() < 0 ? status : step_error(lanes_->where(), std::move(status));
}

Status Frame::run_step(int32_t index) noexcept {
  Step& step = steps_[index];
  static_cast<Host*>(step.ctx.host)->current = index;
  if (options_.sink) options_.sink->on_begin({program_.get(), index, depth_, 0, 0, &step.ctx});
  const int64_t begin = options_.sink ? now_ns() : 0;
  Status status;
  try {
    status = step.special ? run_special(index) : step.runnable->run(step.ctx);
  } catch (const std::bad_alloc&) {
    status = exhausted("the system has no more memory for strings and sequences");
  } catch (const std::exception& e) {
    status = internal(fmt::format("a library failed: {}", e.what()));
  }
  if (options_.sink && status.ok()) {
    const std::lock_guard lock(sink_mutex_);
    options_.sink->on_step({program_.get(), index, depth_, begin, now_ns(), &step.ctx});
  }
  return status;
}

void Frame::step_ran(int32_t index, int64_t begin_ns, int64_t end_ns) noexcept {
  if (!options_.sink) return;
  const std::lock_guard lock(sink_mutex_);
  options_.sink->on_step({program_.get(), index, depth_, begin_ns, end_ns, nullptr});
}

Status Frame::bind_devices() {
  for (size_t d = 0; d < devices_.size() && d < program_->device_slab_bytes.size(); ++d) {
    DeviceSlab& device = devices_[d];
    const int64_t bytes = program_->device_slab_bytes[d];
    const int64_t region = d < program_->device_region_bytes.size() ? program_->device_region_bytes[d] : 0;
    for (int64_t from = 0; from<bytes; from += region> 0 ? region : bytes) {
      ASSIGN_OR_RETURN(
          LaneDevice::Block block,
          environment_.devices[d]->allocate(region > 0 ? std::min(region, bytes - from) : bytes, "the execution slab"));
      device.blocks.push_back(std::move(block));
    }
    const auto address = [](const LaneDevice::Block& block) { return static_cast<std::byte*>(block.data); };
    if (std::ranges::equal(device.blocks, device.bound, {}, address)) continue;
    device.bound.clear();
    std::ranges::transform(device.blocks, std::back_inserter(device.bound), address);
    bind_slab_to(device.fixups, device.scratch_fixups, {device.bound, region});
  }
  return absl::OkStatus();
}

Status Frame::cancelled_before(int32_t index) const {
  return ::forethought::cancelled(fmt::format("the run was cancelled before node {}", program_->steps[index].name));
}

Status Frame::step_error(int32_t index, Status status) const {
  if (static_cast<size_t>(index) >= program_->steps.size() || absl::IsCancelled(status)) return status;
  return with_context(std::move(status), fmt::format("node {}", program_->steps[index].name));
}

Status Frame::finish_outputs() {
  std::span<const Program::CopyOut> copies = program_->copies;
  for (size_t o = 0; o < outputs_.size(); ++o) {
    const bool copied =
        std::any_of(copies.begin(), copies.end(), [&](const auto& c) { return c.output == static_cast<int32_t>(o); });
    if (!copied) RETURN_IF_ERROR(hand_out(static_cast<int32_t>(o), program_->outputs[o]));
  }
  for (const Program::CopyOut& c : copies) {
    if (!pass(c.output, c.from)) RETURN_IF_ERROR(copy_out(c.output, c.from));
  }
  return absl::OkStatus();
}

// Tells the caller of a body where the result lies already, if the caller asked and it is no result of a step.
bool Frame::pass(int32_t output, int32_t from) {
  if (passed_.empty()) return false;
  const ProgramValue& facts = program_->values[from];
  if (facts.base == Base::input) {
    passed_[output] = facts.index;
    return true;
  }
  if (facts.base != Base::weight || facts.index < 0) return false;
  passed_[output] = BodyHost::kBodyConstant;
  outputs_[output] = tensor_of_value(from);
  return true;
}

// Makes output number `output` what the steps left in `value`.
Status Frame::hand_out(int32_t output, int32_t value) {
  const ProgramValue& facts = program_->values[value];
  if (facts.base == Base::output && facts.index == output) {
    if (is_plain_object(facts) || bound_[inputs_.size() + output]) return absl::OkStatus();
    return internal(fmt::format("no node made output '{}'", facts.name));
  }
  if (held_index_[value] >= 0 && !is_plain_object(facts) && facts.root < 0 && !preset_[output] &&
      held(value).is_tensor() && held(value).tensor().owner.unique()) {
    outputs_[output] = std::exchange(held(value), Value());
    return absl::OkStatus();
  }
  return copy_out(output, value);
}

Status Frame::copy_out(int32_t output, int32_t from) {
  const ProgramValue& facts = program_->values[from];
  if (is_plain_object(facts)) {
    const Value* object = object_of(from);
    outputs_[output] = object ? *object : Value();
    return absl::OkStatus();
  }
  if (facts.base == Base::slab && facts.device >= 0)
    return internal(fmt::format("output {} repeats '{}', which a device holds", output, facts.name));
  const Tensor source = tensor_of_value(from);
  if (!source.data && source.elements() > 0) {
    return internal(fmt::format("no node made value '{}', which output {} repeats", facts.name, output));
  }
  if (preset_[output] && outputs_[output].tensor().bytes() == source.bytes()) {
    Tensor& target = outputs_[output].tensor();
    target.dims = source.dims;
    target.layout = source.layout;
    if (source.bytes() > 0) std::memmove(target.data, source.data, static_cast<size_t>(source.bytes()));
    count_copy(source.bytes());
    return absl::OkStatus();
  }
  preset_[output] = 0;
  const auto& name = program_->values[program_->outputs[output]].name;
  ASSIGN_OR_RETURN(outputs_[output], copy_tensor(output_pool(), name, source));
  return absl::OkStatus();
}

Status Frame::own_objects() {
  for (size_t o = 0; o < outputs_.size(); ++o) {
    if (is_plain_object(program_->values[program_->outputs[o]])) RETURN_IF_ERROR(own(outputs_[o]));
  }
  return absl::OkStatus();
}

void Frame::drop_held() {
  for (Value& v : held_) {
    if (!v.is_none()) v = Value();
  }
}

}  // namespace forethought
