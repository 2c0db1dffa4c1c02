// GatherND and GatherElements: elements, or blocks of them, that lists of coordinates name.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/movement/element.h"

namespace forethought::kernels {

// Rows of `depth` int64 indices into the dims behind the batch dims; row i belongs to batch entry i / rows_per_batch.
struct PointShape {
  std::span<const int64_t> dims;  // those that are indexed, `depth` of them
  int64_t rows = 0, rows_per_batch = 1;
  int64_t batch_pitch = 0;  // elements from one batch entry of the data to the next
  int64_t inner = 1;        // elements of one block
};

// The position (in the list of all indices) of the first one outside [-dim, dim), or -1.
int64_t first_bad_point(const PointShape& shape, const int64_t* indices);
// Writes the blocks of rows [begin, end). All indices have been checked; negative ones count from the end.
void gather_points(Element element, const PointShape& shape, const void* in, const int64_t* indices, void* out,
                   int64_t begin, int64_t end);

// out[i, j, k] = in[i, index[i, j, k], k] for an axis in the middle; the dims of the indices beside the axis are no
// larger than those of the data, index for index.
struct ElementsShape {
  std::span<const int64_t> data, indices;  // dims of both
  int axis = 0;
};
// I is int32_t or int64_t; all indices have been checked (first_bad_index). Elements [begin, end) of the output.
template <typename I>
void gather_elements(Element element, const ElementsShape& shape, const void* in, const I* indices, void* out,
                     int64_t begin, int64_t end);

}  // namespace forethought::kernels
