// ONNX Pad: borders of a constant, of mirrored, repeated or wrapped elements; negative pads crop.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "absl/container/inlined_vector.h"
#include "base/status.h"
#include "kernels/movement/element.h"

namespace forethought::kernels {

enum class PadMode : uint8_t { constant, reflect, edge, wrap };

// A plan for one shape, run on any addresses. Negative pads crop first, then the other pads are taken from what is
// left. Refused: cropping more than an axis has; reflecting further than (what is left of the axis) - 1, since the
// mirror image ends there; edge, reflect or wrap of an axis with nothing left.
class Pad {
 public:
  // `begins` and `ends` have one entry a dim.
  static StatusOr<Pad> make(Element element, PadMode mode, std::span<const int64_t> dims,
                            std::span<const int64_t> begins, std::span<const int64_t> ends);

  std::span<const int64_t> out_dims() const { return out_dims_; }
  int64_t units() const { return units_; }  // independent pieces of work, by shape alone
  int64_t grain() const { return grain_; }  // units worth a block
  // Units [begin, end). `value` is one element, read in constant mode only.
  void run(const void* in, const void* value, void* out, int64_t begin, int64_t end) const;

 private:
  struct Axis {
    int64_t crop = 0, kept = 1;      // elements of the input: [crop, crop + kept)
    int64_t before = 0, extent = 1;  // of the output: `before` pads, then `kept` elements, then pads
    int64_t in_step = 1;
  };
  int64_t source(const Axis& axis, int64_t i) const;
  template <typename T>
  void run_row(const void* in, const void* value, void* out, int64_t row_in, int64_t row_out, int64_t begin,
               int64_t end) const;

  absl::InlinedVector<Axis, 6> axes_;
  absl::InlinedVector<int64_t, 8> out_dims_;
  int64_t chunk_ = 1, chunks_ = 1;  // a unit is a piece of chunk_ elements of an innermost row
  int64_t units_ = 0, grain_ = 1;
  Element element_ = Element::w1;
  PadMode mode_ = PadMode::constant;
};

}  // namespace forethought::kernels
