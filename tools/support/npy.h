// NumPy's .npy files: one array each, version 1.0 to 3.0, little-endian, C order when written.
#pragma once

#include <string>

#include "tensor/value.h"

namespace forethought {

// Reads numbers, bools and fixed-width unicode strings; Fortran order is turned. bfloat16 and smaller types, which .npy
// cannot name, come as the raw type that NumPy writes for them and are refused.
StatusOr<Tensor> read_npy(const std::string& path);
Status write_npy(const std::string& path, const Tensor& tensor);

}  // namespace forethought
