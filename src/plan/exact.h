// Decides whether items fit into a given number of bytes: a complete depth-first search over packings pushed down.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/pack.h"

namespace forethought::planning {

// found: `offsets` hold a packing of at most the capacity. impossible: there is none. gave_up: the work ran out, or
// the problem is not one for this search (more than one lane, over kMostExactItems items).
enum class Verdict { found, impossible, gave_up };

struct ExactAnswer {
  Verdict verdict = Verdict::gave_up;
  std::vector<int64_t> offsets;  // only if found
  int64_t work = 0;              // that was done, in the units of Placer::work()
};

constexpr size_t kMostExactItems = 1000;

// Deterministic: the work is counted, not timed. Memory is bounded by the problem and the work.
ExactAnswer pack_exactly(const PackProblem& problem, int64_t capacity, int64_t most_work);

}  // namespace forethought::planning
