// The fewest waits that order every read of a value behind its write, for steps whose lanes are chosen.
#pragma once

#include <cstdint>

#include "plan/problem.h"

namespace forethought {

struct WaitCounts {
  int32_t edges = 0;          // pairs of steps in two lanes, one of which reads what the other writes
  int32_t waits = 0;          // that are left; the rest follows from these and from the order within lanes
  int32_t notifications = 0;  // numbered from 0; one for each step that anybody waits for
  bool operator==(const WaitCounts&) const = default;
};

// Sets waits and signals of all steps anew: of the edges, those that no other path implies (the transitive reduction).
// Lanes are in range, and every value is written before it is read in the order of the list.
WaitCounts add_waits(PlanProblem& problem);

}  // namespace forethought
