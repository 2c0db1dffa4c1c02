// Folds over float32 spans: plain code, and Highway's for AVX2 and AVX-512.
#include "kernels/reduce/rows.h"

#include "kernels/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/reduce/rows.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace forethought::kernels {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using DD = hn::ScalableTag<double>;
using DH = hn::Rebind<float, DD>;  // as many floats as a vector has doubles
constexpr D d;
constexpr DD dd;
constexpr DH dh;

HWY_INLINE hn::Vec<DD> load_double(const float* p) { return hn::PromoteTo(dd, hn::LoadU(dh, p)); }

// Folds n elements through four double vectors; `term` maps a vector of doubles, `plain` one double.
template <typename Term, typename Plain>
HWY_INLINE double sum_of(const float* p, int64_t n, const Term& term, const Plain& plain) {
  const int64_t w = static_cast<int64_t>(hn::Lanes(dd));
  auto a = hn::Zero(dd), b = hn::Zero(dd), c = hn::Zero(dd), e = hn::Zero(dd);
  int64_t i = 0;
  for (; i + 4 * w <= n; i += 4 * w) {
    a = hn::Add(a, term(load_double(p + i)));
    b = hn::Add(b, term(load_double(p + i + w)));
    c = hn::Add(c, term(load_double(p + i + 2 * w)));
    e = hn::Add(e, term(load_double(p + i + 3 * w)));
  }
  for (; i + w <= n; i += w) a = hn::Add(a, term(load_double(p + i)));
  double total = hn::GetLane(hn::SumOfLanes(dd, hn::Add(hn::Add(a, b), hn::Add(c, e))));
  for (; i < n; ++i) total += plain(static_cast<double>(p[i]));
  return total;
}

double row_sum_impl(const float* p, int64_t n) {
  return sum_of(
      p, n, [](hn::Vec<DD> v) { return v; }, [](double v) { return v; });
}

double row_square_deviation_impl(const float* p, int64_t n, double mean) {
  const auto m = hn::Set(dd, mean);
  return sum_of(
      p, n,
      [m](hn::Vec<DD> v) {
        const auto e = hn::Sub(v, m);
        return hn::Mul(e, e);
      },
      [mean](double v) { return (v - mean) * (v - mean); });
}

struct MaxOp {
  static HWY_INLINE hn::Vec<D> vec(hn::Vec<D> a, hn::Vec<D> b) { return hn::Max(a, b); }
  static HWY_INLINE float lanes(hn::Vec<D> v) { return hn::GetLane(hn::MaxOfLanes(d, v)); }
  static HWY_INLINE float plain(float acc, float v) { return v > acc || v != v ? v : acc; }
};
struct MinOp {
  static HWY_INLINE hn::Vec<D> vec(hn::Vec<D> a, hn::Vec<D> b) { return hn::Min(a, b); }
  static HWY_INLINE float lanes(hn::Vec<D> v) { return hn::GetLane(hn::MinOfLanes(d, v)); }
  static HWY_INLINE float plain(float acc, float v) { return v < acc || v != v ? v : acc; }
};

// The vector instructions drop NaN, so a mask of the lanes that saw one is kept beside the extreme.
template <typename Op>
HWY_INLINE float row_extreme(const float* p, int64_t n, float start) {
  const int64_t w = static_cast<int64_t>(hn::Lanes(d));
  float r = start;
  int64_t i = 0;
  if (n >= w) {
    auto a = hn::Set(d, start), b = a;
    auto bad = hn::IsNaN(a);
    for (; i + 2 * w <= n; i += 2 * w) {
      const auto x = hn::LoadU(d, p + i), y = hn::LoadU(d, p + i + w);
      a = Op::vec(a, x);
      b = Op::vec(b, y);
      bad = hn::Or(bad, hn::Or(hn::IsNaN(x), hn::IsNaN(y)));
    }
    if (i + w <= n) {
      const auto x = hn::LoadU(d, p + i);
      a = Op::vec(a, x);
      bad = hn::Or(bad, hn::IsNaN(x));
      i += w;
    }
    if (!hn::AllFalse(d, bad)) return __builtin_nanf("");
    r = Op::lanes(Op::vec(a, b));
  }
  for (; i < n; ++i) r = Op::plain(r, p[i]);
  return r;
}

float row_max_impl(const float* p, int64_t n, float start) { return row_extreme<MaxOp>(p, n, start); }
float row_min_impl(const float* p, int64_t n, float start) { return row_extreme<MinOp>(p, n, start); }

