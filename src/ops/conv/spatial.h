// The attributes that convolutions and pools share, and what follows from them: output sizes and the window's geometry.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "graph/dim.h"
#include "kernels/conv/window.h"

namespace forethought {

struct SpatialAttributes {
  std::string auto_pad = "NOTSET";
  std::vector<int64_t> kernel_shape, strides, pads, dilations;

  // Values that no shape could make right: negative sizes, an unknown auto_pad, lists of different lengths.
  Status check() const;
  // ok, or an error that names the attribute whose list has another length than `rank` spatial dimensions.
  Status check_rank(int rank) const;
  // Output sizes of a sliding window of sizes `kernel` over `in`, which may hold symbols.
  StatusOr<absl::InlinedVector<Dim, 6>> output_dims(std::span<const Dim> in, std::span<const Dim> kernel,
                                                    bool ceil_mode) const;
  // The same on numbers, with everything a kernel needs. Fails where output_dims does, and if sizes overflow.
  StatusOr<kernels::Window> window(std::span<const int64_t> in, std::span<const int64_t> kernel, bool ceil_mode) const;

  int64_t stride(int d) const { return strides.empty() ? 1 : strides[d]; }
  int64_t dilation(int d) const { return dilations.empty() ? 1 : dilations[d]; }
  int64_t pad_begin(int d) const { return explicit_pads() ? pads[d] : 0; }
  int64_t pad_end(int d, int rank) const { return explicit_pads() ? pads[rank + d] : 0; }
  bool same_padding() const { return auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER"; }

 private:
  bool explicit_pads() const { return !pads.empty() && (auto_pad == "NOTSET" || auto_pad.empty()); }
};

}  // namespace forethought
