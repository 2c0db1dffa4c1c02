// The geometry of sliding windows (convolution and pooling) over any number of spatial dimensions.
#pragma once

#include <cstdint>

#include "absl/container/inlined_vector.h"

namespace forethought::kernels {

using WindowDims = absl::InlinedVector<int64_t, 3>;

// One entry per spatial dimension in each list. Output position o of tap k reads input o * stride + k * dilation - pad;
// a transposed convolution swaps the two. pads_end matters where it changes `out` or what counts as padding.
struct Window {
  WindowDims in, out, kernel, strides, dilations, pads_begin, pads_end;
  int rank() const { return static_cast<int>(in.size()); }
};

inline int64_t volume(const WindowDims& dims) {
  int64_t v = 1;
  for (int64_t d : dims) v *= d;
  return v;
}

// The convolution of [batch, in_channels, in...] with [out_channels, in_channels / groups, kernel...], or the
// transposed one with [in_channels, out_channels / groups, kernel...].
struct ConvShape {
  int64_t batch = 0, in_channels = 0, out_channels = 0, groups = 1;
  Window window;
};

// The half-open range of o in [0, out) for which 0 <= o * stride + offset < in.
struct Span1 {
  int64_t begin, end;
};
inline Span1 valid_outputs(int64_t in, int64_t out, int64_t stride, int64_t offset) {
  const int64_t begin = offset >= 0 ? 0 : (-offset + stride - 1) / stride;
  const int64_t end = in - offset <= 0 ? 0 : (in - offset + stride - 1) / stride;
  return {begin < out ? begin : out, end < out ? (end > begin ? end : (begin < out ? begin : out)) : out};
}

}  // namespace forethought::kernels
