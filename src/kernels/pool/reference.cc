// Pooling over any number of spatial dimensions, in plain code.
#include <cmath>
#include <limits>
#include <type_traits>

#include "kernels/pool/pool.h"
#include "kernels/pool/taps.h"

namespace forethought::kernels {
namespace {

template <typename T>
using Wide = std::conditional_t<std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>, float, T>;

template <typename T>
bool is_nan(T v) {
  if constexpr (std::is_floating_point_v<T>) return std::isnan(v);
  return false;
}

// What the maximum of nothing is: the type's lowest finite value.
template <typename T>
T lowest() {
  if constexpr (std::is_same_v<T, Float16>) return Float16::from_bits(0xfbff);
  if constexpr (std::is_same_v<T, BFloat16>) return BFloat16::from_bits(0xff7f);
  return std::numeric_limits<T>::lowest();
}

// Calls f(input offset within the plane, spatial index of each tap) for every tap of output `o` inside the image, in
// row-major order.
template <typename F>
void for_each_tap(const Window& w, const WindowDims& o, absl::InlinedVector<Taps, 3>& taps, WindowDims& k, F&& f) {
  for (int d = 0; d < w.rank(); ++d) {
    taps[d] = taps_inside(w, d, o[d]);
    if (taps[d].count() == 0) return;
    k[d] = taps[d].begin;
  }
  do {
    int64_t at = 0;
    for (int d = 0; d < w.rank(); ++d)
      at = at * w.in[d] + o[d] * w.strides[d] + k[d] * w.dilations[d] - w.pads_begin[d];
    f(at);
  } while (advance(k, taps, 0));
}

int64_t column_major_position(const Window& w, int64_t at) {
  int64_t result = 0;
  int64_t stride = volume(w.in);
  for (int d = w.rank() - 1; d >= 0; --d) {
    stride /= w.in[d];
    result += at % w.in[d] * stride;
    at /= w.in[d];
  }
  return result;
}

template <typename F>
void for_each_output(const Window& w, F&& f) {
  WindowDims o(w.rank(), 0);
  const int64_t n = volume(w.out);
  for (int64_t i = 0; i < n; ++i) {
    f(i, o);
    for (int d = w.rank() - 1; d >= 0; --d) {
      if (++o[d] < w.out[d]) break;
      o[d] = 0;
    }
  }
}

}  // namespace

template <typename T>
void max_pool_reference(const Window& w, const T* x, T* y, int64_t* indices, bool column_major, int64_t begin,
                        int64_t end) {
  const int64_t in = volume(w.in), out = volume(w.out);
  absl::InlinedVector<Taps, 3> taps(w.rank());
  WindowDims k(w.rank(), 0);
  for (int64_t p = begin; p < end; ++p) {
    for_each_output(w, [&](int64_t i, const WindowDims& o) {
      int64_t best = -1;
      Wide<T> value{};
      for_each_tap(w, o, taps, k, [&](int64_t at) {
        const Wide<T> v = static_cast<Wide<T>>(x[p * in + at]);
        if (best < 0 || v > value || (is_nan(v) && !is_nan(value))) best = at, value = v;
      });
      y[p * out + i] = best < 0 ? lowest<T>() : x[p * in + best];
      if (indices) {
        const int64_t at = best < 0 ? 0 : best;
        indices[p * out + i] = p * in + (column_major ? column_major_position(w, at) : at);
      }
    });
  }
}

template <typename T>
void average_pool_reference(const Window& w, const T* x, T* y, bool count_pad, int64_t begin, int64_t end) {
  const int64_t in = volume(w.in), out = volume(w.out);
  absl::InlinedVector<Taps, 3> taps(w.rank());
  WindowDims k(w.rank(), 0);
  for (int64_t p = begin; p < end; ++p) {
    for_each_output(w, [&](int64_t i, const WindowDims& o) {
      Wide<T> sum = 0;
      int64_t count = 1;
      for (int d = 0; d < w.rank(); ++d) count *= divisor(w, d, o[d], count_pad);
      for_each_tap(w, o, taps, k, [&](int64_t at) { sum += static_cast<Wide<T>>(x[p * in + at]); });
      y[p * out + i] = count == 0 ? T(0.0f) : static_cast<T>(sum / static_cast<Wide<T>>(count));
    });
  }
}

template <typename T>
void global_average_pool(const T* x, T* y, int64_t spatial, int64_t begin, int64_t end) {
  // Sums of runs of 128, then of the runs: the error grows with the number of runs only.
  constexpr int64_t kRun = 128;
  for (int64_t p = begin; p < end; ++p) {
    const T* row = x + p * spatial;
    Wide<T> sum = 0;
    for (int64_t r = 0; r < spatial; r += kRun) {
      Wide<T> run = 0;
      for (int64_t i = r; i < std::min(spatial, r + kRun); ++i) run += static_cast<Wide<T>>(row[i]);
      sum += run;
    }
    y[p] =
        static_cast<T>(spatial == 0 ? std::numeric_limits<Wide<T>>::quiet_NaN() : sum / static_cast<Wide<T>>(spatial));
  }
}

template <typename T>
void global_max_pool(const T* x, T* y, int64_t spatial, int64_t begin, int64_t end) {
  for (int64_t p = begin; p < end; ++p) {
    const T* row = x + p * spatial;
    int64_t best = 0;
    for (int64_t i = 1; i < spatial; ++i) {
      const Wide<T> v = static_cast<Wide<T>>(row[i]), m = static_cast<Wide<T>>(row[best]);
      if (v > m || (is_nan(v) && !is_nan(m))) best = i;
    }
    y[p] = spatial == 0 ? lowest<T>() : row[best];
  }
}

#define INSTANTIATE(T) \
  template void max_pool_reference<T>(const Window&, const T*, T*, int64_t*, bool, int64_t, int64_t);
INSTANTIATE(float)
INSTANTIATE(double)
INSTANTIATE(Float16)
INSTANTIATE(BFloat16)
INSTANTIATE(int8_t)
INSTANTIATE(uint8_t)
#undef INSTANTIATE
#define INSTANTIATE(T)                                                                          \
  template void average_pool_reference<T>(const Window&, const T*, T*, bool, int64_t, int64_t); \
  template void global_average_pool<T>(const T*, T*, int64_t, int64_t, int64_t);                \
  template void global_max_pool<T>(const T*, T*, int64_t, int64_t, int64_t);
INSTANTIATE(float)
INSTANTIATE(double)
INSTANTIATE(Float16)
INSTANTIATE(BFloat16)
#undef INSTANTIATE

}  // namespace forethought::kernels
