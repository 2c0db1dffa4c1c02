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
  int64_t height = 0;  // that it gives; where placing ended early, a little more than the best before it
};

// Starts from the most promising of `starts` and changes `best` where it finds a lower height. The random state is
// fixed and the work is counted, so that the result is the same everywhere; it ends at the lower bound or when
// placer.work() reaches `end_of_work`. The placer has_conflicts().
void search(const PackProblem& problem, Placer& placer, std::vector<SearchStart> starts, int64_t end_of_work,
            Packing& best);

}  // namespace forethought::planning
