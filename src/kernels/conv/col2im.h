// The second half of a transposed convolution: y[i·s + k·d - p] += columns[k][i], after the matrix product.
#pragma once

#include <cstdint>

#include "kernels/conv/window.h"

namespace forethought::kernels {

// Writes one output plane: `start` everywhere, plus `columns`, [kernel..., in...] with the window of a transposed
// convolution (`in` is the smaller side that the stride spreads).
void col2im(const Window& window, const float* columns, float start, float* y);

}  // namespace forethought::kernels
