// Plain tile functions of bits and remainders: BitwiseAnd and its kin, BitShift, Mod.
#include <cmath>
#include <type_traits>

#include "kernels/pointwise/pairs.h"

namespace forethought::kernels {
namespace {

// A shift by a negative number, or by as many bits as there are, leaves nothing but the sign.
template <typename T>
T shifted_left(T a, T b) {
  constexpr int kBits = static_cast<int>(sizeof(T)) * 8;
  if (b < 0 || static_cast<uint64_t>(b) >= kBits) return 0;
  return static_cast<T>(static_cast<uint64_t>(a) << b);
}
template <typename T>
T shifted_right(T a, T b) {
  constexpr int kBits = static_cast<int>(sizeof(T)) * 8;
  if (b < 0 || static_cast<uint64_t>(b) >= kBits) return a < 0 ? static_cast<T>(-1) : static_cast<T>(0);
  return static_cast<T>(a >> b);
}

// With the sign of the divisor. Of an integer divided by 0: 0.
template <typename T>
T floor_remainder(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    const T r = std::fmod(a, b);
    if (r == 0) return std::copysign(T{0}, b);
    return (r < 0) != (b < 0) ? r + b : r;
  } else {
    if (b == 0) return 0;
    if constexpr (std::is_signed_v<T>)
      if (b == -1) return 0;  // the lowest number has no quotient
    const T r = static_cast<T>(a % b);
    return r != 0 && (r < 0) != (b < 0) ? static_cast<T>(r + b) : r;
  }
}

// With the sign of the dividend.
template <typename T>
T truncated_remainder(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::fmod(a, b);
  } else {
    if (b == 0) return 0;
    if constexpr (std::is_signed_v<T>)
      if (b == -1) return 0;
    return static_cast<T>(a % b);
  }
}

template <typename T, T (*kFunction)(T, T)>
void tile_of(const TileArg* args, void* out, int64_t n, const TileParams&) {
  pairs<T, T>(args, out, n, [](T a, T b) { return kFunction(a, b); });
}

template <typename T>
T both(T a, T b) {
  return static_cast<T>(a & b);
}
template <typename T>
T either(T a, T b) {
  return static_cast<T>(a | b);
}
template <typename T>
T one_of(T a, T b) {
  return static_cast<T>(a ^ b);
}

template <typename T>
void inverted_tile(const TileArg* args, void* out, int64_t n, const TileParams&) {
  const auto* a = static_cast<const T*>(args[0].data);
  for (int64_t i = 0; i < n; ++i) static_cast<T*>(out)[i] = static_cast<T>(~a[i]);
}

template <typename T>
TileFn find_of(IntegerOp op) {
  switch (op) {
    case IntegerOp::Mod:
      return &tile_of<T, &floor_remainder<T>>;
    case IntegerOp::Fmod:
      return &tile_of<T, &truncated_remainder<T>>;
    default:
      break;
  }
  if constexpr (std::is_integral_v<T>) {
    switch (op) {
      case IntegerOp::And:
        return &tile_of<T, &both<T>>;
      case IntegerOp::Or:
        return &tile_of<T, &either<T>>;
      case IntegerOp::Xor:
        return &tile_of<T, &one_of<T>>;
      case IntegerOp::ShiftLeft:
        return &tile_of<T, &shifted_left<T>>;
      case IntegerOp::ShiftRight:
        return &tile_of<T, &shifted_right<T>>;
      default:
        break;
    }
  }
  return nullptr;
}

}  // namespace

TileFn find_integer_tile(IntegerOp op, DType work) {
  TileFn fn = nullptr;
  using WorkTypes = Types<float, double, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t>;
  dispatch(work, WorkTypes{}, [&]<typename T>() { fn = find_of<T>(op); });
  return fn;
}

TileFn find_bit_not_tile(DType work) {
  TileFn fn = nullptr;
  dispatch(work, IntTypes{}, [&]<typename T>() { fn = &inverted_tile<T>; });
  return fn;
}

}  // namespace forethought::kernels
