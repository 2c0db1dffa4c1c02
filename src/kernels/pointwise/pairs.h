// A tile of f(a[i], b[i]) where either operand may be one element for all.
#pragma once

#include <cstdint>

#include "kernels/pointwise/tile.h"

namespace forethought::kernels {

// Each form is a loop of its own, so that compilers see plain strides.
template <typename T, typename O, typename F>
void pairs(const TileArg* args, void* out, int64_t n, F&& f) {
  if (n <= 0) return;
  const auto *a = static_cast<const T*>(args[0].data), *b = static_cast<const T*>(args[1].data);
  auto* o = static_cast<O*>(out);
  const T a0 = *a, b0 = *b;  // before anything is written: the output may take the place of an operand
  if (args[0].scalar && args[1].scalar) {
    for (int64_t i = 0; i < n; ++i) o[i] = f(a0, b0);
  } else if (args[0].scalar) {
    for (int64_t i = 0; i < n; ++i) o[i] = f(a0, b[i]);
  } else if (args[1].scalar) {
    for (int64_t i = 0; i < n; ++i) o[i] = f(a[i], b0);
  } else {
    for (int64_t i = 0; i < n; ++i) o[i] = f(a[i], b[i]);
  }
}

}  // namespace forethought::kernels
