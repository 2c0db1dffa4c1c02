#include "tensor/shape.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/checked.h"

namespace forethought {

std::string to_string(std::span<const int64_t> dims) { return absl::StrCat("[", absl::StrJoin(dims, ","), "]"); }

std::optional<int64_t> element_count(std::span<const int64_t> dims) { return checked_product(dims); }

Dims row_major_strides(std::span<const int64_t> dims) {
  Dims strides(dims.size(), 1);
  for (int i = static_cast<int>(dims.size()) - 2; i >= 0; --i)
    strides[i] = strides[i + 1] * (dims[i + 1] == 0 ? 1 : dims[i + 1]);
  return strides;
}

std::string to_string(Layout layout) {
  switch (layout.kind) {
    case Layout::Kind::plain:
      return "plain";
    case Layout::Kind::channels_last:
      return "nhwc";
    case Layout::Kind::blocked_channels:
      return absl::StrCat("nChw", static_cast<int>(layout.block), "c");
  }
  return "?";
}

std::optional<Layout> layout_from_name(std::string_view name) {
  for (Layout l : {Layout::plain(), Layout::channels_last(), Layout::blocked(8), Layout::blocked(16)})
    if (to_string(l) == name) return l;
  return std::nullopt;
}

std::optional<int64_t> storage_elements(Layout layout, std::span<const int64_t> dims) {
  if (!layout.is_blocked() || dims.size() < 2) return element_count(dims);
  Dims padded(dims.begin(), dims.end());
  const auto rounded = checked_add(padded[1], layout.block - 1);
  if (!rounded) return std::nullopt;
  padded[1] = *rounded / layout.block * layout.block;
  return element_count(padded);
}

std::optional<int64_t> storage_bytes(DType dtype, Layout layout, std::span<const int64_t> dims) {
  const auto n = storage_elements(layout, dims);
  if (!n) return std::nullopt;
  if (dtype == DType::kString) return checked_mul(*n, sizeof(std::string));
  return byte_size(dtype, *n);
}

}  // namespace forethought