void cols_sum_impl(const float* p, int64_t stride, int64_t rows, int64_t cols, double* acc) {
  const int64_t w = static_cast<int64_t>(hn::Lanes(dd));
  int64_t r = 0;
  for (; r + 4 <= rows; r += 4) {
    const float* q = p + r * stride;
    int64_t c = 0;
    for (; c + w <= cols; c += w) {
      const auto ab = hn::Add(load_double(q + c), load_double(q + stride + c));
      const auto ce = hn::Add(load_double(q + 2 * stride + c), load_double(q + 3 * stride + c));
      hn::StoreU(hn::Add(hn::LoadU(dd, acc + c), hn::Add(ab, ce)), dd, acc + c);
    }
    for (; c < cols; ++c)
      acc[c] +=
          (static_cast<double>(q[c]) + q[stride + c]) + (static_cast<double>(q[2 * stride + c]) + q[3 * stride + c]);
  }
  for (; r < rows; ++r) {
    const float* q = p + r * stride;
    int64_t c = 0;
    for (; c + w <= cols; c += w) hn::StoreU(hn::Add(hn::LoadU(dd, acc + c), load_double(q + c)), dd, acc + c);
    for (; c < cols; ++c) acc[c] += static_cast<double>(q[c]);
  }
}

template <typename Op>
HWY_INLINE void cols_extreme(const float* p, int64_t stride, int64_t rows, int64_t cols, float* acc) {
  const int64_t w = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t r = 0; r < rows; ++r) {
    const float* q = p + r * stride;
    int64_t c = 0;
    for (; c + w <= cols; c += w) {
      const auto a = hn::LoadU(d, acc + c), x = hn::LoadU(d, q + c);
      const auto keep = hn::IfThenElse(hn::IsNaN(a), a, Op::vec(a, x));
      hn::StoreU(hn::IfThenElse(hn::IsNaN(x), x, keep), d, acc + c);
    }
    for (; c < cols; ++c) acc[c] = Op::plain(acc[c], q[c]);
  }
}

void cols_max_impl(const float* p, int64_t stride, int64_t rows, int64_t cols, float* acc) {
  cols_extreme<MaxOp>(p, stride, rows, cols, acc);
}
void cols_min_impl(const float* p, int64_t stride, int64_t rows, int64_t cols, float* acc) {
  cols_extreme<MinOp>(p, stride, rows, cols, acc);
}
#endif
}  // namespace HWY_NAMESPACE
}  // namespace forethought::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace forethought::kernels {

double row_sum(Isa isa, const float* p, int64_t n) {
  if (isa != Isa::scalar) return FT_SIMD(isa, row_sum_impl)(p, n);
  double total = 0;
  for (int64_t i = 0; i < n; ++i) total += p[i];
  return total;
}

double row_square_deviation(Isa isa, const float* p, int64_t n, double mean) {
  if (isa != Isa::scalar) return FT_SIMD(isa, row_square_deviation_impl)(p, n, mean);
  double total = 0;
  for (int64_t i = 0; i < n; ++i) total += (p[i] - mean) * (p[i] - mean);
  return total;
}

float row_max(Isa isa, const float* p, int64_t n, float start) {
  if (isa != Isa::scalar) return FT_SIMD(isa, row_max_impl)(p, n, start);
  for (int64_t i = 0; i < n; ++i)
    if (p[i] > start || p[i] != p[i]) start = p[i];
  return start;
}

float row_min(Isa isa, const float* p, int64_t n, float start) {
  if (isa != Isa::scalar) return FT_SIMD(isa, row_min_impl)(p, n, start);
  for (int64_t i = 0; i < n; ++i)
    if (p[i] < start || p[i] != p[i]) start = p[i];
  return start;
}

void cols_sum(Isa isa, const float* p, int64_t stride, int64_t rows, int64_t cols, double* acc) {
  if (isa != Isa::scalar) return FT_SIMD(isa, cols_sum_impl)(p, stride, rows, cols, acc);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c) acc[c] += p[r * stride + c];
}

void cols_max(Isa isa, const float* p, int64_t stride, int64_t rows, int64_t cols, float* acc) {
  if (isa != Isa::scalar) return FT_SIMD(isa, cols_max_impl)(p, stride, rows, cols, acc);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c) acc[c] = row_max(isa, p + r * stride + c, 1, acc[c]);
}

void cols_min(Isa isa, const float* p, int64_t stride, int64_t rows, int64_t cols, float* acc) {
  if (isa != Isa::scalar) return FT_SIMD(isa, cols_min_impl)(p, stride, rows, cols, acc);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c) acc[c] = row_min(isa, p + r * stride + c, 1, acc[c]);
}

}  // namespace forethought::kernels
#endif
