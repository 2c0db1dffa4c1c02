// The float32 passes of the normalisations: plain code, and Highway's for AVX2 and AVX-512.
#include "kernels/norm/affine.h"

#include <cmath>

#include "kernels/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/norm/affine.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace forethought::kernels {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
constexpr D d;

// y[i] = f(x[i], load) for n elements, where load(p) gives p[i …] as a vector, masked for the last, partial one.
template <typename F>
HWY_INLINE void map(const float* x, float* y, int64_t n, const F& f) {
  const int64_t w = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + w <= n; i += w)
    hn::StoreU(f(hn::LoadU(d, x + i), [i](const float* p) { return hn::LoadU(d, p + i); }), d, y + i);
  if (i < n) {
    const auto m = hn::FirstN(d, static_cast<size_t>(n - i));
    hn::BlendedStore(f(hn::MaskedLoad(m, d, x + i), [i, m](const float* p) { return hn::MaskedLoad(m, d, p + i); }), m,
                     d, y + i);
  }
}

void row_affine_impl(const float* x, float* y, int64_t n, float mean, float factor, float bias) {
  const auto m = hn::Set(d, mean), f = hn::Set(d, factor), b = hn::Set(d, bias);
  map(x, y, n, [=](V v, auto) { return hn::MulAdd(hn::Sub(v, m), f, b); });
}

void cols_affine_impl(const float* x, float* y, int64_t rows, int64_t cols, const float* mean, const float* factor,
                      const float* bias) {
  if (cols == static_cast<int64_t>(hn::Lanes(d))) {
    const auto m = hn::LoadU(d, mean), f = hn::LoadU(d, factor), b = hn::LoadU(d, bias);
    map(x, y, rows * cols, [=](V v, auto) { return hn::MulAdd(hn::Sub(v, m), f, b); });
    return;
  }
  for (int64_t r = 0; r < rows; ++r)
    map(x + r * cols, y + r * cols, cols,
        [=](V v, auto load) { return hn::MulAdd(hn::Sub(v, load(mean)), load(factor), load(bias)); });
}

void row_norm_factor_impl(const float* scale, const float* var, float* factor, int64_t n, float epsilon) {
  const auto e = hn::Set(d, epsilon);
  map(var, factor, n, [=](V v, auto load) { return hn::Div(load(scale), hn::Sqrt(hn::Add(v, e))); });
}

void row_add_squares_impl(const float* x, float* acc, int64_t n) {
  map(x, acc, n, [=](V v, auto load) { return hn::MulAdd(v, v, load(acc)); });
}

// beta 0.75, 0.5 or 1: powers that square roots give.
void row_divide_root_impl(const float* x, const float* acc, float* y, int64_t n, float bias, float k, float beta) {
  const auto kv = hn::Set(d, k), b = hn::Set(d, bias);
  if (beta == 0.75f) {
    map(x, y, n, [=](V v, auto load) {
      const auto root = hn::Sqrt(hn::MulAdd(kv, load(acc), b));
      return hn::Div(v, hn::Mul(root, hn::Sqrt(root)));
    });
  } else if (beta == 0.5f) {
    map(x, y, n, [=](V v, auto load) { return hn::Div(v, hn::Sqrt(hn::MulAdd(kv, load(acc), b))); });
  } else {
    map(x, y, n, [=](V v, auto load) { return hn::Div(v, hn::MulAdd(kv, load(acc), b)); });
  }
}
#endif
}  // namespace HWY_NAMESPACE
}  // namespace forethought::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace forethought::kernels {

void row_affine(Isa isa, const float* x, float* y, int64_t n, float mean, float factor, float bias) {
  if (isa != Isa::scalar) return FT_SIMD(isa, row_affine_impl)(x, y, n, mean, factor, bias);
  for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * factor + bias;
}

void cols_affine(Isa isa, const float* x, float* y, int64_t rows, int64_t cols, const float* mean, const float* factor,
                 const float* bias) {
  if (isa != Isa::scalar) return FT_SIMD(isa, cols_affine_impl)(x, y, rows, cols, mean, factor, bias);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c) y[r * cols + c] = (x[r * cols + c] - mean[c]) * factor[c] + bias[c];
}

void row_norm_factor(Isa isa, const float* scale, const float* var, float* factor, int64_t n, float epsilon) {
  if (isa != Isa::scalar) return FT_SIMD(isa, row_norm_factor_impl)(scale, var, factor, n, epsilon);
  for (int64_t i = 0; i < n; ++i) factor[i] = scale[i] / std::sqrt(var[i] + epsilon);
}

void row_add_squares(Isa isa, const float* x, float* acc, int64_t n) {
  if (isa != Isa::scalar) return FT_SIMD(isa, row_add_squares_impl)(x, acc, n);
  for (int64_t i = 0; i < n; ++i) acc[i] += x[i] * x[i];
}

void row_divide_power(Isa isa, const float* x, const float* acc, float* y, int64_t n, float bias, float k, float beta) {
  if (isa != Isa::scalar && (beta == 0.75f || beta == 0.5f || beta == 1.0f))
    return FT_SIMD(isa, row_divide_root_impl)(x, acc, y, n, bias, k, beta);
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] / std::pow(bias + k * acc[i], beta);
}

}  // namespace forethought::kernels
#endif
