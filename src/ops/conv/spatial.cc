#include "ops/conv/spatial.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace forethought {
namespace {

// Sizes in attributes stay below this, so that sums and products of two of them cannot overflow.
constexpr int64_t kLimit = int64_t{1} << 31;

Status check_list(const std::vector<int64_t>& list, const char* what, int64_t least) {
  for (int64_t v : list)
    if (v < least || v >= kLimit)
      return invalid(absl::StrCat("attribute '", what, "' is [", absl::StrJoin(list, ","),
                                  "]; each entry must be from ", least, " to 2147483647"));
  return absl::OkStatus();
}

Status too_big(int d, int64_t kernel, int64_t padded) {
  return invalid(absl::StrCat("in spatial dimension ", d, " the kernel reaches over ", kernel,
                              " positions, but the padded input has only ", padded));
}

}  // namespace

Status SpatialAttributes::check() const {
  if (auto_pad != "NOTSET" && auto_pad != "VALID" && !auto_pad.empty() && !same_padding())
    return invalid(
        absl::StrCat("attribute 'auto_pad' is '", auto_pad, "'; it must be NOTSET, VALID, SAME_UPPER or SAME_LOWER"));
  RETURN_IF_ERROR(check_list(kernel_shape, "kernel_shape", 1));
  RETURN_IF_ERROR(check_list(strides, "strides", 1));
  RETURN_IF_ERROR(check_list(dilations, "dilations", 1));
  RETURN_IF_ERROR(check_list(pads, "pads", 0));
  if (pads.size() % 2 != 0)
    return invalid(absl::StrCat("attribute 'pads' has ", pads.size(), " entries, an odd number"));
  if (!kernel_shape.empty()) return check_rank(static_cast<int>(kernel_shape.size()));
  return absl::OkStatus();
}

Status SpatialAttributes::check_rank(int rank) const {
  const auto wrong = [&](const std::vector<int64_t>& list, const char* what, size_t want) {
    return list.empty() || list.size() == want
               ? absl::OkStatus()
               : invalid(absl::StrCat("attribute '", what, "' has ", list.size(), " entries; ", rank,
                                      " spatial dimensions need ", want));
  };
  if (rank < 1) return invalid("there are no spatial dimensions; the input must have rank 3 or more");
  RETURN_IF_ERROR(wrong(kernel_shape, "kernel_shape", rank));
  RETURN_IF_ERROR(wrong(strides, "strides", rank));
  RETURN_IF_ERROR(wrong(dilations, "dilations", rank));
  return wrong(pads, "pads", 2 * static_cast<size_t>(rank));
}

StatusOr<absl::InlinedVector<Dim, 6>> SpatialAttributes::output_dims(std::span<const Dim> in,
                                                                     std::span<const Dim> kernel,
                                                                     bool ceil_mode) const {
  const int rank = static_cast<int>(in.size());
  RETURN_IF_ERROR(check_rank(rank));
  absl::InlinedVector<Dim, 6> out;
  for (int d = 0; d < rank; ++d) {
    const Dim s = stride(d);
    if (same_padding()) {
      out.push_back(ceil_div(in[d], s));
      continue;
    }
    const Dim reach = (kernel[d] - Dim(1)) * Dim(dilation(d)) + Dim(1);
    const Dim padded = in[d] + Dim(pad_begin(d) + pad_end(d, rank));
    if (padded.is_known() && reach.is_known() && padded.value() < reach.value())
      return too_big(d, reach.value(), padded.value());
    if (ceil_mode) {
      // A last window that would start in the padding on the right is left out.
      out.push_back(
          min(ceil_div(padded - reach, s) + Dim(1), floor_div(in[d] + Dim(pad_begin(d)) - Dim(1), s) + Dim(1)));
    } else {
      out.push_back(floor_div(padded - reach, s) + Dim(1));
    }
  }
  return out;
}

StatusOr<kernels::Window> SpatialAttributes::window(std::span<const int64_t> in, std::span<const int64_t> kernel,
                                                    bool ceil_mode) const {
  const int rank = static_cast<int>(in.size());
  absl::InlinedVector<Dim, 6> in_dims(in.begin(), in.end()), kernel_dims(kernel.begin(), kernel.end());
  ASSIGN_OR_RETURN(const auto out, output_dims(in_dims, kernel_dims, ceil_mode));
  kernels::Window w;
  for (int d = 0; d < rank; ++d) {
    if (!out[d].is_known()) return invalid("output sizes overflow");
    const int64_t o = std::max<int64_t>(out[d].value(), 0), reach = (kernel[d] - 1) * dilation(d) + 1;
    int64_t begin = pad_begin(d), end = pad_end(d, rank);
    if (same_padding()) {
      const int64_t total = std::max<int64_t>((o - 1) * stride(d) + reach - in[d], 0);
      begin = auto_pad == "SAME_UPPER" ? total / 2 : total - total / 2;
      end = total - begin;
    }
    w.in.push_back(in[d]);
    w.out.push_back(o);
    w.kernel.push_back(kernel[d]);
    w.strides.push_back(stride(d));
    w.dilations.push_back(dilation(d));
    w.pads_begin.push_back(begin);
    w.pads_end.push_back(end);
  }
  return w;
}

}  // namespace forethought
