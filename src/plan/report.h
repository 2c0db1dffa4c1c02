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

std::string to_text(const PlanProblem& problem, const Plan& plan, ReportScope scope = {});
std::string to_json(const PlanProblem& problem, const Plan& plan, ReportScope scope = {});

// The values that use bytes of `value` at any time, by id; without `value` itself.
std::vector<ValueNo> sharers(const Plan& plan, ValueNo value);

}  // namespace forethought
