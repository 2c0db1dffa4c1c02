// What kernels ask of the executor while they run.
#include "exec/frame.h"

namespace forethought {

void Frame::Host::parallel_for(int64_t blocks, FunctionRef<void(int64_t block, int worker)> f) {
  frame_->environment_.pool->parallel_for(blocks, f);
}

StatusOr<void*> Frame::Host::output(int slot, std::span<const int64_t> dims) {
  const int32_t value = frame_->program_->steps[current].outputs[slot];
  if (value < 0) return internal("memory was asked for an output that nobody wants");
  const Arg& arg = frame_->steps_[current].ctx.outputs[slot];
  RETURN_IF_ERROR(frame_->make_output(value, arg.dtype, dims));
  return arg.data;
}

Status Frame::Host::set_output(int slot, Value value) {
  const int32_t v = frame_->program_->steps[current].outputs[slot];
  return v < 0 ? absl::OkStatus() : frame_->adopt(v, std::move(value));
}

StatusOr<Tensor> Frame::Host::make_escaping(DType dtype, std::span<const int64_t> dims) {
  return frame_->take_tensor(*frame_->environment_.side, frame_->program_->steps[current].name, dtype, Layout::plain(),
                             dims);
}

StatusOr<Value> Frame::Host::escape(int slot) { return frame_->escaped(frame_->program_->steps[current].inputs[slot]); }

Status Frame::Host::run_body_in_place(int body, std::span<const BodyValue> inputs, std::span<BodyValue> outputs,
                                      std::span<int32_t> passed) {
  return frame_->run_body(current, body, inputs, outputs, passed);
}

}  // namespace forethought
