// ONNX BatchNormalization, InstanceNormalization and LRN on contiguous tensors.
#include "kernels/norm/norm.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "base/status.h"
#include "kernels/convert/half_tile.h"
#include "kernels/norm/affine.h"
#include "kernels/reduce/rows.h"

namespace forethought::kernels {
namespace {

template <typename T>
constexpr bool kIsHalf = std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>;
template <typename T>
using Compute = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <typename T>
double as_double(T v) {
  if constexpr (kIsHalf<T>)
    return static_cast<float>(v);
  else
    return static_cast<double>(v);
}
double element(DType dtype, const void* p, int64_t i) {
  double v = 0;
  FT_CHECK(dispatch(dtype, FloatTypes{}, [&]<typename T>() { v = as_double(static_cast<const T*>(p)[i]); }));
  return v;
}

// Calls f(at, m) for stretches of at most kHalfTile elements of n.
template <typename F>
void tiles(int64_t n, const F& f) {
  for (int64_t i = 0; i < n; i += kHalfTile) f(i, std::min(kHalfTile, n - i));
}

template <typename T>
double sum(Isa isa, const T* x, int64_t n) {
  double total = 0;
  if constexpr (std::is_same_v<T, float>) {
    total = row_sum(isa, x, n);
  } else if constexpr (kIsHalf<T>) {
    float tile[kHalfTile];
    tiles(n, [&](int64_t i, int64_t m) {
      widen(isa, x + i, tile, m);
      total += row_sum(isa, tile, m);
    });
  } else {
    for (int64_t i = 0; i < n; ++i) total += x[i];
  }
  return total;
}

template <typename T>
double square_deviation(Isa isa, const T* x, int64_t n, double mean) {
  double total = 0;
  if constexpr (std::is_same_v<T, float>) {
    total = row_square_deviation(isa, x, n, mean);
  } else if constexpr (kIsHalf<T>) {
    float tile[kHalfTile];
    tiles(n, [&](int64_t i, int64_t m) {
      widen(isa, x + i, tile, m);
      total += row_square_deviation(isa, tile, m, mean);
    });
  } else {
    for (int64_t i = 0; i < n; ++i) total += (x[i] - mean) * (x[i] - mean);
  }
  return total;
}

template <typename T, typename C = Compute<T>>
void affine_row(Isa isa, const T* x, T* y, int64_t n, C mean, C factor, C bias) {
  if constexpr (std::is_same_v<T, float>) {
    row_affine(isa, x, y, n, mean, factor, bias);
  } else if constexpr (kIsHalf<T>) {
    float tile[kHalfTile];
    tiles(n, [&](int64_t i, int64_t m) {
      widen(isa, x + i, tile, m);
      row_affine(isa, tile, tile, m, mean, factor, bias);
      narrow(isa, tile, y + i, m);
    });
  } else {
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * factor + bias;
  }
}

template <typename T, typename C = Compute<T>>
void affine_cols(Isa isa, const T* x, T* y, int64_t rows, int64_t cols, const C* mean, const C* factor, const C* bias) {
  if constexpr (std::is_same_v<T, float>) {
    cols_affine(isa, x, y, rows, cols, mean, factor, bias);
  } else if constexpr (kIsHalf<T>) {
    float tile[kHalfTile];
    for (int64_t r = 0; r < rows; ++r)
      tiles(cols, [&](int64_t i, int64_t m) {
        widen(isa, x + r * cols + i, tile, m);
        cols_affine(isa, tile, tile, 1, m, mean + i, factor + i, bias + i);
        narrow(isa, tile, y + r * cols + i, m);
      });
  } else {
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < cols; ++c) y[r * cols + c] = (x[r * cols + c] - mean[c]) * factor[c] + bias[c];
  }
}

template <typename C>
void fill_params(int64_t channels, int64_t padded, double epsilon, DType scale_type, const void* scale,
                 const void* bias, DType mean_type, const void* mean, const void* var, C* params) {
  std::fill_n(params, 3 * padded, C{0});
  for (int64_t c = 0; c < channels; ++c) {
    params[c] = static_cast<C>(element(mean_type, mean, c));
    params[padded + c] =
        static_cast<C>(element(scale_type, scale, c) / std::sqrt(element(mean_type, var, c) + epsilon));
    params[2 * padded + c] = static_cast<C>(element(scale_type, bias, c));
  }
}

template <typename T>
void lrn_rows(Isa isa, const Lrn& p, int64_t channels, int64_t inner, const T* x, T* y, int64_t begin, int64_t end) {
  using C = Compute<T>;
  const int64_t below = (p.size - 1) / 2, above = p.size - 1 - below;
  const C k = static_cast<C>(p.alpha) / static_cast<C>(p.size);
  C squares[kHalfTile];
  float tile[kHalfTile];
  for (int64_t row = begin; row < end; ++row) {
    const int64_t c = row % channels;
    const int64_t first = row - std::min(c, below), last = row + std::min(channels - 1 - c, above);
    tiles(inner, [&](int64_t i, int64_t m) {
      std::fill_n(squares, m, C{0});
      const T* here = x + row * inner + i;
      for (int64_t r = first; r <= last; ++r) {
        const T* v = x + r * inner + i;
        if constexpr (std::is_same_v<T, float>) {
          row_add_squares(isa, v, squares, m);
        } else if constexpr (kIsHalf<T>) {
          widen(isa, v, tile, m);
          row_add_squares(isa, tile, squares, m);
        } else {
          for (int64_t j = 0; j < m; ++j) squares[j] += v[j] * v[j];
        }
      }
      T* to = y + row * inner + i;
      if constexpr (std::is_same_v<T, float>) {
        row_divide_power(isa, here, squares, to, m, p.bias, k, p.beta);
      } else if constexpr (kIsHalf<T>) {
        widen(isa, here, tile, m);
        row_divide_power(isa, tile, squares, tile, m, p.bias, k, p.beta);
        narrow(isa, tile, to, m);
      } else {
        for (int64_t j = 0; j < m; ++j)
          to[j] = here[j] / std::pow(static_cast<double>(p.bias) + k * squares[j], static_cast<double>(p.beta));
      }
    });
  }
}

}  // namespace

