// The float32 passes of softmax: plain code, and Highway's for AVX2 and AVX-512.
#include "kernels/softmax/exp_rows.h"

#include <cmath>

#include "kernels/reduce/rows.h"
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

// e^x for x ≤ 0: 2^n · e^r with n = round(x / ln 2) and |r| ≤ ln 2 / 2, where 1 + r + r² q(r) with q of degree 4 (least
// greatest relative error) is off by 4e-9. ln 2 is split in two so that n · ln 2 is exact in its first part. Adding
// 1.5 · 2^23 rounds to an integer, which then stands in the low bits of the sum: with 127 more, the exponent of 2^n.
// Results below e^-87 are zero; NaN goes through the products.
HWY_INLINE V exp_of(V x) {
  const auto magic = hn::Set(d, 12582912.0f + 127.0f);
  const auto t = hn::MulAdd(x, hn::Set(d, 1.44269504088896341f), magic);
  const auto power = hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(di, t)));
  const auto n = hn::Sub(t, magic);
  auto r = hn::NegMulAdd(n, hn::Set(d, 0.693359375f), x);
  r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), r);
  auto q = hn::MulAdd(r, hn::Set(d, 0.0013814539415761828f), hn::Set(d, 0.00836874544620514f));
  q = hn::MulAdd(q, r, hn::Set(d, 0.04166838899254799f));
  q = hn::MulAdd(q, r, hn::Set(d, 0.1666652113199234f));
  q = hn::MulAdd(q, r, hn::Set(d, 0.4999999403953552f));
  const auto p = hn::MulAdd(hn::Mul(r, r), q, hn::Add(r, hn::Set(d, 1.0f)));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -87.0f)), hn::Mul(p, power));
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

constexpr int64_t kRegisters = 4;  // vectors of a row that stay in registers from the first pass to the last

// A row of at most kCount vectors, the last of them partial. A NaN reaches every result through the sum.
template <int kCount>
HWY_INLINE void short_row(const float* in, float* out, hn::Mask<D> last) {
  const int64_t w = static_cast<int64_t>(hn::Lanes(d));
  const auto lowest = hn::Neg(hn::Inf(d));
  V v[kCount];
  auto max = lowest;
  for (int i = 0; i < kCount; ++i) {
    v[i] =
        i + 1 < kCount ? hn::LoadU(d, in + i * w) : hn::IfThenElse(last, hn::MaskedLoad(last, d, in + i * w), lowest);
    max = hn::Max(max, v[i]);
  }
  max = hn::MaxOfLanes(d, max);
  auto sum = hn::Zero(d);
  for (int i = 0; i < kCount; ++i) {
    v[i] = exp_of(hn::Sub(v[i], max));
    sum = hn::Add(sum, i + 1 < kCount ? v[i] : hn::IfThenElseZero(last, v[i]));
  }
  const auto factor = hn::Div(hn::Set(d, 1.0f), hn::SumOfLanes(d, sum));
  for (int i = 0; i + 1 < kCount; ++i) hn::StoreU(hn::Mul(v[i], factor), d, out + i * w);
  hn::BlendedStore(hn::Mul(v[kCount - 1], factor), last, d, out + (kCount - 1) * w);
}

template <int kCount>
void short_rows(const float* in, float* out, int64_t rows, int64_t n) {
  const auto last = hn::FirstN(d, static_cast<size_t>(n - (kCount - 1) * static_cast<int64_t>(hn::Lanes(d))));
  for (int64_t r = 0; r < rows; ++r) short_row<kCount>(in + r * n, out + r * n, last);
}

HWY_INLINE float plain_max(const float* p, int64_t n) {
  const int64_t w = static_cast<int64_t>(hn::Lanes(d));
  auto a = hn::Neg(hn::Inf(d)), b = a, c = a, e = a;
  int64_t i = 0;
  for (; i + 4 * w <= n; i += 4 * w) {
    a = hn::Max(a, hn::LoadU(d, p + i));
    b = hn::Max(b, hn::LoadU(d, p + i + w));
    c = hn::Max(c, hn::LoadU(d, p + i + 2 * w));
    e = hn::Max(e, hn::LoadU(d, p + i + 3 * w));
  }
  for (; i + w <= n; i += w) a = hn::Max(a, hn::LoadU(d, p + i));
  if (i < n) b = hn::Max(b, hn::LoadU(d, p + n - w));  // the last vector may overlap: n > kRegisters · w
  return hn::GetLane(hn::MaxOfLanes(d, hn::Max(hn::Max(a, b), hn::Max(c, e))));
}

void rows_softmax_impl(const float* in, float* out, int64_t rows, int64_t n) {
  const int64_t vectors = (n + static_cast<int64_t>(hn::Lanes(d)) - 1) / static_cast<int64_t>(hn::Lanes(d));
  static_assert(kRegisters == 4);
  if (vectors == 1) return short_rows<1>(in, out, rows, n);
  if (vectors == 2) return short_rows<2>(in, out, rows, n);
  if (vectors == 3) return short_rows<3>(in, out, rows, n);
  if (vectors == 4) return short_rows<4>(in, out, rows, n);
  for (int64_t r = 0; r < rows; ++r) {
    const double sum = row_exp_impl(in + r * n, out + r * n, n, plain_max(in + r * n, n));
    const auto factor = hn::Set(d, static_cast<float>(1 / sum));
    map(out + r * n, out + r * n, n, [factor](int64_t, V x, bool) { return hn::Mul(x, factor); });
  }
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

void rows_softmax(Isa isa, const float* in, float* out, int64_t rows, int64_t n) {
  if (isa != Isa::scalar) return FT_SIMD(isa, rows_softmax_impl)(in, out, rows, n);
  for (int64_t r = 0; r < rows; ++r) {
    const double sum = row_exp(isa, in + r * n, out + r * n, n, row_max(isa, in + r * n, n, -HUGE_VALF));
    row_scale(isa, out + r * n, out + r * n, n, static_cast<float>(1 / sum));
  }
}

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
