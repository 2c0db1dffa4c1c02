// A tensor as slices along an axis, or as its elements one by one: how the operators that choose among them see it.
#pragma once

#include <optional>
#include <span>

#include "ops/op.h"

namespace forethought {

struct Slices {
  int64_t outer = 1, n = 0, inner = 1;  // `n` slices, each of outer × inner elements
  std::optional<int> axis;              // none: each element is a slice
};
// An error if the axis is outside the tensor's rank.
StatusOr<Slices> slices_of(const Arg& x, std::optional<int64_t> axis);
// Makes output `slot` of these slices of `x`, in this order; along the axis it has so many.
Status take_slices(RunCtx& c, int slot, const Arg& x, const Slices& s, std::span<const int64_t> picked);

}  // namespace forethought
