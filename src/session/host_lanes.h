// Which lanes of the host steps run on: parallel branches side by side, where that is expected to be faster.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plan/problem.h"

namespace forethought {

// What a step is expected to take, in nanoseconds. A step whose shapes only the run tells has no estimate.
struct StepCost {
  double alone = 0;  // on one thread
  double split = 0;  // on all threads of the pool
  bool known = true;
};

// What decides how much an operator computes.
enum class Work : uint8_t { convolution, product, other };
Work work_of(std::string_view op_type);

// Multiplications and additions of an operator with these first two inputs: convolutions and products by their sums,
// anything else by a few for each element that it makes.
double flops_of(Work work, std::span<const int64_t> first, std::span<const int64_t> second, int64_t elements);
// An estimate from counts alone: of `flops`, and of bytes read and written.
StepCost step_cost(double flops, double bytes, int workers);

struct HostLanes {
  int32_t lanes = 1;
  std::vector<int32_t> lane;  // by step; of steps of devices 0
  double one_ns = 0, ns = 0;  // expected of a run in one lane, and in these
  std::string reason;         // for people: why so many
};

// `wanted`: 0 takes as many as the model expects to be faster by more than it may err, up to one for each worker; else
// that many, if the graph has work for them. Steps stay in the order of the list within each lane. A step goes where it
// can end first, what its own predecessors on other lanes cost to wait for included: so the critical path stays on one
// lane. Pure and deterministic.
HostLanes choose_host_lanes(const PlanProblem& problem, std::span<const StepCost> costs,
                            std::span<const int32_t> step_device, int wanted, int workers);

}  // namespace forethought
