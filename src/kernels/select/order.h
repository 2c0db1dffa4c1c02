// Unsigned keys that order as elements of any number type do.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "base/dtype.h"

namespace forethought::kernels {

// NaNs have one key above all others; both zeroes have one key.
template <typename T>
uint64_t order_key(T v) {
  constexpr uint64_t kSign = uint64_t{1} << 63;
  if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>) {
    const double d = v;
    if (d != d) return ~uint64_t{0};
    const auto bits = std::bit_cast<uint64_t>(d == 0 ? 0.0 : d);
    return bits & kSign ? ~bits : bits | kSign;
  } else if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>) {
    return order_key(static_cast<float>(v));
  } else if constexpr (std::is_signed_v<T>) {
    return static_cast<uint64_t>(static_cast<int64_t>(v)) ^ kSign;
  } else {
    return v;
  }
}

}  // namespace forethought::kernels
