// Size arithmetic that tells when it overflows; every size that a file or caller can name goes through it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace forethought {

inline std::optional<int64_t> checked_add(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_add_overflow(a, b, &r)) return std::nullopt;
  return r;
}
inline std::optional<int64_t> checked_mul(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_mul_overflow(a, b, &r)) return std::nullopt;
  return r;
}

// The product of dims; nullopt if one is negative or the product overflows. A zero anywhere gives zero.
inline std::optional<int64_t> checked_product(std::span<const int64_t> dims) {
  int64_t r = 1;
  bool zero = false, overflow = false;
  for (int64_t d : dims) {
    if (d < 0) return std::nullopt;
    if (d == 0) zero = true;
    if (__builtin_mul_overflow(r, d == 0 ? 1 : d, &r)) overflow = true, r = 1;
  }
  if (zero) return 0;
  if (overflow) return std::nullopt;
  return r;
}

// Rounds up to a multiple of `to` (a power of two). The caller knows that it fits.
constexpr size_t round_up(size_t n, size_t to) { return (n + to - 1) & ~(to - 1); }

}  // namespace forethought
