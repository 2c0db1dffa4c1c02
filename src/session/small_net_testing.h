// A small convolution net with every kind of memory a plan knows, for tests of sessions.
#pragma once

#include <string>

#include "tensor/value.h"

namespace forethought {

// Convolutions (one grouped), a residual sum, a concatenation, pooling, views, Gemm and Softmax, with random constants.
// Input x: f32[1,3,20,20]. Outputs: f32[1,10] and f32[1,32,20,20].
std::string small_net();
// Elementwise operators, views and a concatenation alone, of f32[4,64]: no library takes part. Two outputs.
std::string plain_net();

Value random_floats(const Dims& dims, uint64_t seed);

}  // namespace forethought
