// Concrete shapes: dims of a tensor, row-major strides, and the layouts in which its elements can lie.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "absl/container/inlined_vector.h"
#include "base/dtype.h"

namespace forethought {

using Dims = absl::InlinedVector<int64_t, 8>;

std::string to_string(std::span<const int64_t> dims);  // "[2,3]"

// Elements of a shape; nullopt on overflow or a negative dim.
std::optional<int64_t> element_count(std::span<const int64_t> dims);

// Row-major strides in elements. Shapes with a zero dim get the strides of the same shape with ones.
Dims row_major_strides(std::span<const int64_t> dims);

// How the elements of a tensor lie in memory. Logical dims stay N,C,spatial… in every layout.
struct Layout {
  enum class Kind : uint8_t {
    plain,             // row-major in the logical order
    channels_last,     // N, spatial…, C
    blocked_channels,  // N, ⌈C/block⌉, spatial…, block; channels beyond C are zero
  };
  Kind kind = Kind::plain;
  uint8_t block = 1;

  static constexpr Layout plain() { return {}; }
  static constexpr Layout channels_last() { return {Kind::channels_last, 1}; }
  static constexpr Layout blocked(uint8_t block) { return {Kind::blocked_channels, block}; }
  constexpr bool is_plain() const { return kind == Kind::plain; }
  constexpr bool is_blocked() const { return kind == Kind::blocked_channels; }
  constexpr bool operator==(const Layout&) const = default;
};
std::string to_string(Layout layout);  // "plain", "nhwc", "nChw16c"
std::optional<Layout> layout_from_name(std::string_view name);

// Elements that a tensor of these logical dims occupies in this layout (padding included); nullopt on overflow.
std::optional<int64_t> storage_elements(Layout layout, std::span<const int64_t> dims);
// The same in bytes. Strings occupy sizeof(std::string) each.
std::optional<int64_t> storage_bytes(DType dtype, Layout layout, std::span<const int64_t> dims);

}  // namespace forethought