size_t batch_norm_params_bytes(DType x, int64_t padded) {
  return 3 * static_cast<size_t>(padded) * (x == DType::kDouble ? sizeof(double) : sizeof(float));
}

void batch_norm_params(Isa isa, DType x, int64_t channels, int64_t padded, double epsilon, DType scale_type,
                       const void* scale, const void* bias, DType mean_type, const void* mean, const void* var,
                       void* params) {
  if (x == DType::kDouble) {
    fill_params(channels, padded, epsilon, scale_type, scale, bias, mean_type, mean, var, static_cast<double*>(params));
    return;
  }
  float* p = static_cast<float*>(params);
  if (scale_type != DType::kFloat || mean_type != DType::kFloat) {
    fill_params(channels, padded, epsilon, scale_type, scale, bias, mean_type, mean, var, p);
    return;
  }
  std::fill_n(p, 3 * padded, 0.0f);
  std::copy_n(static_cast<const float*>(mean), channels, p);
  row_norm_factor(isa, static_cast<const float*>(scale), static_cast<const float*>(var), p + padded, channels,
                  static_cast<float>(epsilon));
  std::copy_n(static_cast<const float*>(bias), channels, p + 2 * padded);
}

void batch_norm(Isa isa, DType dtype, const ChannelRows& shape, const void* params, const void* x, void* y,
                int64_t begin, int64_t end) {
  const bool done = dispatch(dtype, FloatTypes{}, [&]<typename T>() {
    const auto* mean = static_cast<const Compute<T>*>(params);
    const auto *factor = mean + shape.channels, *bias = factor + shape.channels;
    const int64_t size = shape.inner * shape.block, groups = shape.channels / shape.block;
    for (int64_t r = begin; r < end; ++r) {
      const T* from = static_cast<const T*>(x) + r * size;
      T* to = static_cast<T*>(y) + r * size;
      const int64_t c = r % groups * shape.block;
      if (shape.block == 1) {
        affine_row(isa, from, to, size, mean[c], factor[c], bias[c]);
      } else {
        affine_cols(isa, from, to, shape.inner, shape.block, mean + c, factor + c, bias + c);
      }
    }
  });
  FT_CHECK(done);
}

