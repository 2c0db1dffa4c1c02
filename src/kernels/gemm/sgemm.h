// C = A·B in f32 with Highway: B in panels of consecutive columns, A read in place, sizes free at every call.
#pragma once

#include <cstdint>

#include "base/cpu.h"
#include "base/half.h"
#include "kernels/gemm/epilogue.h"
#include "kernels/gemm/reference.h"

namespace forethought::kernels {

// Columns of one panel of B: two vectors.
constexpr int64_t sgemm_panel(Isa isa) { return isa == Isa::avx512 ? 32 : 16; }
constexpr int64_t sgemm_panels(Isa isa, int64_t n) { return (n + sgemm_panel(isa) - 1) / sgemm_panel(isa); }
// Rows of the register tile: blocks of rows that are multiples of it waste nothing.
constexpr int64_t sgemm_rows(Isa isa) { return isa == Isa::avx512 ? 12 : 6; }

// Floats of packed panels of a [k, n] matrix.
constexpr int64_t sgemm_packed_size(Isa isa, int64_t k, int64_t n) {
  return sgemm_panels(isa, n) * sgemm_panel(isa) * k;
}

// Packs panels [begin, end) of the [k, n] matrix to where each belongs under `packed`; columns beyond n are zero. Any
// alignment.
template <typename T>
void sgemm_pack(Isa isa, Matrix<T> b, int64_t k, int64_t n, float* packed, int64_t begin, int64_t end);

// B as sgemm reads it. Packed panels: data from sgemm_pack. In place: a row-major matrix of row stride `stride`, of
// which only whole panels may be asked for.
struct SgemmB {
  const float* data;
  int64_t panel_step;  // floats from one panel to the next
  int64_t k_step;      // floats from one row of a panel to the next
};
constexpr SgemmB sgemm_packed(Isa isa, const float* packed, int64_t k) {
  return {packed, sgemm_panel(isa) * k, sgemm_panel(isa)};
}
constexpr SgemmB sgemm_in_place(Isa isa, const float* b, int64_t row_stride) {
  return {b, sgemm_panel(isa), row_stride};
}

// Writes rows [row_begin, row_end) of panels [panel_begin, panel_end) of C (row stride c_stride): C = A·B, plus what C
// holds if `accumulate`. k = 0 gives zeros (or leaves C). Isa::scalar is not served: gemm_reference is its kernel.
void sgemm(Isa isa, Matrix<float> a, SgemmB b, int64_t n, int64_t k, float* c, int64_t c_stride, int64_t row_begin,
           int64_t row_end, int64_t panel_begin, int64_t panel_end, bool accumulate);

// c = activation(alpha * c + beta * addend). Element (i, j) of the addend is at data[i * row_stride + j * col_stride]
// (strides of 0 broadcast); null: none.
struct Finish {
  float alpha = 1, beta = 1;
  Matrix<float> addend{nullptr, 0, 0};
  Epilogue epilogue;
  bool changes_anything() const {
    return alpha != 1 || addend.data != nullptr || epilogue.activation != Activation::none;
  }
};
// On rows [row_begin, row_end) and columns [col_begin, col_end) of C. Every ISA.
void sgemm_finish(Isa isa, const Finish& finish, float* c, int64_t c_stride, int64_t row_begin, int64_t row_end,
                  int64_t col_begin, int64_t col_end);

}  // namespace forethought::kernels
