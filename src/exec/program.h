// What the executor runs: the plan of one graph for one set of shapes, flattened to arrays. Immutable; made by
// session/.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "base/status.h"
#include "kernel_api/facts.h"
#include "kernel_api/run_ctx.h"
#include "tensor/value.h"

namespace forethought {

class ProgramSource;

// Where a value's bytes come from. slab: planned offset in the frame's slab. weight: a constant of the session.
// input/output: the run's binding. side: taken from the side arena when its producer runs (size known only then, or it
// escapes). object: strings, sequences, optionals: the frame's object slot.
enum class Base : uint8_t { none, slab, weight, input, output, side, object };

struct ProgramValue {
  Base base = Base::none;
  int32_t device = -1;  // of the slab: a place in ExecEnvironment::devices; -1: the host
  int32_t index = 0;    // which weight, input or output
  int64_t offset = 0;   // in its base; of a view: in its root
  int32_t root = -1;    // value whose side buffer or output this one is a view of; -1: none
  DType dtype = DType::kUndefined;
  bool known = false;  // dims are known now
  Dims dims;
  Layout layout;
  int64_t bytes = 0;
  std::string_view name;  // Program::names owns it
  ValueType type;
};

struct ProgramStep {
  const Runnable* runnable = nullptr;                  // null: a dynamic step, resolved when it runs
  std::shared_ptr<const Runnable> keep;                // owns `runnable` if it is an instance
  absl::InlinedVector<int32_t, 4> inputs, outputs;     // indices of values; -1: absent
  std::span<const std::span<const std::byte>> packed;  // one an input; the session's
  int64_t scratch_offset = 0;                          // in the slab of the lane's device
  size_t scratch_shared = 0, scratch_per_worker = 0;   // each rounded to 64
  uint32_t sized_at_run = 0;                           // bit per output
  uint32_t escapes = 0;                                // bit per input
  absl::InlinedVector<Alias, 1> aliases;               // of dynamic steps: honoured by sharing the side buffer
  std::vector<ProgramSource*> bodies;                  // of control flow; owned by the session
  std::vector<int64_t> body_slab_offset;  // where the body's planned slab lies in this slab; -1: from the side arena
  std::vector<int64_t> body_slab_bytes;
  std::vector<int32_t> release_after;  // side values and objects whose last use is this step
  int32_t lane = 0;
  absl::InlinedVector<int32_t, 4> waits,
      signals;            // notifications; in the list of steps each is signalled before a step waits
  int32_t node = -1;      // for the resolver and for reports
  std::string_view name;  // "/layer1/conv (Conv)"; Program::names owns it
};

// A step whose shapes, kernel or scratch are known only now. Called by the executor with the inputs in memory.
struct ResolvedStep {
  std::vector<Dims> output_dims;  // empty optional dims where sized at run
  std::vector<bool> output_known;
  std::vector<DType> output_dtypes;
  KernelFacts facts;  // facts.instance or the kernel itself
  const Runnable* runnable = nullptr;
};
class StepResolver {
 public:
  virtual ~StepResolver() = default;
  virtual StatusOr<ResolvedStep> resolve(int32_t node, std::span<const Arg> inputs, std::span<const Arg> outputs) = 0;
};

struct Program {
  std::vector<ProgramValue> values;
  std::vector<ProgramStep> steps;
  std::vector<int32_t> inputs, outputs;  // values of the graph's inputs and outputs, in order
  std::span<const Tensor> weights;       // by ProgramValue::index; the session's; aligned to their element size
  int64_t slab_bytes = 0;
  int32_t lanes = 1;
  int32_t notifications = 0;               // numbered from 0; each is signalled by one step
  std::vector<int32_t> lane_device;        // by lane: a place in ExecEnvironment::devices; -1 or no entry: the host
  std::vector<int64_t> device_slab_bytes;  // by device; a missing entry is 0
  StepResolver* resolver = nullptr;        // null if no step is dynamic
  // An output that is a constant, an input, or another output again: filled by a copy (or shared object) after the
  // steps.
  struct CopyOut {
    int32_t output = 0;  // position in `outputs`
    int32_t from = 0;    // value
  };
  std::vector<CopyOut> copies;
  std::shared_ptr<const void> names;  // what the names of values and steps look into
};

// Gives the program for a set of inputs: from a bounded cache with an exact key (dtypes and dims of every input), or
// planned anew. Thread safe.
class ProgramSource {
 public:
  virtual ~ProgramSource() = default;
  virtual StatusOr<std::shared_ptr<const Program>> program_for(std::span<const Value> inputs) = 0;
  // Whether program_for(inputs) would give `program`, which came from here, once more; no look-up, no lock. False is
  // always right.
  virtual bool serves(const Program& /*program*/, std::span<const Value> /*inputs*/) const { return false; }
};

}  // namespace forethought
