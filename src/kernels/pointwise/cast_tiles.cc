// Tile functions of Cast among the numeric types and bool.
#include "kernels/convert/half_tile.h"
#include "kernels/pointwise/convert_number.h"
#include "kernels/pointwise/tile.h"
#include "kernels/pointwise/tile_tiers.h"

namespace forethought::kernels {
namespace {

// bool is read as a byte, because bytes that come from files need not be 0 or 1.
template <typename T>
using Stored = std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>;

template <typename From, typename To>
void cast_tile(const TileArg* args, void* out, int64_t n, const TileParams&) {
  const auto* a = static_cast<const Stored<From>*>(args[0].data);
  To* o = static_cast<To*>(out);
  for (int64_t i = 0; i < n; ++i) {
    if constexpr (std::is_same_v<From, bool>)
      o[i] = convert_number<To>(static_cast<uint8_t>(a[i] != 0));
    else
      o[i] = convert_number<To>(a[i]);
  }
}

template <typename Half, Isa kIsa>
void widen_tile(const TileArg* args, void* out, int64_t n, const TileParams&) {
  widen(kIsa, static_cast<const Half*>(args[0].data), static_cast<float*>(out), n);
}
template <typename Half, Isa kIsa>
void narrow_tile(const TileArg* args, void* out, int64_t n, const TileParams&) {
  narrow(kIsa, static_cast<const float*>(args[0].data), static_cast<Half*>(out), n);
}

template <Isa kIsa>
TileFn half_tile(DType from, DType to) {
  if (to == DType::kFloat && from == DType::kFloat16) return &widen_tile<Float16, kIsa>;
  if (to == DType::kFloat && from == DType::kBFloat16) return &widen_tile<BFloat16, kIsa>;
  if (from == DType::kFloat && to == DType::kFloat16) return &narrow_tile<Float16, kIsa>;
  if (from == DType::kFloat && to == DType::kBFloat16) return &narrow_tile<BFloat16, kIsa>;
  return nullptr;
}

using CastTypes = Types<float, double, Float16, BFloat16, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t,
                        uint32_t, uint64_t, bool>;
}  // namespace

TileFn find_cast_tile(Isa isa, DType from, DType to) {
  TileFn fn = nullptr;
  if (isa == Isa::avx512) fn = half_tile<Isa::avx512>(from, to);
  if (isa == Isa::avx2) fn = half_tile<Isa::avx2>(from, to);
  if (fn == nullptr && isa != Isa::scalar) fn = find_cast_tile_simd(isa, from, to);
  if (fn != nullptr) return fn;
  dispatch(from, CastTypes{},
           [&]<typename From>() { dispatch(to, CastTypes{}, [&]<typename To>() { fn = &cast_tile<From, To>; }); });
  return fn;
}

}  // namespace forethought::kernels
