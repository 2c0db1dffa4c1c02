// The float32 passes of softmax: plain code, and Highway's for AVX2 and AVX-512.
#include "kernels/softmax/exp_rows.h"

#include <cmath>

#include "kernels/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/softmax/exp_rows.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace forethought::kernels {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using DI = hn::RebindToSigned<D>;
using V = hn::Vec<D>;
constexpr D d;
constexpr DI di;

// e^x = 2^n · e^r with n = round(x / ln 2) and |r| ≤ ln 2 / 2, where the Taylor polynomial of degree 7 is off by at
// most r⁸/8! < 6e-9. ln 2 is split in two so that n · ln 2 is exact in its first part. The power of two is applied in
// two halves, which lets results run down to the smallest subnormal and up to the largest float.
HWY_INLINE V exp_of(V x) {
  const auto low = hn::Set(d, -105.0f), high = hn::Set(d, 89.0f);
  const auto clamped = hn::IfThenElse(hn::Lt(x, low), low, hn::IfThenElse(hn::Gt(x, high), high, x));  // keeps NaN
  const auto n = hn::NearestInt(hn::Mul(clamped, hn::Set(d, 1.44269504088896341f)));
  const auto nf = hn::ConvertTo(d, n);
  auto r = hn::NegMulAdd(nf, hn::Set(d, 0.693359375f), clamped);
  r = hn::NegMulAdd(nf, hn::Set(d, -2.12194440e-4f), r);
  auto p = hn::MulAdd(r, hn::Set(d, 1.0f / 5040), hn::Set(d, 1.0f / 720));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f / 120));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f / 24));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f / 6));
  p = hn::MulAdd(p, r, hn::Set(d, 0.5f));
  p = hn::MulAdd(hn::Mul(r, r), p, hn::Add(r, hn::Set(d, 1.0f)));
  const auto half = hn::ShiftRight<1>(n);
  const auto bias = hn::Set(di, 127);
  const auto a = hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(half, bias)));
  const auto b = hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(hn::Sub(n, half), bias)));
  return hn::Mul(hn::Mul(p, a), b);
}

// Applies f(i, x) to every vector of in and stores what it returns; the last, partial one goes through a mask.
template <typename F>
HWY_INLINE void map(const float* in, float* out, int64_t n, const F& f) {
  const int64_t w = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + w <= n; i += w) hn::StoreU(f(i, hn::LoadU(d, in + i), false), d, out + i);
  if (i < n) {
    const auto m = hn::FirstN(d, static_cast<size_t>(n - i));
    hn::BlendedStore(f(i, hn::MaskedLoad(m, d, in + i), true), m, d, out + i);
  }
}
// p[i …] as a vector, of which only the first n − i lanes are read if `partial`.
HWY_INLINE V load(const float* p, int64_t i, int64_t n, bool partial) {
  return partial ? hn::MaskedLoad(hn::FirstN(d, static_cast<size_t>(n - i)), d, p + i) : hn::LoadU(d, p + i);
}

double row_exp_impl(const float* in, float* out, int64_t n, float shift) {
  const int64_t w = static_cast<int64_t>(hn::Lanes(d));
  const auto s = hn::Set(d, shift);
  constexpr int64_t kBlock = 1024;  // floats that are summed in float before the sum goes on in double
  double total = 0;
  for (int64_t i = 0; i < n;) {
    const int64_t stop = i + kBlock < n ? i + kBlock : n;
    auto sum = hn::Zero(d);
    for (; i + w <= stop; i += w) {
      const auto e = exp_of(hn::Sub(hn::LoadU(d, in + i), s));
      sum = hn::Add(sum, e);
      hn::StoreU(e, d, out + i);
    }
    if (i < stop) {
      const auto m = hn::FirstN(d, static_cast<size_t>(stop - i));
      const auto e = exp_of(hn::Sub(hn::MaskedLoad(m, d, in + i), s));
      sum = hn::Add(sum, hn::IfThenElseZero(m, e));
      hn::BlendedStore(e, m, d, out + i);
      i = stop;
    }
    total += hn::GetLane(hn::SumOfLanes(d, sum));
  }
  return total;
}

