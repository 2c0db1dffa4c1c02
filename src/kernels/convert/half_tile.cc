// float16 and bfloat16 spans to float32 and back: plain code, and Highway's for AVX2 and AVX-512.
#include "kernels/convert/half_tile.h"

#include "kernels/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/convert/half_tile.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace forethought::kernels {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR
namespace hn = hwy::HWY_NAMESPACE;

// Each function returns how many elements it did; the plain code does the rest.
int64_t widen_f16(const uint16_t* in, float* out, int64_t n) {
  const hn::ScalableTag<float> d;
  const hn::Rebind<hwy::float16_t, decltype(d)> dh;
  const hn::Rebind<uint16_t, decltype(d)> du;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(hn::PromoteTo(d, hn::BitCast(dh, hn::LoadU(du, in + i))), d, out + i);
  return i;
}

int64_t narrow_f16(const float* in, uint16_t* out, int64_t n) {
  const hn::ScalableTag<float> d;
  const hn::Rebind<hwy::float16_t, decltype(d)> dh;
  const hn::Rebind<uint16_t, decltype(d)> du;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(hn::BitCast(du, hn::DemoteTo(dh, hn::LoadU(d, in + i))), du, out + i);
  return i;
}

int64_t widen_bf16(const uint16_t* in, float* out, int64_t n) {
  const hn::ScalableTag<uint32_t> d;
  const hn::ScalableTag<float> df;
  const hn::Rebind<uint16_t, decltype(d)> du;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    hn::StoreU(hn::BitCast(df, hn::ShiftLeft<16>(hn::PromoteTo(d, hn::LoadU(du, in + i)))), df, out + i);
  return i;
}

int64_t narrow_bf16(const float* in, uint16_t* out, int64_t n) {
  const hn::ScalableTag<float> df;
  const hn::ScalableTag<uint32_t> d;
  const hn::ScalableTag<int32_t> di;
  const hn::Rebind<uint16_t, decltype(d)> du;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto one = hn::Set(d, 1u), half = hn::Set(d, 0x7fffu), quiet = hn::Set(d, 0x400000u);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto v = hn::LoadU(df, in + i);
    const auto u = hn::BitCast(d, v);
    const auto rounded = hn::Add(u, hn::Add(half, hn::And(hn::ShiftRight<16>(u), one)));
    const auto is_nan = hn::RebindMask(d, hn::IsNaN(v));
    const auto bits = hn::ShiftRight<16>(hn::IfThenElse(is_nan, hn::Or(u, quiet), rounded));
    hn::StoreU(hn::DemoteTo(du, hn::BitCast(di, bits)), du, out + i);
  }
  return i;
}
#endif
}  // namespace HWY_NAMESPACE
}  // namespace forethought::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace forethought::kernels {
namespace {
const uint16_t* bits(const Float16* p) { return reinterpret_cast<const uint16_t*>(p); }
const uint16_t* bits(const BFloat16* p) { return reinterpret_cast<const uint16_t*>(p); }
uint16_t* bits(Float16* p) { return reinterpret_cast<uint16_t*>(p); }
uint16_t* bits(BFloat16* p) { return reinterpret_cast<uint16_t*>(p); }
}  // namespace

void widen(Isa isa, const Float16* in, float* out, int64_t n) {
  int64_t i = isa == Isa::scalar ? 0 : FT_SIMD(isa, widen_f16)(bits(in), out, n);
  for (; i < n; ++i) out[i] = static_cast<float>(in[i]);
}
void widen(Isa isa, const BFloat16* in, float* out, int64_t n) {
  int64_t i = isa == Isa::scalar ? 0 : FT_SIMD(isa, widen_bf16)(bits(in), out, n);
  for (; i < n; ++i) out[i] = static_cast<float>(in[i]);
}
void narrow(Isa isa, const float* in, Float16* out, int64_t n) {
  int64_t i = isa == Isa::scalar ? 0 : FT_SIMD(isa, narrow_f16)(in, bits(out), n);
  for (; i < n; ++i) out[i] = Float16(in[i]);
}
void narrow(Isa isa, const float* in, BFloat16* out, int64_t n) {
  int64_t i = isa == Isa::scalar ? 0 : FT_SIMD(isa, narrow_bf16)(in, bits(out), n);
  for (; i < n; ++i) out[i] = BFloat16(in[i]);
}

}  // namespace forethought::kernels
#endif
