// How many bytes live at each step: what bounds every packing from below.
#pragma once

#include <cstdint>
#include <vector>

#include "base/checked.h"
#include "plan/plan.h"
#include "plan/problem.h"

namespace forethought::planning {

// A storage of a slab: alive from step `first` to step `last`, both inclusive.
struct Live {
  StepNo first, last;
  int64_t bytes;    // that its values need
  int64_t rounded;  // that it takes in the slab
};

// Sums what is live at each step of the list; the heaviest step gives the bound, and how much of it is rounding.
inline void find_bound(size_t steps, const std::vector<Live>& storages, SlabFigures& figures) {
  std::vector<int64_t> live(steps + 1), rounding(steps + 1);
  for (const Live& s : storages) {
    const int64_t extra = s.rounded - s.bytes;
    live[s.first] += s.rounded, live[s.last + 1] -= s.rounded;
    rounding[s.first] += extra, rounding[s.last + 1] -= extra;
  }
  int64_t bytes = 0, extra = 0;
  for (size_t s = 0; s < steps; ++s) {
    bytes += live[s], extra += rounding[s];
    if (bytes > figures.lower_bound) figures.lower_bound = bytes, figures.padding = extra;
  }
}

// Bytes with one buffer for each value of a device that is not kept outside the slab. `touched(v)`: a step reads or
// writes it.
template <typename Touched>
int64_t naive_bytes(const PlanProblem& p, int32_t device, Touched&& touched) {
  int64_t sum = 0;
  for (size_t v = 0; v < p.values.size(); ++v) {
    const PlanValue& value = p.values[v];
    const bool in_slab = value.role == Role::execution || value.role == Role::scratch;
    if (!in_slab || value.bytes == kUnknownSize || value.device != device || !touched(v)) continue;
    sum += static_cast<int64_t>(round_up(static_cast<size_t>(value.bytes), p.granule));
  }
  return sum;
}

}  // namespace forethought::planning
