// Plain tile functions of Pow, Equal, Where and Not.
#include <cmath>

#include "kernels/pointwise/convert_number.h"
#include "kernels/pointwise/tile.h"
#include "kernels/pointwise/tile_tiers.h"

namespace forethought::kernels {
namespace {

template <typename T>
const T* data(const TileArg& arg) {
  return static_cast<const T*>(arg.data);
}

template <typename A, typename B, typename O, typename F>
void loop2(const TileArg* args, O* out, int64_t n, F&& f) {
  if (n <= 0) return;
  const A* a = data<A>(args[0]);
  const B* b = data<B>(args[1]);
  const A a0 = *a;
  const B b0 = *b;
  const bool va = !args[0].scalar, vb = !args[1].scalar;
  for (int64_t i = 0; i < n; ++i) out[i] = f(va ? a[i] : a0, vb ? b[i] : b0);
}

// By squaring, with wrap-around. A negative exponent gives the truncated reciprocal (0 for a base of 0).
template <typename T, typename E>
T integer_pow(T base, E exponent) {
  if constexpr (std::is_signed_v<E>) {
    if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 == 0 ? 1 : -1) : 0;
  }
  uint64_t result = 1, factor = static_cast<uint64_t>(base);
  for (auto e = static_cast<uint64_t>(exponent); e != 0; e >>= 1, factor *= factor)
    if (e & 1) result *= factor;
  return static_cast<T>(result);
}

template <typename T, typename E>
void pow_tile(const TileArg* args, void* out, int64_t n, const TileParams&) {
  T* o = static_cast<T*>(out);
  if constexpr (std::is_integral_v<T> && std::is_integral_v<E>) {
    loop2<T, E>(args, o, n, [](T a, E b) { return integer_pow(a, b); });
  } else if constexpr (std::is_integral_v<T>) {
    loop2<T, E>(args, o, n, [](T a, E b) { return truncate_to<T>(std::pow(static_cast<double>(a), b)); });
  } else {
    // The squares of normalisations and losses: one rounding, as pow has.
    if (n > 0 && args[1].scalar && *data<E>(args[1]) == 2) {
      loop2<T, E>(args, o, n, [](T a, E) { return a * a; });
      return;
    }
    loop2<T, E>(args, o, n, [](T a, E b) { return static_cast<T>(std::pow(a, b)); });
  }
}

template <typename T>
void equal_tile(const TileArg* args, void* out, int64_t n, const TileParams&) {
  loop2<T, T>(args, static_cast<uint8_t*>(out), n, [](T a, T b) { return static_cast<uint8_t>(a == b); });
}
void equal_bool_tile(const TileArg* args, void* out, int64_t n, const TileParams&) {
  loop2<uint8_t, uint8_t>(args, static_cast<uint8_t*>(out), n,
                          [](uint8_t a, uint8_t b) { return static_cast<uint8_t>((a != 0) == (b != 0)); });
}

template <typename T>
void where_tile(const TileArg* args, void* out, int64_t n, const TileParams&) {
  if (n <= 0) return;
  const auto* c = data<uint8_t>(args[0]);
  const T *a = data<T>(args[1]), *b = data<T>(args[2]);
  T* o = static_cast<T*>(out);
  const bool vc = !args[0].scalar, va = !args[1].scalar, vb = !args[2].scalar;
  const uint8_t c0 = *c;
  const T a0 = *a, b0 = *b;
  for (int64_t i = 0; i < n; ++i) o[i] = (vc ? c[i] : c0) ? (va ? a[i] : a0) : (vb ? b[i] : b0);
}

void not_tile(const TileArg* args, void* out, int64_t n, const TileParams&) {
  const auto* a = data<uint8_t>(args[0]);
  auto* o = static_cast<uint8_t*>(out);
  for (int64_t i = 0; i < n; ++i) o[i] = a[i] == 0;
}
}  // namespace

TileFn find_pow_tile(DType base, DType exponent) {
  TileFn fn = nullptr;
  dispatch(base, Types<float, double, int32_t, int64_t>{}, [&]<typename T>() {
    dispatch(exponent, Types<double, int64_t, uint64_t>{}, [&]<typename E>() {
      if constexpr (std::is_integral_v<T> || std::is_floating_point_v<E>) fn = &pow_tile<T, E>;
    });
  });
  if (base == DType::kFloat && exponent == DType::kFloat) fn = &pow_tile<float, float>;
  return fn;
}

TileFn find_equal_tile(Isa isa, DType work) {
  if (work == DType::kBool) return &equal_bool_tile;
  if (isa != Isa::scalar)
    if (TileFn fn = find_equal_tile_simd(isa, work)) return fn;
  TileFn fn = nullptr;
  using WorkTypes = Types<float, double, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t>;
  dispatch(work, WorkTypes{}, [&]<typename T>() { fn = &equal_tile<T>; });
  return fn;
}

TileFn find_where_tile(Isa isa, int width) {
  if (isa != Isa::scalar)
    if (TileFn fn = find_where_tile_simd(isa, width)) return fn;
  switch (width) {
    case 1:
      return &where_tile<uint8_t>;
    case 2:
      return &where_tile<uint16_t>;
    case 4:
      return &where_tile<uint32_t>;
    case 8:
      return &where_tile<uint64_t>;
    default:
      return nullptr;
  }
}

TileFn find_not_tile() { return &not_tile; }

}  // namespace forethought::kernels
