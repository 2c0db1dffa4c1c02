// The float32 passes of softmax: exponentials with their sum, scaling, shifting; over one row or column by column.
#pragma once

#include <cstdint>

#include "base/cpu.h"

namespace forethought::kernels {

// Softmax of `rows` contiguous rows of n floats. in and out may be the same, here and below.
void rows_softmax(Isa isa, const float* in, float* out, int64_t rows, int64_t n);

// out[i] = e^(in[i] − shift); returns their sum. No in[i] is above shift. Results below the least normal float are zero
// in the SIMD tiers; NaN stays NaN.
double row_exp(Isa isa, const float* in, float* out, int64_t n, float shift);
void row_scale(Isa isa, const float* in, float* out, int64_t n, float factor);  // in[i] · factor
void row_subtract(Isa isa, const float* in, float* out, int64_t n, float first,
                  float second);  // (in[i] − first) − second

// The same for cols columns with values of their own; cols_exp adds to sum[c].
void cols_exp(Isa isa, const float* in, float* out, int64_t cols, const float* shift, float* sum);
void cols_scale(Isa isa, const float* in, float* out, int64_t cols, const float* factor);
void cols_subtract(Isa isa, const float* in, float* out, int64_t cols, const float* first, const float* second);

}  // namespace forethought::kernels
