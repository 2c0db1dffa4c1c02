// Fast non-cryptographic hashing of bytes and integers (64-bit; for caches that also compare the full key).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace forethought {

// The finaliser of splitmix64 (Steele, Lea, Flood 2014).
constexpr uint64_t mix64(uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9ull;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}
constexpr uint64_t hash_combine(uint64_t seed, uint64_t value) {
  return mix64(seed * 0x9e3779b97f4a7c15ull + value + 1);
}

inline uint64_t hash_bytes(const void* data, size_t size, uint64_t seed = 0) {
  const auto* p = static_cast<const unsigned char*>(data);
  uint64_t a = seed ^ size, b = 0x243f6a8885a308d3ull;
  for (; size >= 16; size -= 16, p += 16) {
    uint64_t x, y;
    std::memcpy(&x, p, 8);
    std::memcpy(&y, p + 8, 8);
    a = mix64(a + x);
    b = mix64(b ^ y);
  }
  uint64_t x = 0, y = 0;
  if (size > 0) std::memcpy(&x, p, size < 8 ? size : 8);  // nothing may come as a null pointer
  if (size > 8) std::memcpy(&y, p + 8, size - 8);
  return mix64(hash_combine(a, x) ^ hash_combine(b, y));
}

}  // namespace forethought