Moments channel_moments(Isa isa, DType dtype, const void* x, int64_t batch, int64_t channels, int64_t inner,
                        int64_t c) {
  Moments m{0, 0};
  const bool done = dispatch(dtype, FloatTypes{}, [&]<typename T>() {
    const double count = static_cast<double>(batch) * static_cast<double>(inner);
    const auto row = [&](int64_t n) { return static_cast<const T*>(x) + (n * channels + c) * inner; };
    for (int64_t n = 0; n < batch; ++n) m.mean += sum(isa, row(n), inner);
    m.mean /= count;
    for (int64_t n = 0; n < batch; ++n) m.variance += square_deviation(isa, row(n), inner, m.mean);
    m.variance /= count;
  });
  FT_CHECK(done);
  return m;
}

void instance_norm(Isa isa, DType dtype, int64_t channels, int64_t inner, double epsilon, const void* scale,
                   const void* bias, const void* x, void* y, int64_t begin, int64_t end) {
  const bool done = dispatch(dtype, FloatTypes{}, [&]<typename T>() {
    using C = Compute<T>;
    for (int64_t r = begin; r < end; ++r) {
      const int64_t c = r % channels;
      const Moments m = channel_moments(isa, dtype, x, 1, 1, inner, r);
      const double factor = as_double(static_cast<const T*>(scale)[c]) / std::sqrt(m.variance + epsilon);
      affine_row(isa, static_cast<const T*>(x) + r * inner, static_cast<T*>(y) + r * inner, inner,
                 static_cast<C>(m.mean), static_cast<C>(factor),
                 static_cast<C>(as_double(static_cast<const T*>(bias)[c])));
    }
  });
  FT_CHECK(done);
}

void lrn(Isa isa, DType dtype, const Lrn& p, int64_t channels, int64_t inner, const void* x, void* y, int64_t begin,
         int64_t end) {
  FT_CHECK(dispatch(dtype, FloatTypes{}, [&]<typename T>() {
    lrn_rows(isa, p, channels, inner, static_cast<const T*>(x), static_cast<T*>(y), begin, end);
  }));
}

void lrn_blocked(Isa isa, const Lrn& p, int64_t channels, int64_t inner, int64_t block, const float* x, float* y,
                 int64_t begin, int64_t end) {
  const int64_t below = (p.size - 1) / 2, groups = (channels + block - 1) / block;
  const float k = p.alpha / static_cast<float>(p.size);
  float values[kHalfTile + kMaxBlockedLrn], squares[kHalfTile], results[kHalfTile];
  // Calls f(offset in the tensor, offset from `first`, count) for the pieces of channels [first, last) of a position.
  const auto pieces = [&](int64_t position, int64_t first, int64_t last, const auto& f) {
    const int64_t base = position / inner * groups * inner + position % inner;
    for (int64_t c = first; c < last;) {
      const int64_t stop = std::min((c / block + 1) * block, last);
      f((base + c / block * inner) * block + c % block, c - first, stop - c);
      c = stop;
    }
  };
  for (int64_t q = begin; q < end; ++q) {
    for (int64_t c = 0; c < channels; c += kHalfTile) {
      const int64_t m = std::min(kHalfTile, channels - c);
      // values[j] is channel c − below + j; channels that do not exist count as zero.
      const int64_t first = std::max<int64_t>(c - below, 0), last = std::min(c + m + p.size - 1 - below, channels);
      const int64_t lead = first - (c - below);
      std::fill_n(values, lead, 0.0f);
      std::fill(values + lead + (last - first), values + m + p.size - 1, 0.0f);
      pieces(q, first, last, [&](int64_t at, int64_t j, int64_t n) { std::copy_n(x + at, n, values + lead + j); });
      std::fill_n(squares, m, 0.0f);
      for (int64_t o = 0; o < p.size; ++o) row_add_squares(isa, values + o, squares, m);
      row_divide_power(isa, values + below, squares, results, m, p.bias, k, p.beta);
      pieces(q, c, c + m, [&](int64_t at, int64_t j, int64_t n) { std::copy_n(results + j, n, y + at); });
    }
    pieces(q, channels, groups * block, [&](int64_t at, int64_t, int64_t n) { std::fill_n(y + at, n, 0.0f); });
  }
}

}  // namespace forethought::kernels
