// Plain tile functions of QuantizeLinear and DequantizeLinear.
#include <cmath>
#include <limits>

#include "kernels/pointwise/tile.h"
#include "kernels/pointwise/tile_tiers.h"

namespace forethought::kernels {
namespace {

// Sums stay exact where they matter: beyond 2^23 the result saturates.
template <typename Q, typename To>
void quantize_tile(const TileArg* args, void* out, int64_t n, const TileParams&) {
  if (n <= 0) return;
  const Q* q = static_cast<const Q*>(args[0].data);
  const To* z = static_cast<const To*>(args[1].data);
  To* o = static_cast<To*>(out);
  const Q q0 = *q;
  const To z0 = *z;
  const bool vq = !args[0].scalar, vz = !args[1].scalar;
  constexpr Q kLow = std::numeric_limits<To>::min(), kHigh = std::numeric_limits<To>::max();
  for (int64_t i = 0; i < n; ++i) {
    const Q v = std::nearbyint(vq ? q[i] : q0) + static_cast<Q>(vz ? z[i] : z0);
    o[i] = v > kLow ? static_cast<To>(v < kHigh ? v : kHigh) : std::numeric_limits<To>::min();
  }
}

template <typename T>
void dequantize_tile(const TileArg* args, void* out, int64_t n, const TileParams&) {
  if (n <= 0) return;
  const T *x = static_cast<const T*>(args[0].data), *z = static_cast<const T*>(args[1].data);
  auto* o = static_cast<float*>(out);
  const T x0 = *x, z0 = *z;
  const bool vx = !args[0].scalar, vz = !args[1].scalar;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t difference = static_cast<int64_t>(vx ? x[i] : x0) - static_cast<int64_t>(vz ? z[i] : z0);
    o[i] = static_cast<float>(difference);
  }
}
}  // namespace

TileFn find_quantize_tile(Isa isa, DType quotient, DType to) {
  if (isa != Isa::scalar)
    if (TileFn fn = find_quantize_tile_simd(isa, quotient, to)) return fn;
  TileFn fn = nullptr;
  dispatch(quotient, NativeFloatTypes{}, [&]<typename Q>() {
    dispatch(to, Types<int8_t, uint8_t, int16_t, uint16_t>{}, [&]<typename To>() { fn = &quantize_tile<Q, To>; });
  });
  return fn;
}

TileFn find_dequantize_tile(Isa isa, DType from) {
  if (isa != Isa::scalar)
    if (TileFn fn = find_dequantize_tile_simd(isa, from)) return fn;
  TileFn fn = nullptr;
  dispatch(from, Types<int8_t, uint8_t, int16_t, uint16_t, int32_t>{}, [&]<typename T>() { fn = &dequantize_tile<T>; });
  return fn;
}

}  // namespace forethought::kernels
