#include "tensor/strides.h"

#include <algorithm>

#include "base/checked.h"

namespace forethought {

std::optional<Reach> reach_of(std::span<const int64_t> dims, std::span<const int64_t> strides) {
  Reach r;
  for (size_t d = 0; d < dims.size(); ++d) {
    const auto step = checked_mul(strides[d], dims[d] - 1);
    if (!step) return std::nullopt;
    int64_t& side = *step < 0 ? r.below : r.above;
    const auto sum = checked_add(side, *step);
    if (!sum) return std::nullopt;
    side = *sum;
  }
  return r;
}

bool is_row_major(std::span<const int64_t> dims, std::span<const int64_t> strides) {
  int64_t step = 1;
  for (size_t d = dims.size(); d-- > 0; step *= std::max<int64_t>(dims[d], 1))
    if (dims[d] != 1 && strides[d] != step) return false;
  return true;
}

}  // namespace forethought
