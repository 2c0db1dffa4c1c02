// Convolution and transposed convolution, N-D, in plain code: y[n, m, o] = bias[m] + sum w[m, c, k] x[n, c, o·s + k·d -
// p].
#pragma once

#include <cstdint>

#include "base/half.h"
#include "kernels/conv/window.h"

namespace forethought::kernels {

// Writes the planes [begin, end) of the batch × out_channels output planes. `bias` may be null. Sums are in f32, and in
// f64 for double. T: float, double, Float16, BFloat16.
template <typename T>
void conv_reference(const ConvShape& shape, const T* x, const T* w, const T* bias, T* y, int64_t begin, int64_t end);

// The same for the transposed convolution; weights are [in_channels, out_channels / groups, kernel...].
template <typename T>
void conv_transpose_reference(const ConvShape& shape, const T* x, const T* w, const T* bias, T* y, int64_t begin,
                              int64_t end);

}  // namespace forethought::kernels
