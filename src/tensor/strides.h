// Where the elements of a tensor with strides lie. Strides are in elements: 0 where a dim repeats, negative where it
// runs backwards.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace forethought {

// Elements from the first one to the lowest (at most 0) and to the highest (at least 0).
struct Reach {
  int64_t below = 0, above = 0;
};
// Nothing if one of the two overflows. For shapes that have elements.
std::optional<Reach> reach_of(std::span<const int64_t> dims, std::span<const int64_t> strides);

// Whether elements follow one another as without strides; those of dims of one element do not matter.
bool is_row_major(std::span<const int64_t> dims, std::span<const int64_t> strides);

}  // namespace forethought
