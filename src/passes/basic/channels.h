// Constants that broadcast against [N,C,spatial…] with one number for each channel.
#pragma once

#include <cstdint>
#include <vector>

#include "tensor/value.h"

namespace forethought::passes {

// The numbers of an f32 constant: one element for all channels, or one each at the place that broadcasting gives the
// channels of a tensor of that rank. Empty if it is something else.
std::vector<double> per_channel(const Tensor& c, int rank, int64_t channels);

}  // namespace forethought::passes
