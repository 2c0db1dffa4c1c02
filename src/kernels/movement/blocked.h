// Reorders between plain N,C,spatial… and blocked channels (nChw16c, nChw8c and their 1-d and 3-d forms), f32.
#pragma once

#include <cstdint>

#include "base/cpu.h"

namespace forethought::kernels {

// blocked[n][⌈c/block⌉][s][c % block] = plain[n][c][s], where s runs over all spatial dims. Channels beyond the last
// are written as zeros in the blocked form and not read from it.
struct BlockedShape {
  int64_t batch = 1, channels = 1, spatial = 1;
  int64_t block = 16;  // 8 or 16, or any positive number

  int64_t channel_blocks() const { return (channels + block - 1) / block; }
  // One unit is a piece of the spatial extent of one channel block of one image.
  int64_t units() const;
  int64_t grain() const;  // units worth a block of work
};
void to_blocked(Isa isa, const BlockedShape& shape, const float* plain, float* blocked, int64_t begin, int64_t end);
void from_blocked(Isa isa, const BlockedShape& shape, const float* blocked, float* plain, int64_t begin, int64_t end);

}  // namespace forethought::kernels
