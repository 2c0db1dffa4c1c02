// float16 and bfloat16 spans to float32 and back, for kernels that compute tile by tile.
#pragma once

#include <cstdint>

#include "base/cpu.h"
#include "base/half.h"

namespace forethought::kernels {

// Elements of the float tiles that kernels keep on the stack while they work through half-precision rows.
constexpr int64_t kHalfTile = 512;

void widen(Isa isa, const Float16* in, float* out, int64_t n);
void widen(Isa isa, const BFloat16* in, float* out, int64_t n);
// Rounds to nearest even; NaN stays NaN.
void narrow(Isa isa, const float* in, Float16* out, int64_t n);
void narrow(Isa isa, const float* in, BFloat16* out, int64_t n);

}  // namespace forethought::kernels
