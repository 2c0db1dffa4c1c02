// Improves a packing by small changes of the order in which items are placed.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/pack.h"
#include "plan/placer.h"

namespace forethought::planning {

struct SearchStart {
  std::vector<int32_t> order;
  Tops tops;
  int64_t height = 0;  // that it gives, or more than the best before it where that was not waited for
};

// Starts from the most promising of `starts` and changes `best` where it finds a lower height. The random state is
// fixed and the work is counted, so that the result is the same everywhere; it ends at the lower bound.
void search(const PackProblem& problem, Placer& placer, std::vector<SearchStart> starts, Packing& best);

}  // namespace forethought::planning
