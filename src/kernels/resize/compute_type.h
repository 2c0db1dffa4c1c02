// Elements of any numeric type as float or double and back, for kernels that compute tile by tile.
#pragma once

#include <cstdint>

#include "base/cpu.h"
#include "base/dtype.h"

namespace forethought::kernels {

// True for the types whose values float cannot hold: they are computed in double.
constexpr bool computes_in_double(DType t) {
  return t == DType::kDouble || t == DType::kInt32 || t == DType::kUint32 || t == DType::kInt64 || t == DType::kUint64;
}

// Elements [first, first + n) of `in` as C (float or double): `in` itself if it is of that type, else converted to
// `tile`.
template <typename C>
const C* load_as(Isa isa, DType dtype, const void* in, int64_t first, int64_t n, C* tile);

// Writes n values to the elements from `first` on. Integers are rounded to the nearest, ties to even, and saturated;
// NaN becomes 0.
template <typename C>
void store_as(Isa isa, DType dtype, const C* values, int64_t n, void* out, int64_t first);

}  // namespace forethought::kernels
