// Slabs of several regions: places that straddle no multiple of a region's size, where one block cannot be had.
#pragma once

#include <cstdint>
#include <span>

#include "plan/live.h"
#include "plan/pack.h"

namespace forethought::planning {

// Whether an item lies in two regions.
bool straddles(int64_t offset, int64_t size, int64_t region);

// The lowest offset from `from` on that is aligned and where `size` bytes lie in one region (0: there are none). A
// region is a multiple of the alignment and no smaller than the size.
int64_t first_place(int64_t from, int64_t size, uint32_t alignment, int64_t region);

// Packs so that no item straddles a multiple of `problem.region`: each item, in a few orders, at the lowest place.
Packing pack_in_regions(const PackProblem& problem);

// What no slab in regions can be below: storages of more than half a region that live at one step have one each.
int64_t bound_in_regions(size_t steps, std::span<const Live> storages, int64_t region);

}  // namespace forethought::planning
