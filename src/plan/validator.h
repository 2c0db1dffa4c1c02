// Says whether a plan is safe for its problem, from the definition alone: it shares no code with the planner.
#pragma once

#include "base/status.h"
#include "plan/plan.h"
#include "plan/problem.h"

namespace forethought {

// Ok, or what is wrong first, its message beginning with one of: missing, unknown id, undersized, misaligned, out of
// arena, overlap, view outlives owner, in-place hazard, cross-lane hazard, read before write, wrong facts.
// A plan is safe if each step, in every order that lanes and notifications allow, finds in the bytes of each value that
// it reads what was last written there for that value, and if no step writes into inputs or weights. O(n^2).
Status validate(const PlanProblem& problem, const Plan& plan);

}  // namespace forethought
