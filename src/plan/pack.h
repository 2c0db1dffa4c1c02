// Packs items with sizes and lifetimes into one arena: several orders, then a search, stopping at the lower bound.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/planner.h"

namespace forethought::planning {

// A storage to be packed. Sizes are multiples of the granule and positive.
struct PackItem {
  int64_t size = 0;
  int32_t first = 0, last = 0;  // steps, both inclusive
  uint32_t alignment = 1;
};

struct PackProblem {
  std::vector<PackItem> items;
  int lanes = 1;
  // With more than one lane, items x lanes: the last step of the lane that touches the item, and the last step of the
  // lane that is over before any step touches it. Two items may share bytes iff one is over before the other begins;
  // items whose steps meet never may.
  std::vector<int32_t> last_on, known;
  int64_t lower_bound = 0;  // packing stops when it is reached
  int64_t region = 0;       // no item may straddle a multiple of it; 0: any may. No item is larger

  bool over_before(int a, int b) const {  // item a is over before item b begins
    if (lanes == 1) return items[a].last < items[b].first;
    for (int l = 0; l < lanes; ++l) {
      if (last_on[size_t(a) * lanes + l] > known[size_t(b) * lanes + l]) return false;
    }
    return true;
  }
  bool conflict(int a, int b) const { return !over_before(a, b) && !over_before(b, a); }
};

struct Packing {
  std::vector<int64_t> offsets;
  int64_t height = 0;
  int32_t slots = 0;  // that share it all, with Effort::slots
};

// All items by their births, then by their numbers.
std::vector<int32_t> in_order_of_birth(const PackProblem& problem);

// With Effort::slots what share_slots() makes with slots that grow, with Effort::off all on top of each other; else
// never higher than largest-first, best-fit in order of birth, or slot sharing.
Packing pack(const PackProblem& problem, Effort effort);

}  // namespace forethought::planning
