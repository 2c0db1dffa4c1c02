// Convolution and transposed convolution, N-D, one row of outputs at a time.
#include "kernels/conv/reference.h"

#include <algorithm>
#include <type_traits>

namespace forethought::kernels {
namespace {

template <typename T>
using Sum = std::conditional_t<std::is_same_v<T, double>, double, float>;

constexpr int64_t kTile = 128;

// Walks the index space of all dimensions but the last; `flat` counts from 0.
void unflatten(int64_t flat, const WindowDims& dims, WindowDims& index) {
  for (int d = static_cast<int>(dims.size()) - 2; d >= 0; --d) {
    index[d] = flat % dims[d];
    flat /= dims[d];
  }
}

int64_t outer_volume(const WindowDims& dims) {
  int64_t v = 1;
  for (size_t d = 0; d + 1 < dims.size(); ++d) v *= dims[d];
  return v;
}

// The row of the input (an index over all dimensions but the last) that output row `o` reads through tap `k`, or -1.
int64_t forward_row(const Window& w, const WindowDims& o, const WindowDims& k) {
  int64_t row = 0;
  for (int d = 0; d + 1 < w.rank(); ++d) {
    const int64_t i = o[d] * w.strides[d] + k[d] * w.dilations[d] - w.pads_begin[d];
    if (i < 0 || i >= w.in[d]) return -1;
    row = row * w.in[d] + i;
  }
  return row;
}

int64_t transposed_row(const Window& w, const WindowDims& o, const WindowDims& k) {
  int64_t row = 0;
  for (int d = 0; d + 1 < w.rank(); ++d) {
    const int64_t t = o[d] + w.pads_begin[d] - k[d] * w.dilations[d];
    if (t < 0 || t % w.strides[d] != 0 || t / w.strides[d] >= w.in[d]) return -1;
    row = row * w.in[d] + t / w.strides[d];
  }
  return row;
}

// acc[o - x0] += w * x[o * stride + offset] for the o of [x0, x1) that read inside the row.
template <typename T>
void add_row(const T* x, int64_t in, Sum<T> w, int64_t stride, int64_t offset, int64_t x0, int64_t x1, Sum<T>* acc) {
  Span1 r = valid_outputs(in, x1, stride, offset);
  r.begin = std::max(r.begin, x0);
  if (stride == 1) {
    for (int64_t o = r.begin; o < r.end; ++o) acc[o - x0] += w * static_cast<Sum<T>>(x[o + offset]);
  } else {
    for (int64_t o = r.begin; o < r.end; ++o) acc[o - x0] += w * static_cast<Sum<T>>(x[o * stride + offset]);
  }
}

// acc[i * stride + offset - x0] += w * x[i] for the i whose target is in [x0, x1).
template <typename T>
void add_row_transposed(const T* x, int64_t in, Sum<T> w, int64_t stride, int64_t offset, int64_t x0, int64_t x1,
                        Sum<T>* acc) {
  const Span1 r = valid_outputs(x1 - x0, in, stride, offset - x0);
  for (int64_t i = r.begin; i < r.end; ++i) acc[i * stride + offset - x0] += w * static_cast<Sum<T>>(x[i]);
}

template <typename T, bool kTransposed>
void run_planes(const ConvShape& s, const T* x, const T* w, const T* bias, T* y, int64_t begin, int64_t end) {
  const Window& win = s.window;
  const int last = win.rank() - 1;
  const int64_t in_volume = volume(win.in), out_volume = volume(win.out), taps = volume(win.kernel);
  const int64_t group_in = s.in_channels / s.groups, group_out = s.out_channels / s.groups;
  const int64_t rows = outer_volume(win.out), outer_taps = outer_volume(win.kernel), inner_taps = win.kernel[last];
  const int64_t width = win.out[last], stride = win.strides[last], dilation = win.dilations[last];
  WindowDims o(win.rank(), 0), k(win.rank(), 0);
  Sum<T> acc[kTile];
  for (int64_t plane = begin; plane < end; ++plane) {
    const int64_t n = plane / s.out_channels, m = plane % s.out_channels, g = m / group_out;
    const Sum<T> start = bias ? static_cast<Sum<T>>(bias[m]) : Sum<T>(0);
    for (int64_t row = 0; row < rows; ++row) {
      unflatten(row, win.out, o);
      for (int64_t x0 = 0; x0 < width; x0 += kTile) {
        const int64_t x1 = std::min(width, x0 + kTile);
        std::fill(acc, acc + (x1 - x0), start);
        for (int64_t t = 0; t < outer_taps; ++t) {
          unflatten(t, win.kernel, k);
          const int64_t in_row = kTransposed ? transposed_row(win, o, k) : forward_row(win, o, k);
          if (in_row < 0) continue;
          for (int64_t c = 0; c < group_in; ++c) {
            const int64_t channel = g * group_in + c;
            const T* xr = x + (n * s.in_channels + channel) * in_volume + in_row * win.in[last];
            const int64_t filter = kTransposed ? channel * group_out + m % group_out : m * group_in + c;
            const T* wr = w + filter * taps + t * inner_taps;
            for (int64_t kx = 0; kx < inner_taps; ++kx) {
              const int64_t offset = kx * dilation - win.pads_begin[last];
              const Sum<T> weight = static_cast<Sum<T>>(wr[kx]);
              if constexpr (kTransposed) {
                add_row_transposed<T>(xr, win.in[last], weight, stride, offset, x0, x1, acc);
              } else {
                add_row<T>(xr, win.in[last], weight, stride, offset, x0, x1, acc);
              }
            }
          }
        }
        T* yr = y + plane * out_volume + row * width;
        for (int64_t i = x0; i < x1; ++i) yr[i] = static_cast<T>(acc[i - x0]);
      }
    }
  }
}

}  // namespace

template <typename T>
void conv_reference(const ConvShape& s, const T* x, const T* w, const T* bias, T* y, int64_t begin, int64_t end) {
  run_planes<T, false>(s, x, w, bias, y, begin, end);
}

template <typename T>
void conv_transpose_reference(const ConvShape& s, const T* x, const T* w, const T* bias, T* y, int64_t begin,
                              int64_t end) {
  run_planes<T, true>(s, x, w, bias, y, begin, end);
}

#define INSTANTIATE(T)                                                                                   \
  template void conv_reference<T>(const ConvShape&, const T*, const T*, const T*, T*, int64_t, int64_t); \
  template void conv_transpose_reference<T>(const ConvShape&, const T*, const T*, const T*, T*, int64_t, int64_t);
INSTANTIATE(float)
INSTANTIATE(double)
INSTANTIATE(Float16)
INSTANTIATE(BFloat16)
#undef INSTANTIATE

}  // namespace forethought::kernels
