// The taps of a window that fall inside the image, along one dimension.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/conv/window.h"

namespace forethought::kernels {

// Taps [begin, end) of output position o along dimension d read inside [-before, in + after).
struct Taps {
  int64_t begin, end;
  int64_t count() const { return end > begin ? end - begin : 0; }
};
inline Taps taps_within(const Window& w, int d, int64_t o, int64_t before, int64_t after) {
  const int64_t start = o * w.strides[d] - w.pads_begin[d], step = w.dilations[d];
  const int64_t low = -before - start, high = w.in[d] + after - start;
  const int64_t begin = low <= 0 ? 0 : (low + step - 1) / step;
  const int64_t end = high <= 0 ? 0 : (high + step - 1) / step;
  return {std::min(begin, w.kernel[d]), std::min(end, w.kernel[d])};
}
inline Taps taps_inside(const Window& w, int d, int64_t o) { return taps_within(w, d, o, 0, 0); }
// What an average divides by along one dimension.
inline int64_t divisor(const Window& w, int d, int64_t o, bool count_pad) {
  return count_pad ? taps_within(w, d, o, w.pads_begin[d], w.pads_end[d]).count() : taps_inside(w, d, o).count();
}

// Advances `index` through [begin, end) of each dimension but the last `skip`, last fastest; false at the end.
template <typename Bounds>
bool advance(WindowDims& index, const Bounds& bounds, int skip) {
  for (int d = static_cast<int>(index.size()) - 1 - skip; d >= 0; --d) {
    if (++index[d] < bounds[d].end) return true;
    index[d] = bounds[d].begin;
  }
  return false;
}

}  // namespace forethought::kernels
