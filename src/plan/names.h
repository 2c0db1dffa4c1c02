// How messages and reports name the values, steps and enumerators of a plan.
#pragma once

#include <string>

#include "plan/plan.h"

namespace forethought {

const char* name(Role role);
const char* name(ArenaKind arena);
const char* name(Place place);
std::string value_label(const PlanProblem& problem, ValueNo id);  // "%12 conv1_out"; any id is accepted
std::string step_label(const PlanProblem& problem, StepNo id);    // "#3 Conv"

}  // namespace forethought
