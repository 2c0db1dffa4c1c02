// The float32 passes of softmax: exponentials with their sum, scaling, shifting; over one row or column by column.
#pragma once

#include <cstdint>

#include "base/cpu.h"

namespace forethought::kernels {

// out[i] = e^(in[i] − shift); returns their sum. in and out may be the same. NaN stays NaN.
double row_exp(Isa isa, const float* in, float* out, int64_t n, float shift);
void row_scale(Isa isa, const float* in, float* out, int64_t n, float factor);  // in[i] · factor
void row_subtract(Isa isa, const float* in, float* out, int64_t n, float first,
                  float second);  // (in[i] − first) − second

// The same for cols columns with values of their own; cols_exp adds to sum[c].
void cols_exp(Isa isa, const float* in, float* out, int64_t cols, const float* shift, float* sum);
void cols_scale(Isa isa, const float* in, float* out, int64_t cols, const float* factor);
void cols_subtract(Isa isa, const float* in, float* out, int64_t cols, const float* first, const float* second);

}  // namespace forethought::kernels
