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
  bool known = false;  // dims are known now
  DType dtype = DType::kUndefined;
  ValueType::Kind kind = ValueType::Kind::unknown;
  Layout layout;
  int32_t device = -1;            // of the slab: a place in ExecEnvironment::devices; -1: the host
  int32_t index = 0;              // which weight, input or output
  int32_t root = -1;              // value whose side buffer or output this one is a view of; -1: none
  int64_t offset = 0;             // in its base; of a view: in its root
  std::span<const int64_t> dims;  // Program::dims owns them
  // Of a strided view, as Operand::strides (what runs its step owns them, of an input Program::dims); empty: row-major.
  // `bytes` then reaches from the lowest element to the end of the highest, and the first element lies `first` bytes
  // behind the lowest.
  std::span<const int64_t> strides;
  int64_t first = 0;
  int64_t bytes = 0;
  std::string_view name;  // Program::graph owns it

  bool is_object() const { return kind != ValueType::Kind::tensor || dtype == DType::kString; }
};

// A T on the heap, made when it is first written to, and copied with its owner. Until then it reads like T().
template <typename T>
class Rare {
 public:
  Rare() = default;
  Rare(const Rare& other) : made_(other.made_ ? std::make_unique<T>(*other.made_) : nullptr) {}
  Rare(Rare&&) noexcept = default;
  Rare& operator=(Rare other) noexcept {
    made_ = std::move(other.made_);
    return *this;
  }
  const T* operator->() const {
    static const T none;
    return made_ ? made_.get() : &none;
  }
  T& write() {
    if (!made_) made_ = std::make_unique<T>();
    return *made_;
  }

 private:
  std::unique_ptr<T> made_;
};

// What few steps have.
struct StepExtras {
  struct Body {
    ProgramSource* source = nullptr;  // owned by the session
    int64_t slab_offset = -1;         // where its planned slab lies in this slab; -1: from the side arena
    int64_t slab_bytes = 0;
  };
  std::vector<Body> bodies;            // of control flow
  std::vector<int32_t> release_after;  // side values and objects whose last use is this step
  // Notifications; in the list of steps each is signalled before a step waits.
  absl::InlinedVector<int32_t, 4> waits, signals;
  // Whole pages of mapped files, where weights are streamed: what the step reads of them, what the next step that reads
  // some wants beyond that, and what the step is the last for the time being to read.
  using PageRanges = std::vector<std::span<const std::byte>>;
  PageRanges reads, ahead, drops;
};

struct ProgramStep {
  const Runnable* runnable = nullptr;                  // null: a dynamic step, resolved when it runs
  std::shared_ptr<const Runnable> keep;                // owns `runnable` if it is an instance
  std::span<const int32_t> inputs, outputs;            // indices of values; -1: absent. Program::graph owns them
  std::span<const std::span<const std::byte>> packed;  // one an input; the session's
  int64_t scratch_offset = 0;                          // in the slab of the lane's device
  size_t scratch_shared = 0, scratch_per_worker = 0;   // each rounded to 64
  uint32_t sized_at_run = 0;                           // bit per output
  uint32_t escapes = 0;                                // bit per input
  int32_t lane = 0;
  int32_t node = -1;      // for the resolver and for reports
  std::string_view name;  // "/layer1/conv (Conv)"; Program::graph owns it
  Rare<StepExtras> extras;
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
  int64_t region_bytes = 0;  // of the regions of the slab, none of whose values straddles two; 0: it is one
  // Of streamed weights, bodies included: the most bytes that a step reads, and the most that it and the next one that
  // reads some do. A run takes one of the two from the budget.
  int64_t window = 0, window_ahead = 0;
  int32_t lanes = 1;
  int32_t notifications = 0;                 // numbered from 0; each is signalled by one step
  std::vector<int32_t> lane_device;          // by lane: a place in ExecEnvironment::devices; -1 or no entry: the host
  std::vector<int64_t> device_slab_bytes;    // by device; a missing entry is 0
  std::vector<int64_t> device_region_bytes;  // the same of region_bytes
  StepResolver* resolver = nullptr;          // null if no step is dynamic
  // An output that is a constant, an input, or another output again: filled by a copy (or shared object) after the
  // steps.
  struct CopyOut {
    int32_t output = 0;  // position in `outputs`
    int32_t from = 0;    // value
  };
  std::vector<CopyOut> copies;
  // What values and steps look into: names and lists of operands, the same for all sizes of a graph, and dims.
  std::shared_ptr<const void> graph, dims;
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
