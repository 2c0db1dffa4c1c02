// Folds over float32 spans that reductions, normalisations, softmax and argmax share.
#pragma once

#include <cstdint>

#include "base/cpu.h"

namespace forethought::kernels {

// Sums are taken in double, so that their error does not grow with n. NaN anywhere gives NaN, also from max and min.
double row_sum(Isa isa, const float* p, int64_t n);
double row_square_deviation(Isa isa, const float* p, int64_t n, double mean);  // Σ (p[i] − mean)²
float row_max(Isa isa, const float* p, int64_t n, float start);                // max(start, p[0], …)
float row_min(Isa isa, const float* p, int64_t n, float start);

// The same over `rows` rows that lie `stride` elements apart, column by column, into acc[0 … cols).
void cols_sum(Isa isa, const float* p, int64_t stride, int64_t rows, int64_t cols, double* acc);
void cols_max(Isa isa, const float* p, int64_t stride, int64_t rows, int64_t cols, float* acc);
void cols_min(Isa isa, const float* p, int64_t stride, int64_t rows, int64_t cols, float* acc);

}  // namespace forethought::kernels
