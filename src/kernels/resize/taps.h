// The two inner loops of separable resampling: along the row that is read, and across rows.
#pragma once

#include <cstdint>

#include "base/cpu.h"

namespace forethought::kernels {

// out[i] = Σ_k weight[k · stride + i] · row[clamp(start[i] + k, 0, in - 1) - first], 0 <= i < n. `row` begins at input
// element `first`, and holds all that is read.
template <typename C>
void resample_row(Isa isa, const C* row, int64_t first, int64_t in, const int32_t* start, const C* weight,
                  int64_t stride, int taps, C* out, int64_t n);

// out[i] += w · in[i], or out[i] = w · in[i] if `begin`.
template <typename C>
void add_row(Isa isa, bool begin, C w, const C* in, C* out, int64_t n);

// out[i] = w0 · a[i] + w1 · b[i].
void blend_rows(Isa isa, float w0, const float* a, float w1, const float* b, float* out, int64_t n);

}  // namespace forethought::kernels
