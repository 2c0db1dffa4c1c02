// Size classes of blocks: eight to a doubling, so that at most an eighth is wasted (63 bytes of small ones).
#pragma once

#include <bit>
#include <cstdint>

namespace forethought {

constexpr int64_t kMinBlock = 64;
constexpr int64_t kMaxBlock = int64_t{1} << 60;
constexpr int kSmallClasses = 8;  // 64, 128, … 512
constexpr int kPerDoubling = 8;
constexpr int kClasses = kSmallClasses + (60 - 9) * kPerDoubling;

// Class of a size in 1..kMaxBlock. Above 512 bytes the steps are an eighth of the power of two below.
inline int class_of(int64_t bytes) {
  if (bytes <= 512) return static_cast<int>((bytes + kMinBlock - 1) / kMinBlock) - 1;
  const int exponent = std::bit_width(static_cast<uint64_t>(bytes - 1)) - 1;  // 2^exponent < bytes <= 2^(exponent+1)
  const int64_t step = (int64_t{1} << exponent) / kPerDoubling;
  const int eighth = static_cast<int>((bytes - (int64_t{1} << exponent) + step - 1) / step);  // 1..8
  return kSmallClasses + (exponent - 9) * kPerDoubling + eighth - 1;
}

inline int64_t size_of_class(int c) {
  if (c < kSmallClasses) return (c + 1) * kMinBlock;
  const int exponent = 9 + (c - kSmallClasses) / kPerDoubling;
  const int eighth = (c - kSmallClasses) % kPerDoubling + 1;
  return (int64_t{1} << exponent) / kPerDoubling * (kPerDoubling + eighth);
}

}  // namespace forethought
