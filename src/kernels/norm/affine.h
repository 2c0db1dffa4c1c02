// The float32 passes of the normalisations: y = (x − mean) · factor + bias, and the powers of LRN.
#pragma once

#include <cstdint>

#include "base/cpu.h"

namespace forethought::kernels {

// y[i] = (x[i] − mean) · factor + bias. x and y may be the same, here and below.
void row_affine(Isa isa, const float* x, float* y, int64_t n, float mean, float factor, float bias);
// The same for `rows` contiguous rows of cols columns, each column with values of its own.
void cols_affine(Isa isa, const float* x, float* y, int64_t rows, int64_t cols, const float* mean, const float* factor,
                 const float* bias);
// factor[i] = scale[i] / √(var[i] + epsilon)
void row_norm_factor(Isa isa, const float* scale, const float* var, float* factor, int64_t n, float epsilon);
// acc[i] += x[i]²
void row_add_squares(Isa isa, const float* x, float* acc, int64_t n);
// y[i] = x[i] / (bias + k · acc[i])^beta
void row_divide_power(Isa isa, const float* x, const float* acc, float* y, int64_t n, float bias, float k, float beta);

}  // namespace forethought::kernels
