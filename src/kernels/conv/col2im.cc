#include "kernels/conv/col2im.h"

#include <algorithm>

namespace forethought::kernels {

void col2im(const Window& w, const float* columns, float start, float* y) {
  std::fill(y, y + volume(w.out), start);
  const int last = w.rank() - 1;
  const int64_t in_volume = volume(w.in), taps = volume(w.kernel), width = w.in[last], stride = w.strides[last];
  const int64_t rows = width == 0 ? 0 : in_volume / width;
  for (int64_t t = 0; t < taps; ++t) {
    for (int64_t r = 0; r < rows; ++r) {
      // The output row that input row r reaches through tap t.
      int64_t row = 0, scale = 1, tap = t / w.kernel[last], in = r;
      bool inside = true;
      for (int d = last - 1; d >= 0; --d) {
        const int64_t o = in % w.in[d] * w.strides[d] + tap % w.kernel[d] * w.dilations[d] - w.pads_begin[d];
        inside &= o >= 0 && o < w.out[d];
        row += o * scale;
        scale *= w.out[d];
        tap /= w.kernel[d];
        in /= w.in[d];
      }
      if (!inside) continue;
      const int64_t offset = t % w.kernel[last] * w.dilations[last] - w.pads_begin[last];
      const Span1 valid = valid_outputs(w.out[last], width, stride, offset);
      const float* from = columns + t * in_volume + r * width;
      float* to = y + row * w.out[last] + offset;
      if (stride == 1) {
        for (int64_t i = valid.begin; i < valid.end; ++i) to[i] += from[i];
      } else {
        for (int64_t i = valid.begin; i < valid.end; ++i) to[i * stride] += from[i];
      }
    }
  }
}

}  // namespace forethought::kernels
