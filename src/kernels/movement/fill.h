// Fills elements with one value: ConstantOfShape.
#pragma once

#include <cstdint>

#include "kernels/movement/element.h"

namespace forethought::kernels {

constexpr int64_t kFillGrain = 64 * 1024;  // elements worth a block

// Writes `value` (one element) to the elements [begin, end) of out.
void fill(Element element, const void* value, void* out, int64_t begin, int64_t end);

}  // namespace forethought::kernels
