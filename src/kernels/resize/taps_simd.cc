// Weighted sums along and across rows; see taps.h.
#include <algorithm>

#include "kernels/resize/taps.h"
#include "kernels/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/resize/taps_simd.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace forethought::kernels {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR
namespace hn = hwy::HWY_NAMESPACE;

// Returns how many outputs were made; the rest, less than a vector, is left to the plain loop.
int64_t resample_row_impl(const float* row, int64_t first, int64_t in, const int32_t* start, const float* weight,
                          int64_t stride, int taps, float* out, int64_t n) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto zero = hn::Zero(di), last = hn::Set(di, static_cast<int32_t>(in - 1));
  const auto shift = hn::Set(di, static_cast<int32_t>(first));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto s = hn::LoadU(di, start + i);
    auto sum = hn::Zero(d);
    for (int k = 0; k < taps; ++k) {
      const auto at = hn::Min(hn::Max(hn::Add(s, hn::Set(di, k)), zero), last);
      sum = hn::MulAdd(hn::LoadU(d, weight + k * stride + i), hn::GatherIndex(d, row, hn::Sub(at, shift)), sum);
    }
    hn::StoreU(sum, d, out + i);
  }
  return i;
}

int64_t add_row_impl(bool begin, float w, const float* in, float* out, int64_t n) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto weight = hn::Set(d, w);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto before = begin ? hn::Zero(d) : hn::LoadU(d, out + i);
    hn::StoreU(hn::MulAdd(weight, hn::LoadU(d, in + i), before), d, out + i);
  }
  return i;
}

int64_t blend_rows_impl(float w0, const float* a, float w1, const float* b, float* out, int64_t n) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto v0 = hn::Set(d, w0), v1 = hn::Set(d, w1);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    hn::StoreU(hn::MulAdd(v1, hn::LoadU(d, b + i), hn::Mul(v0, hn::LoadU(d, a + i))), d, out + i);
  return i;
}
#endif
}  // namespace HWY_NAMESPACE
}  // namespace forethought::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace forethought::kernels {

template <typename C>
void resample_row(Isa isa, const C* row, int64_t first, int64_t in, const int32_t* start, const C* weight,
                  int64_t stride, int taps, C* out, int64_t n) {
  int64_t i = 0;
  if constexpr (std::is_same_v<C, float>)
    if (isa != Isa::scalar) i = FT_SIMD(isa, resample_row_impl)(row, first, in, start, weight, stride, taps, out, n);
  for (; i < n; ++i) {
    C sum = 0;
    for (int k = 0; k < taps; ++k)
      sum += weight[k * stride + i] * row[std::clamp<int64_t>(int64_t{start[i]} + k, 0, in - 1) - first];
    out[i] = sum;
  }
}

template <typename C>
void add_row(Isa isa, bool begin, C w, const C* in, C* out, int64_t n) {
  int64_t i = 0;
  if constexpr (std::is_same_v<C, float>)
    if (isa != Isa::scalar) i = FT_SIMD(isa, add_row_impl)(begin, w, in, out, n);
  for (; i < n; ++i) out[i] = (begin ? C{0} : out[i]) + w * in[i];
}

void blend_rows(Isa isa, float w0, const float* a, float w1, const float* b, float* out, int64_t n) {
  int64_t i = isa == Isa::scalar ? 0 : FT_SIMD(isa, blend_rows_impl)(w0, a, w1, b, out, n);
  for (; i < n; ++i) out[i] = w0 * a[i] + w1 * b[i];
}

template void resample_row(Isa, const float*, int64_t, int64_t, const int32_t*, const float*, int64_t, int, float*,
                           int64_t);
template void resample_row(Isa, const double*, int64_t, int64_t, const int32_t*, const double*, int64_t, int, double*,
                           int64_t);
template void add_row(Isa, bool, float, const float*, float*, int64_t);
template void add_row(Isa, bool, double, const double*, double*, int64_t);

}  // namespace forethought::kernels
#endif
