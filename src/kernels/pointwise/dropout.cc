// Mersenne Twister and the mask of Dropout in training mode.
#include "kernels/pointwise/dropout.h"

namespace forethought::kernels {

Mt19937::Mt19937(uint32_t seed) {
  for (uint32_t i = 0; i < state_.size(); ++i) {
    state_[i] = seed;
    seed = 1812433253u * (seed ^ (seed >> 30)) + i + 1;
  }
}

void Mt19937::refill() {
  constexpr size_t kN = 624, kM = 397;
  for (size_t i = 0; i < kN; ++i) {
    const uint32_t y = (state_[i] & 0x80000000u) | (state_[(i + 1) % kN] & 0x7fffffffu);
    state_[i] = state_[(i + kM) % kN] ^ (y >> 1) ^ ((y & 1u) ? 0x9908b0dfu : 0u);
  }
  at_ = 0;
}

uint32_t Mt19937::next() {
  if (at_ == state_.size()) refill();
  uint32_t y = state_[at_++];
  y ^= y >> 11;
  y ^= (y << 7) & 0x9d2c5680u;
  y ^= (y << 15) & 0xefc60000u;
  return y ^ (y >> 18);
}

double Mt19937::next_double() {
  const uint32_t high = next() >> 5, low = next() >> 6;
  return (high * 67108864.0 + low) / 9007199254740992.0;
}

void dropout_mask(Mt19937& random, double ratio, std::span<uint8_t> keep) {
  for (uint8_t& k : keep) k = random.next_double() >= ratio;
}

}  // namespace forethought::kernels
