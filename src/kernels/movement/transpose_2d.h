// Transpose of a matrix of fixed-width elements: out[c][r] = in[r][c].
#pragma once

#include <cstdint>

#include "base/cpu.h"
#include "kernels/movement/element.h"

namespace forethought::kernels {

// `in` is rows × cols, rows `in_stride` elements apart; `out` is cols × rows, rows `out_stride` apart. They do not
// overlap. Not for strings. Any alignment.
void transpose_2d(Isa isa, Element element, const void* in, int64_t in_stride, void* out, int64_t out_stride,
                  int64_t rows, int64_t cols);

}  // namespace forethought::kernels
