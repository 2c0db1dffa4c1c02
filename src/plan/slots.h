// Slot sharing, the usual way to plan memory: each item takes a whole slot, one tenant after another.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/pack.h"

namespace forethought::planning {

// What a dead slot may do that is too small for a new tenant: stay as it is (the tenant gets a slot of its own), or
// grow to the tenant's size.
enum class SlotSize { fixed, grows };

// Items in order of their births (`by_birth`) each take the smallest dead slot that is large enough; where none is,
// with SlotSize::grows, the largest dead one; else a new slot. Slots lie one after the other. Gives up when they are as
// high as `limit`.
Packing share_slots(const PackProblem& problem, const std::vector<int32_t>& by_birth, SlotSize size, int64_t limit);

// One item after the other, nothing shared.
Packing stack(const PackProblem& problem);

}  // namespace forethought::planning
