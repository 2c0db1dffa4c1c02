// Dropout in training mode, with the random stream of numpy's RandomState(seed).
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace forethought::kernels {

// The Mersenne Twister MT19937 (Matsumoto, Nishimura 1998), seeded and read as numpy does.
class Mt19937 {
 public:
  explicit Mt19937(uint32_t seed);
  uint32_t next();
  double next_double();  // uniform in [0, 1), 53 bits

 private:
  void refill();
  std::array<uint32_t, 624> state_;
  size_t at_ = 624;
};

// keep[i] = 1 where the next number of the stream is at least `ratio`.
void dropout_mask(Mt19937& random, double ratio, std::span<uint8_t> keep);

}  // namespace forethought::kernels