void row_scale_impl(const float* in, float* out, int64_t n, float factor) {
  const auto k = hn::Set(d, factor);
  map(in, out, n, [k](int64_t, V x, bool) { return hn::Mul(x, k); });
}

void row_subtract_impl(const float* in, float* out, int64_t n, float first, float second) {
  const auto a = hn::Set(d, first), b = hn::Set(d, second);
  map(in, out, n, [a, b](int64_t, V x, bool) { return hn::Sub(hn::Sub(x, a), b); });
}

void cols_exp_impl(const float* in, float* out, int64_t cols, const float* shift, float* sum) {
  map(in, out, cols, [=](int64_t i, V x, bool partial) {
    const auto e = exp_of(hn::Sub(x, load(shift, i, cols, partial)));
    const auto s = hn::Add(load(sum, i, cols, partial), e);
    if (partial) {
      hn::BlendedStore(s, hn::FirstN(d, static_cast<size_t>(cols - i)), d, sum + i);
    } else {
      hn::StoreU(s, d, sum + i);
    }
    return e;
  });
}

void cols_scale_impl(const float* in, float* out, int64_t cols, const float* factor) {
  map(in, out, cols, [=](int64_t i, V x, bool partial) { return hn::Mul(x, load(factor, i, cols, partial)); });
}

void cols_subtract_impl(const float* in, float* out, int64_t cols, const float* first, const float* second) {
  map(in, out, cols, [=](int64_t i, V x, bool partial) {
    return hn::Sub(hn::Sub(x, load(first, i, cols, partial)), load(second, i, cols, partial));
  });
}
#endif
}  // namespace HWY_NAMESPACE
}  // namespace forethought::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace forethought::kernels {

double row_exp(Isa isa, const float* in, float* out, int64_t n, float shift) {
  if (isa != Isa::scalar) return FT_SIMD(isa, row_exp_impl)(in, out, n, shift);
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += out[i] = std::exp(in[i] - shift);
  return sum;
}

void row_scale(Isa isa, const float* in, float* out, int64_t n, float factor) {
  if (isa != Isa::scalar) return FT_SIMD(isa, row_scale_impl)(in, out, n, factor);
  for (int64_t i = 0; i < n; ++i) out[i] = in[i] * factor;
}

void row_subtract(Isa isa, const float* in, float* out, int64_t n, float first, float second) {
  if (isa != Isa::scalar) return FT_SIMD(isa, row_subtract_impl)(in, out, n, first, second);
  for (int64_t i = 0; i < n; ++i) out[i] = (in[i] - first) - second;
}

void cols_exp(Isa isa, const float* in, float* out, int64_t cols, const float* shift, float* sum) {
  if (isa != Isa::scalar) return FT_SIMD(isa, cols_exp_impl)(in, out, cols, shift, sum);
  for (int64_t c = 0; c < cols; ++c) sum[c] += out[c] = std::exp(in[c] - shift[c]);
}

void cols_scale(Isa isa, const float* in, float* out, int64_t cols, const float* factor) {
  if (isa != Isa::scalar) return FT_SIMD(isa, cols_scale_impl)(in, out, cols, factor);
  for (int64_t c = 0; c < cols; ++c) out[c] = in[c] * factor[c];
}

void cols_subtract(Isa isa, const float* in, float* out, int64_t cols, const float* first, const float* second) {
  if (isa != Isa::scalar) return FT_SIMD(isa, cols_subtract_impl)(in, out, cols, first, second);
  for (int64_t c = 0; c < cols; ++c) out[c] = (in[c] - first[c]) - second[c];
}

}  // namespace forethought::kernels
#endif
