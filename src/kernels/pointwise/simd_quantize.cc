// SIMD tiles of QuantizeLinear from f32 and DequantizeLinear, for 8- and 16-bit integers.
#include <limits>

#include "kernels/pointwise/tile_tiers.h"
#include "kernels/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/pointwise/simd_quantize.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace forethought::kernels {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using DF = hn::ScalableTag<float>;
using DI = hn::ScalableTag<int32_t>;

// Calls step(a, b, out) for whole vectors; the rest, and operands that stand for all elements, go through copies.
template <typename A, typename B, typename O, class Step>
void loop2(const TileArg* args, O* out, int64_t n, const Step& step) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(DF()));
  const A* a = static_cast<const A*>(args[0].data);
  const B* b = static_cast<const B*>(args[1].data);
  A sa[HWY_MAX_BYTES / 4];
  B sb[HWY_MAX_BYTES / 4];
  O so[HWY_MAX_BYTES / 4];
  if (n <= 0) return;
  for (int64_t k = 0; k < lanes; ++k) sa[k] = *a, sb[k] = *b;
  const bool va = !args[0].scalar, vb = !args[1].scalar;
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) step(va ? a + i : sa, vb ? b + i : sb, out + i);
  if (i == n) return;
  for (int64_t k = 0; k < n - i; ++k) {
    if (va) sa[k] = a[i + k];
    if (vb) sb[k] = b[i + k];
  }
  step(sa, sb, so);
  for (int64_t k = 0; k < n - i; ++k) out[i + k] = so[k];
}

template <typename T>
hn::Vec<DI> load_i32(const T* p) {
  return hn::PromoteTo(DI(), hn::LoadU(hn::Rebind<T, DI>(), p));
}

template <typename To>
void quantize_tile(const TileArg* args, void* out, int64_t n, const TileParams&) {
  const DF d;
  const auto low = hn::Set(d, static_cast<float>(std::numeric_limits<To>::min()));
  const auto high = hn::Set(d, static_cast<float>(std::numeric_limits<To>::max()));
  loop2<float, To>(args, static_cast<To*>(out), n, [&](const float* q, const To* z, To* o) {
    const auto v = hn::Add(hn::Round(hn::LoadU(d, q)), hn::ConvertTo(d, load_i32(z)));
    // Of NaN and another, x86's max gives the second.
    const auto bounded = hn::Min(hn::Max(v, low), high);
    hn::StoreU(hn::DemoteTo(hn::Rebind<To, DF>(), hn::ConvertTo(DI(), bounded)), hn::Rebind<To, DF>(), o);
  });
}

template <typename T>
void dequantize_tile(const TileArg* args, void* out, int64_t n, const TileParams&) {
  loop2<T, T>(args, static_cast<float*>(out), n, [](const T* x, const T* z, float* o) {
    hn::StoreU(hn::ConvertTo(DF(), hn::Sub(load_i32(x), load_i32(z))), DF(), o);
  });
}
}  // namespace

TileFn quantize_tile_for(DType quotient, DType to) {
  if (quotient != DType::kFloat) return nullptr;
  switch (to) {
    case DType::kInt8:
      return &quantize_tile<int8_t>;
    case DType::kUint8:
      return &quantize_tile<uint8_t>;
    case DType::kInt16:
      return &quantize_tile<int16_t>;
    case DType::kUint16:
      return &quantize_tile<uint16_t>;
    default:
      return nullptr;
  }
}
TileFn dequantize_tile_for(DType from) {
  switch (from) {
    case DType::kInt8:
      return &dequantize_tile<int8_t>;
    case DType::kUint8:
      return &dequantize_tile<uint8_t>;
    case DType::kInt16:
      return &dequantize_tile<int16_t>;
    case DType::kUint16:
      return &dequantize_tile<uint16_t>;
    default:
      return nullptr;
  }
}
#endif
}  // namespace HWY_NAMESPACE
}  // namespace forethought::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace forethought::kernels {
TileFn find_quantize_tile_simd(Isa isa, DType quotient, DType to) {
  return FT_SIMD(isa, quantize_tile_for)(quotient, to);
}
TileFn find_dequantize_tile_simd(Isa isa, DType from) { return FT_SIMD(isa, dequantize_tile_for)(from); }
}  // namespace forethought::kernels
#endif
