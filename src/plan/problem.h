// What the planner is asked: values with sizes and roles, and steps in lanes that read and write them. Plain data.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/container/inlined_vector.h"

namespace forethought {

using ValueNo = int32_t;  // index into PlanProblem::values
using StepNo = int32_t;   // index into PlanProblem::steps
constexpr int32_t kNoId = -1;
constexpr int64_t kUnknownSize = -1;  // a size that only the run tells

// weight, input and output: owned outside the slab. `PlanValue::index` numbers inputs and outputs, each once; of
// weights it is the caller's own matter. execution: an intermediate. scratch: bytes a kernel wants during one step (a
// child plan's slab is one too). data_dependent: a tensor with a counted buffer of its own: its size is unknown until
// run, or it escapes into an object. object: a string tensor, sequence, optional or map: no bytes for the planner.
enum class Role : uint8_t { weight, input, output, execution, scratch, data_dependent, object };

struct PlanValue {
  std::string_view name;              // for reports only; not owned
  int64_t bytes = 0;                  // or kUnknownSize
  int64_t most_bytes = kUnknownSize;  // of an unknown size: what it is at most; kUnknownSize: no bound is known
  uint32_t alignment = 64;  // of its address while its bytes are its own; a power of two. Within another's bytes a
                            // value lies where the facts of its step say
  Role role = Role::execution;
  int32_t index = kNoId;   // which input or output of the graph, or the caller's number of a weight
  int32_t device = kNoId;  // in whose memory it lies: 0..devices-1; kNoId: the host's
};

// What the planner sees of a value, its size apart.
inline bool same_but_for_bytes(const PlanValue& a, const PlanValue& b) {
  return a.role == b.role && a.index == b.index && a.device == b.device && a.alignment == b.alignment;
}

// Output `out` is a view of input `in`, `byte_offset` bytes into it: no bytes move if the plan honours this, else the
// step copies.
struct AliasFact {
  ValueNo out = kNoId, in = kNoId;
  int64_t byte_offset = 0;
};
// The kernel may write `out` over `in`: element i of the output depends on no element of the input that is read later.
struct OverwriteFact {
  ValueNo out = kNoId, in = kNoId;
};
// Input `in` may be born inside output `out` at `byte_offset`; the kernel then leaves that input alone.
struct WindowFact {
  ValueNo in = kNoId, out = kNoId;
  int64_t byte_offset = 0;
};

// Short lists, mostly: one plan has thousands of them.
using ValueNos = absl::InlinedVector<ValueNo, 4>;
using Notifications = absl::InlinedVector<int32_t, 4>;
using WindowFacts = absl::InlinedVector<WindowFact, 1>;

struct PlanStep {
  std::string_view name;  // for reports only; not owned
  ValueNos reads;         // once for each time the step reads it
  ValueNos writes;        // outputs and scratch; each value is written by one step
  absl::InlinedVector<AliasFact, 1> aliases;
  absl::InlinedVector<OverwriteFact, 2> may_overwrite;  // in order of preference
  WindowFacts windows;                                  // ascending in byte_offset
  int32_t lane = 0;
  Notifications waits;    // notifications that must have been signalled before the step starts
  Notifications signals;  // notifications that the step gives when it has finished; each by one step
};

struct PlanProblem {
  std::vector<PlanValue> values;
  std::vector<PlanStep> steps;  // an order in which one thread could run them all
  int32_t devices = 0;          // beside the host; each has a slab of its own
  int32_t lanes = 1;            // steps of one lane run in the order of the list
  uint32_t granule = 64;        // slab offsets and sizes are multiples of this power of two
  // Of the host's slab, then of those of devices: bytes of the regions that it is made of where it is larger than one,
  // so that no value may straddle a multiple of them. A multiple of all alignments and of the granule; 0, or no entry:
  // a slab is one region, however large.
  std::vector<int64_t> region_bytes;
  uint64_t version = 0;  // equal ones, but 0: the same problem, sizes of values, lanes and waits apart
};

inline int64_t region_of(const PlanProblem& p, int32_t device) {
  const auto slab = static_cast<size_t>(device + 1);
  return slab < p.region_bytes.size() ? p.region_bytes[slab] : 0;
}

}  // namespace forethought
