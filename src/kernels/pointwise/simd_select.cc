// SIMD tiles of Equal and Where for 4-byte elements, and of casts from bytes and i32 to f32.
#include "kernels/pointwise/tile_tiers.h"
#include "kernels/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/pointwise/simd_select.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace forethought::kernels {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// Vectors for whole steps; what is left goes through `one`, element by element.
template <typename T>
void equal_tile(const TileArg* args, void* out, int64_t n, const TileParams&) {
  if (n <= 0) return;
  const hn::ScalableTag<T> d;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::Rebind<uint8_t, decltype(d)> d8;
  const auto* a = static_cast<const T*>(args[0].data);
  const auto* b = static_cast<const T*>(args[1].data);
  auto* o = static_cast<uint8_t*>(out);
  const auto a0 = hn::Set(d, *a), b0 = hn::Set(d, *b);
  const bool va = !args[0].scalar, vb = !args[1].scalar;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto one = hn::Set(di, 1);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto eq = hn::Eq(va ? hn::LoadU(d, a + i) : a0, vb ? hn::LoadU(d, b + i) : b0);
    hn::StoreU(hn::DemoteTo(d8, hn::And(hn::BitCast(di, hn::VecFromMask(d, eq)), one)), d8, o + i);
  }
  for (; i < n; ++i) o[i] = (va ? a[i] : *a) == (vb ? b[i] : *b);
}

void where4_tile(const TileArg* args, void* out, int64_t n, const TileParams&) {
  if (n <= 0) return;
  const hn::ScalableTag<int32_t> d;
  const hn::Rebind<uint8_t, decltype(d)> d8;
  const auto* c = static_cast<const uint8_t*>(args[0].data);
  const auto* a = static_cast<const int32_t*>(args[1].data);
  const auto* b = static_cast<const int32_t*>(args[2].data);
  auto* o = static_cast<int32_t*>(out);
  const uint8_t sc = *c;
  const int32_t sa = *a, sb = *b;
  const auto c0 = hn::Set(d, static_cast<int32_t>(sc)), a0 = hn::Set(d, sa), b0 = hn::Set(d, sb);
  const bool vc = !args[0].scalar, va = !args[1].scalar, vb = !args[2].scalar;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto no = hn::Eq(vc ? hn::PromoteTo(d, hn::LoadU(d8, c + i)) : c0, hn::Zero(d));
    hn::StoreU(hn::IfThenElse(no, vb ? hn::LoadU(d, b + i) : b0, va ? hn::LoadU(d, a + i) : a0), d, o + i);
  }
  for (; i < n; ++i) o[i] = (vc ? c[i] : sc) ? (va ? a[i] : sa) : (vb ? b[i] : sb);
}

template <typename T>
void to_f32_tile(const TileArg* args, void* out, int64_t n, const TileParams&) {
  const hn::ScalableTag<float> d;
  const hn::ScalableTag<int32_t> di;
  const hn::Rebind<T, decltype(d)> dt;
  const auto* a = static_cast<const T*>(args[0].data);
  auto* o = static_cast<float*>(out);
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    if constexpr (sizeof(T) == 4)
      hn::StoreU(hn::ConvertTo(d, hn::LoadU(di, a + i)), d, o + i);
    else
      hn::StoreU(hn::ConvertTo(d, hn::PromoteTo(di, hn::LoadU(dt, a + i))), d, o + i);
  }
  for (; i < n; ++i) o[i] = static_cast<float>(a[i]);
}
}  // namespace

TileFn equal_tile_for(DType work) {
  if (work == DType::kFloat) return &equal_tile<float>;
  if (work == DType::kInt32 || work == DType::kUint32) return &equal_tile<int32_t>;
  return nullptr;
}
TileFn where_tile_for(int width) { return width == 4 ? &where4_tile : nullptr; }
TileFn cast_tile_for(DType from, DType to) {
  if (to != DType::kFloat) return nullptr;
  if (from == DType::kUint8) return &to_f32_tile<uint8_t>;
  if (from == DType::kInt8) return &to_f32_tile<int8_t>;
  if (from == DType::kInt32) return &to_f32_tile<int32_t>;
  return nullptr;
}
#endif
}  // namespace HWY_NAMESPACE
}  // namespace forethought::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace forethought::kernels {
TileFn find_equal_tile_simd(Isa isa, DType work) { return FT_SIMD(isa, equal_tile_for)(work); }
TileFn find_where_tile_simd(Isa isa, int width) { return FT_SIMD(isa, where_tile_for)(width); }
TileFn find_cast_tile_simd(Isa isa, DType from, DType to) { return FT_SIMD(isa, cast_tile_for)(from, to); }
}  // namespace forethought::kernels
#endif
