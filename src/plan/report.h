// A plan as text for people and as JSON for programs: what lives where, for how long, with whom, and why.
#pragma once

#include <string>
#include <vector>

#include "plan/plan.h"
#include "plan/problem.h"

namespace forethought {

// What a report covers: everything, or what belongs to one value or one step.
struct ReportScope {
  ValueNo value = kNoId;
  StepNo step = kNoId;
};

// Buffers that are in no plan: those of the side arena, and of outputs whose size only the run tells.
struct Unplanned {
  std::vector<ValueNo> values;     // one a buffer
  int64_t most_bytes = 0;          // what those with a known size or bound take at most, all together
  std::vector<ValueNo> unbounded;  // those without one
};
Unplanned unplanned(const PlanProblem& problem, const Plan& plan);

std::string to_text(const PlanProblem& problem, const Plan& plan, ReportScope scope = {});
// "live": bytes of the slab in use at each step. "most_bytes" of a value whose size only the run tells: its bound, or
// null. "unplanned": as above. "sharers" of a value: those whose lives begin nearest; all of them in
// a report of one value or step. "sharer_count": how many there are.
std::string to_json(const PlanProblem& problem, const Plan& plan, ReportScope scope = {});

// Bytes of the host's or a device's slab that are live at each step, rounded as the plan rounds; the most of them is
// its lower bound.
std::vector<int64_t> live_bytes(const PlanProblem& problem, const Plan& plan, int32_t device = kNoId);

}  // namespace forethought
