// Checks a problem and finds who writes each value, when it is first and last touched, and which steps are over by
// when.
#pragma once

#include <vector>

#include "base/status.h"
#include "plan/problem.h"

namespace forethought::planning {

constexpr int64_t kMostBytes = int64_t{1} << 60;  // of one problem, so that sums of rounded sizes cannot overflow

struct Analysis {
  int lanes = 1;
  std::vector<StepNo> producer;     // kNoId for weights, inputs and values that no step writes
  std::vector<StepNo> first, last;  // over reads and writes; kNoId if untouched
  std::vector<StepNo> clock;        // steps x lanes; empty with one lane

  // The last step of `lane` that is surely over when step `s` starts.
  StepNo known(StepNo s, int lane) const { return lanes == 1 ? s - 1 : clock[static_cast<size_t>(s) * lanes + lane]; }
};

StatusOr<Analysis> analyse(const PlanProblem& problem);

}  // namespace forethought::planning
