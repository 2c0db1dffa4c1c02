#include "base/half.h"

#include <cmath>
#include <limits>

namespace forethought {

float half_bits_to_float(uint16_t h) {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16;
  const uint32_t exponent = (h >> 10) & 0x1fu;
  const uint32_t mantissa = h & 0x3ffu;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;  // subnormal or zero
  return sign ? -magnitude : magnitude;
}

// Rounds a binary floating value once, to nearest even, to 10 mantissa bits.
uint16_t double_to_half_bits(double v) {
  const uint16_t sign = std::signbit(v) ? 0x8000u : 0;
  if (std::isnan(v)) return sign | 0x7e00u;
  const double a = std::fabs(v);
  if (a >= 65520.0) return sign | 0x7c00u;  // rounds to infinity
  if (a < 0x1p-14) return sign | static_cast<uint16_t>(std::nearbyint(a * 0x1p24));
  int e;
  std::frexp(a, &e);                                            // a = m · 2^e, m in [0.5, 1)
  const double scaled = std::nearbyint(std::ldexp(a, 11 - e));  // in [1024, 2048]
  return sign | static_cast<uint16_t>(((e + 13) << 10) + static_cast<int>(scaled) - 1024 + (1 << 10));
}

uint16_t float_to_half_bits(float v) {
  const uint32_t u = std::bit_cast<uint32_t>(v);
  const uint16_t sign = static_cast<uint16_t>((u >> 16) & 0x8000u);
  const uint32_t a = u & 0x7fffffffu;
  if (a > 0x7f800000u) return sign | 0x7e00u | static_cast<uint16_t>((a >> 13) & 0x1ffu);
  if (a >= 0x477ff000u) return sign | 0x7c00u;  // 65520 and above
  if (a < 0x38800000u) return sign | static_cast<uint16_t>(std::nearbyint(std::bit_cast<float>(a) * 0x1p24f));
  const uint32_t rounded = a + 0xfffu + ((a >> 13) & 1u);
  return sign | static_cast<uint16_t>((rounded - 0x38000000u) >> 13);
}

}  // namespace forethought
