// float16 and bfloat16 as storage types that convert to and from float, rounding to nearest even.
#pragma once

#include <bit>
#include <cstdint>

namespace forethought {

float half_bits_to_float(uint16_t bits);
uint16_t float_to_half_bits(float value);
uint16_t double_to_half_bits(double value);

struct Float16 {
  uint16_t bits = 0;
  Float16() = default;
  explicit Float16(float v) : bits(float_to_half_bits(v)) {}
  explicit Float16(double v) : bits(double_to_half_bits(v)) {}
  static Float16 from_bits(uint16_t b) {
    Float16 r;
    r.bits = b;
    return r;
  }
  explicit operator float() const { return half_bits_to_float(bits); }
};

struct BFloat16 {
  uint16_t bits = 0;
  BFloat16() = default;
  explicit BFloat16(float v) {
    const uint32_t u = std::bit_cast<uint32_t>(v);
    if ((u & 0x7fffffffu) > 0x7f800000u) {
      bits = static_cast<uint16_t>((u >> 16) | 0x40u);  // NaN stays NaN
    } else {
      bits = static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
    }
  }
  static BFloat16 from_bits(uint16_t b) {
    BFloat16 r;
    r.bits = b;
    return r;
  }
  explicit operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
};

}  // namespace forethought
