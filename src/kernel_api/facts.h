// What a kernel tells the runtime before it runs: plain data that the planner and the executor act on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "base/cpu.h"
#include "base/status.h"
#include "tensor/value.h"

namespace forethought {

class Runnable;
class InstanceCache;

// A constant in the form a kernel wants. `format` names the form exactly: two specs with equal format and equal content
// share one pack. `pack` reads the constant (any alignment) and fills `bytes` bytes, 64-byte aligned.
struct PackSpec {
  int input = 0;
  std::string format;
  size_t bytes = 0;
  std::function<Status(const Tensor& constant, std::span<std::byte> packed)> pack;
  bool keeps_original = false;  // the kernel also reads the constant itself at run
  bool needed = false;          // the kernel cannot run from the constant itself; others may be left out
};

// The packed form of one input, as `choose` and `run` see it.
struct Packed {
  std::span<const std::byte> bytes;
  std::string_view format;
};

// What prepare() may look at: which inputs are constant, and their contents.
struct PrepareCtx {
  Isa isa = Isa::scalar;
  std::span<const Tensor* const> constants;  // one an input; null: not constant
  std::span<const Layout> input_layouts;
  std::span<const Layout> output_layouts;
};

// An input or output of a node as choose() sees it. All dims are numbers.
struct Operand {
  bool present = false;
  DType dtype = DType::kUndefined;  // kUndefined: no tensor (sequence, optional …)
  std::span<const int64_t> dims;
  Layout layout;
  // Of an input that is a strided view: elements between neighbours along each dim, 0 where it repeats and negative
  // where it runs backwards; empty: row-major.
  std::span<const int64_t> strides;
  bool known = false;                // false: the size is known only at run (dims is empty)
  const Tensor* constant = nullptr;  // the contents, if constant or already in memory, and Kernel::contents() names it
  const Packed* packed = nullptr;
  bool may_stride = false;         // of an output: all that read it take it as a strided view
  std::string_view dense_because;  // of an output that may not: why, if the operator could give one
};

struct ChooseCtx {
  Isa isa = Isa::scalar;
  std::span<const Operand> inputs;
  std::span<const Operand> outputs;
  InstanceCache* cache = nullptr;  // never null in a session; may be null in tests
};

// A mask speaks of the first 32 inputs or outputs; of later ones it says no.
constexpr bool has_bit(uint32_t mask, size_t i) { return i < 32 && ((mask >> i) & 1u) != 0; }

struct Refusal {
  std::string kernel;
  std::string reason;
  bool operator==(const Refusal&) const = default;
};

// `out` is the same bytes as `in`, starting `byte_offset` bytes into it. The planner honours it or not; where it does
// not, run() sees different addresses and copies. RunCtx::aliased(out) tells. A strided one has its first element
// `byte_offset` bytes behind the input's first, or before it, and Runnable::strides() tells of the others.
struct Alias {
  int out = 0, in = 0;
  int64_t byte_offset = 0;
  bool strided = false;
  bool operator==(const Alias&) const = default;
};
// The kernel may write `out` over `in`: element i of `out` needs no element of `in` that is read later.
struct Overwrite {
  int out = 0, in = 0;
  bool operator==(const Overwrite&) const = default;
};
// Input `in` may be produced directly inside `out` at `byte_offset`; run() then skips it (RunCtx::in_window() tells).
struct Window {
  int in = 0, out = 0;
  int64_t byte_offset = 0;
  bool operator==(const Window&) const = default;
};

struct KernelFacts {
  std::string kernel;            // "conv.onednn.direct.f32.avx512"
  std::string reason;            // why this one; may be empty where there is only one
  std::vector<Refusal> refused;  // what else was considered
  absl::InlinedVector<Alias, 1> aliases;
  absl::InlinedVector<Overwrite, 2> overwrites;
  absl::InlinedVector<Window, 1> windows;
  uint32_t sized_at_run = 0;                 // bit per output: run() asks for it with RunCtx::output()
  uint32_t escapes = 0;                      // bit per input: it enters an object and outlives the step (sequences)
  uint32_t host_inputs = 0;                  // bit per input: wanted on the host whatever the node's device
  size_t scratch_shared = 0;                 // bytes, one block a run of the step
  size_t scratch_per_worker = 0;             // bytes, one block for each worker of the pool
  std::shared_ptr<const Runnable> instance;  // null: the kernel itself runs
};

}  // namespace forethought
