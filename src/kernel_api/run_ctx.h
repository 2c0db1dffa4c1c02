// What a kernel gets while it runs: addresses, shapes, scratch, a parallel_for. No look-ups, no allocation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/function_ref.h"
#include "base/status.h"
#include "tensor/value.h"

namespace forethought {

// One input or output of a step, resolved to an address. Absent optionals have present == false.
struct Arg {
  void* data = nullptr;  // first element; for objects (strings apart) null
  const int64_t* dims_data = nullptr;
  const int64_t* strides_data = nullptr;  // of a strided view, see Operand::strides; null: row-major
  int64_t elements = 0;                   // logical
  Value* object = nullptr;                // sequences, optionals, maps: the frame's object slot; null for tensors
  int32_t rank = 0;
  DType dtype = DType::kUndefined;
  Layout layout;
  bool present = false;

  std::span<const int64_t> dims() const { return {dims_data, static_cast<size_t>(rank)}; }
  std::span<const int64_t> strides() const { return {strides_data, strides_data ? static_cast<size_t>(rank) : 0}; }
  int64_t dim(int i) const { return dims_data[i < 0 ? i + rank : i]; }
  template <typename T>
  T* as() const {
    return static_cast<T*>(data);
  }
  // The same memory as a tensor, borrowed for as long as the step runs.
  Tensor tensor() const {
    Tensor t;
    t.dtype = dtype;
    t.dims.assign(dims().begin(), dims().end());
    t.layout = layout;
    t.data = data;
    t.strides.assign(strides().begin(), strides().end());
    return t;
  }
  int64_t storage() const { return storage_elements(layout, dims()).value_or(0); }  // elements with layout padding
};

// One value handed to or received from a body graph (RunHost::run_body).
// In: a tensor (borrowed or counted) or an object. Out: what the body produced; if the caller sets a tensor with memory
// of the right size before the call, the body's result is written there and no other memory is taken.
using BodyValue = Value;

// The executor's side of a running step; kernels call it through RunCtx.
class RunHost {
 public:
  virtual ~RunHost() = default;
  // Calls f(block, worker) once for each block in [0, blocks); worker < workers(). Blocks run in any order, on any
  // thread, at the same time; the call returns when all are done.
  virtual void parallel_for(int64_t blocks, FunctionRef<void(int64_t block, int worker)> f) = 0;
  virtual int workers() const = 0;
  // Memory for an output whose size only the run tells; sets its dims and address.
  virtual StatusOr<void*> output(int slot, std::span<const int64_t> dims) = 0;
  // Hands over a whole value as output `slot`: sequences and other objects, and tensors of outputs that are sized at
  // run (their bytes are adopted, not copied; the tensor must own them).
  virtual Status set_output(int slot, Value value) = 0;
  // A tensor of the given type and shape that is counted and outlives the step: for elements of objects.
  virtual StatusOr<Tensor> make_escaping(DType dtype, std::span<const int64_t> dims) = 0;
  // Input `slot` as a counted Value. Shares the bytes when the input escapes (KernelFacts::escapes), else copies.
  virtual StatusOr<Value> escape(int slot) = 0;
  // Runs body graph `body` (in the order of the operator's graph attributes) once.
  virtual Status run_body(int body, std::span<const BodyValue> inputs, std::span<BodyValue> outputs) = 0;
  virtual bool cancelled() const = 0;
};

class RunCtx {
 public:
  std::span<const Arg> inputs;
  std::span<Arg> outputs;
  std::span<const std::span<const std::byte>> packed;  // one an input; empty where nothing was packed
  std::byte* scratch_data = nullptr;                   // shared block, then one block a worker
  size_t scratch_shared = 0;                           // rounded to 64
  size_t scratch_per_worker = 0;                       // rounded to 64
  RunHost* host = nullptr;

  const Arg& in(int i) const { return inputs[i]; }
  const Arg& out(int i) const { return outputs[i]; }
  bool has_in(int i) const { return i < static_cast<int>(inputs.size()) && inputs[i].present; }
  bool has_out(int i) const { return i < static_cast<int>(outputs.size()) && outputs[i].present; }
  template <typename T>
  const T* in_as(int i) const {
    return static_cast<const T*>(inputs[i].data);
  }
  template <typename T>
  T* out_as(int i) const {
    return static_cast<T*>(outputs[i].data);
  }

  std::byte* scratch() const { return scratch_data; }
  std::byte* worker_scratch(int worker) const { return scratch_data + scratch_shared + worker * scratch_per_worker; }
  // True when those bytes of the output already are the input's (a view or a window that the planner honoured): nothing
  // is to be copied. For a window (input inside the output) the offset counts from the output: in_window().
  bool aliased(int out, int in, int64_t byte_offset = 0) const {
    return outputs[out].data == static_cast<std::byte*>(inputs[in].data) + byte_offset;
  }

  bool in_window(int in, int out, int64_t byte_offset) const {
    return inputs[in].data == static_cast<std::byte*>(outputs[out].data) + byte_offset;
  }

  // Runs inline when there is one block. The caller derives `blocks` from shapes alone.
  void parallel_for(int64_t blocks, FunctionRef<void(int64_t block, int worker)> f) const {
    if (blocks == 1) {
      f(0, 0);
    } else if (blocks > 1) {
      host->parallel_for(blocks, f);
    }
  }
};

// What the executor calls for each step: a kernel, or an instance that choose() made for a shape class.
class Runnable {
 public:
  virtual ~Runnable() = default;
  virtual Status run(RunCtx& ctx) const = 0;
  // Of an output that is a strided view (Alias::strided): how it lies, as Operand::strides. Stays as long as this.
  virtual std::span<const int64_t> strides(int /*out*/) const { return {}; }
};

// Splits [0, total) into blocks of `grain` (the last may be shorter) and calls f(begin, end, worker) for each.
template <typename F>
void parallel_ranges(const RunCtx& ctx, int64_t total, int64_t grain, F&& f) {
  if (total <= 0) return;
  if (total <= grain) return f(int64_t{0}, total, 0);
  ctx.parallel_for((total + grain - 1) / grain, [&](int64_t b, int worker) {
    const int64_t begin = b * grain;
    f(begin, begin + grain < total ? begin + grain : total, worker);
  });
}

}  // namespace forethought
