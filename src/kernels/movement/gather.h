// Gather along one axis: out[o, i, :] = in[o, indices[i], :].
#pragma once

#include <cstdint>
#include <span>

#include "kernels/movement/element.h"

namespace forethought::kernels {

// The position of the first index outside [-extent, extent), or -1 if all are inside. I is int32_t or int64_t; the
// indices may lie at any alignment.
template <typename I>
int64_t first_bad_index(const void* indices, int64_t count, int64_t extent);

struct GatherShape {
  int64_t outer = 1;   // product of the dims before the axis
  int64_t extent = 1;  // of the axis
  int64_t inner = 1;   // elements of one slice: product of the dims after the axis
  int64_t count = 0;   // indices

  int64_t units() const { return outer * count; }  // one unit is one slice of the output
  int64_t grain(Element e) const;                  // units worth a block
};

// Writes the output slices [begin, end) (numbered over outer, then indices). All indices have been checked with
// first_bad_index; negative ones count from the end.
template <typename I>
void gather(Element element, const GatherShape& shape, const void* in, const void* indices, void* out, int64_t begin,
            int64_t end);

}  // namespace forethought::kernels
