// Improves a packing by small changes of the order in which items are placed.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/pack.h"
#include "plan/placer.h"

namespace forethought::planning {

// Starts from each of `starts` and changes `best` where it finds a lower height. The random state is fixed and the work
// is counted, so that the result is the same everywhere; it ends at the lower bound.
void search(const PackProblem& problem, Placer& placer, const std::vector<std::vector<int32_t>>& starts, Packing& best);

}  // namespace forethought::planning
