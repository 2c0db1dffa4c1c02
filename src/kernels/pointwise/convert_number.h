// One number from one element type to another, by ONNX's Cast: see find_cast_tile in tile.h.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "base/half.h"

namespace forethought::kernels {

template <typename T>
constexpr bool is_half = std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>;

// Truncates towards zero; NaN and what lies out of range give what x86's conversions give.
template <typename To, typename F>
To truncate_to(F v) {
  static_assert(std::is_integral_v<To> && std::is_floating_point_v<F>);
  if constexpr (sizeof(To) < 4) {
    return static_cast<To>(truncate_to<int32_t>(v));
  } else if constexpr (std::is_same_v<To, uint32_t>) {
    return static_cast<To>(truncate_to<int64_t>(v));
  } else if constexpr (std::is_same_v<To, uint64_t>) {
    constexpr F kTop = static_cast<F>(0x1p63);
    if (v >= kTop) return static_cast<uint64_t>(truncate_to<int64_t>(v - kTop)) ^ (uint64_t{1} << 63);
    return static_cast<uint64_t>(truncate_to<int64_t>(v));
  } else {
    constexpr F kLimit = -static_cast<F>(std::numeric_limits<To>::min());  // a power of two, so exact
    return v >= -kLimit && v < kLimit ? static_cast<To>(v) : std::numeric_limits<To>::min();
  }
}

// A float that rounds to the same bfloat16 as v does: inexact values become odd, so that no tie appears.
inline float round_to_odd(long double v) {
  float f = static_cast<float>(v);
  if (static_cast<long double>(f) == v || std::isnan(f)) return f;
  uint32_t bits = std::bit_cast<uint32_t>(f);
  if (std::fabs(static_cast<long double>(f)) > std::fabs(v)) --bits;  // back towards zero
  return std::bit_cast<float>(bits | 1u);
}

template <typename To, typename From>
To convert_number(From v) {
  if constexpr (std::is_same_v<To, From>) {
    return v;
  } else if constexpr (std::is_same_v<To, bool>) {
    if constexpr (is_half<From>)
      return (v.bits & 0x7fffu) != 0;
    else
      return v != 0;
  } else if constexpr (is_half<From>) {
    return convert_number<To>(static_cast<float>(v));
  } else if constexpr (std::is_same_v<To, Float16>) {
    // Integers that a float rounds lie beyond float16's range.
    if constexpr (std::is_same_v<From, double>)
      return Float16(v);
    else
      return Float16(static_cast<float>(v));
  } else if constexpr (std::is_same_v<To, BFloat16>) {
    if constexpr (std::is_same_v<From, float> || sizeof(From) <= 2)
      return BFloat16(static_cast<float>(v));
    else
      return BFloat16(round_to_odd(static_cast<long double>(v)));
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    return truncate_to<To>(v);
  } else {
    return static_cast<To>(v);
  }
}

}  // namespace forethought::kernels
