// Convolutions on blocked channels whose extents are free at every call: one piece of code serves every shape.
#pragma once

#include <cstdint>

#include "base/cpu.h"
#include "kernels/gemm/epilogue.h"

namespace forethought::kernels {

// The geometry of one image in 2 dimensions. Output (r, c) of tap (i, j) reads the input at row
// r * row_stride + i * row_dilation - pad_top and the column alike; what lies outside is zero.
struct BlockedConv {
  int64_t rows_in = 0, cols_in = 0, rows_out = 0, cols_out = 0;
  int64_t kernel_rows = 1, kernel_cols = 1, row_stride = 1, col_stride = 1, row_dilation = 1, col_dilation = 1;
  int64_t pad_top = 0, pad_left = 0;
};

// avx2 and avx512, columns in steps of 1 or 2, activations that have vector code.
bool serves_blocked_conv(Isa isa, int64_t col_stride, Activation activation);

// Blocks of B channels: B is 16 for avx512 and 8 for avx2. src: [in_blocks, rows_in, cols_in, B]; w: OIhw{B}i{B}o, from
// the first output block on; bias: B floats a block, null for zeros; dst: [out_blocks, rows_out, cols_out, B], which is
// added to before the activation where `accumulate` is set. A sum's order does not depend on how outputs are split.
void blocked_conv(Isa isa, const BlockedConv& shape, const float* src, int64_t in_blocks, const float* w,
                  const float* bias, float* dst, int64_t out_blocks, bool accumulate, const Epilogue& epilogue);
// Each channel by itself; w: Goihw{B}g, from the first block on.
void blocked_depthwise(Isa isa, const BlockedConv& shape, const float* src, const float* w, const float* bias,
                       float* dst, int64_t blocks, bool accumulate, const Epilogue& epilogue);

}  // namespace forethought::kernels
