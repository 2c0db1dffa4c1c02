// What a step with bodies may ask of the executor beyond RunHost: results that are not copied, dims in advance.
#pragma once

#include <cstdint>
#include <span>

#include "kernel_api/run_ctx.h"

namespace forethought {

// The executor's side of a step that has bodies is one of these.
class BodyHost : public RunHost {
 public:
  // run_body() for a caller who can read results where they lie already. `passed`: one entry an output, kWritten before
  // the call. Afterwards it tells where the result is: kWritten (in `outputs`), kBodyConstant (in `outputs`, borrowed
  // from the session: the body returns a constant) or the number of the input that the body returns as it is; then
  // nothing was copied and the entry of `outputs` was not touched. Empty: such results are copied too.
  static constexpr int32_t kWritten = -1, kBodyConstant = -2;
  virtual Status run_body_in_place(int body, std::span<const BodyValue> inputs, std::span<BodyValue> outputs,
                                   std::span<int32_t> passed) = 0;
  Status run_body(int body, std::span<const BodyValue> inputs, std::span<BodyValue> outputs) final {
    return run_body_in_place(body, inputs, outputs, {});
  }
  // The dims that output `output` of a body will have for these inputs; false if only its run tells.
  virtual bool body_output_dims(int body, std::span<const BodyValue> inputs, int output, Dims* dims) = 0;
  // The step copied payload from one place to another as it is; counted beside what the executor copies.
  virtual void count_copy(int64_t bytes) = 0;

  static StatusOr<BodyHost*> of(const RunCtx& c) {
    auto* const host = dynamic_cast<BodyHost*>(c.host);
    return host ? StatusOr<BodyHost*>(host) : internal("bodies cannot be run here");
  }
};

}  // namespace forethought
