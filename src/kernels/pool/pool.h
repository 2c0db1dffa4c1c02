// Maximum and average over sliding windows and over whole images, for plain and blocked channels.
#pragma once

#include <cstdint>

#include "base/cpu.h"
#include "base/half.h"
#include "kernels/conv/window.h"

namespace forethought::kernels {

// MaxPool of planes [begin, end) of a plain [planes, in...] tensor. NaN wins; a window that lies wholly in padding
// gives the lowest value (index 0 of its plane). `indices` (may be null) gets the flat position in the whole input,
// counted within a plane by rows, or by columns (first spatial dimension fastest) if `column_major`. T: float, double,
// Float16, BFloat16, int8_t, uint8_t.
template <typename T>
void max_pool_reference(const Window& window, const T* x, T* y, int64_t* indices, bool column_major, int64_t begin,
                        int64_t end);

// AveragePool of the same planes. The divisor counts the taps inside the image, or with `count_pad` those inside the
// image with its padding; no tap: zero. T: float, double, Float16, BFloat16 (summed in f32; double in f64).
template <typename T>
void average_pool_reference(const Window& window, const T* x, T* y, bool count_pad, int64_t begin, int64_t end);

enum class PoolKind : uint8_t { max, average, average_count_pad };

// The same in f32. `lanes` channels lie beside each other: 1 for plain planes, 8 or 16 for blocked ones (a plane is
// then a block of channels). Every ISA; scalar runs the plain code.
void pool_f32(Isa isa, PoolKind kind, const Window& window, int64_t lanes, const float* x, float* y, int64_t begin,
              int64_t end);

// Mean or maximum of each plane [begin, end) of [planes, spatial]. The mean of nothing is NaN, the maximum of nothing
// the lowest value. T: float, double, Float16, BFloat16 (summed in f32 pairwise; double in f64).
template <typename T>
void global_average_pool(const T* x, T* y, int64_t spatial, int64_t begin, int64_t end);
template <typename T>
void global_max_pool(const T* x, T* y, int64_t spatial, int64_t begin, int64_t end);
// In f32 with `lanes` channels beside each other (1, 8 or 16); y gets `lanes` values a plane.
void global_pool_f32(Isa isa, PoolKind kind, int64_t lanes, const float* x, float* y, int64_t spatial, int64_t begin,
                     int64_t end);

}  // namespace forethought::kernels
