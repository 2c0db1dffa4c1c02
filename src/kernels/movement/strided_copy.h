// The general copy between two strided N-d layouts: what Transpose, Slice, Split, Concat, Expand, Tile and DepthToSpace
// are.
#pragma once

#include <cstdint>
#include <span>

#include "absl/container/inlined_vector.h"
#include "base/cpu.h"
#include "kernels/movement/element.h"

namespace forethought::kernels {

// A plan that is made once for a shape and run on any addresses: out[Σ i·out_step] = in[Σ i·in_step] for all index
// tuples i within the extents. Steps are in elements; an input step may be zero (broadcast) or negative (reversal, the
// address then being that of the first element read). No two tuples may write the same output element.
class StridedCopy {
 public:
  StridedCopy() = default;  // copies nothing
  // Outermost dim first; dims should come in the order of the output's memory. The caller knows that the product of
  // the extents fits. Merges what can be merged, so a plan of many dims costs no more than one of few.
  StridedCopy(Element element, std::span<const int64_t> extents, std::span<const int64_t> in_steps,
              std::span<const int64_t> out_steps);

  // The work in independent units; grain() of them are worth a block. Both depend on the shape alone.
  int64_t units() const { return units_; }
  int64_t grain() const { return grain_; }
  // Units [begin, end). `in` and `out` address the element of index tuple 0 and do not overlap.
  void run(Isa isa, const void* in, void* out, int64_t begin, int64_t end) const;

  // One run of elements that lie side by side in both: a view could stand in for the copy.
  bool contiguous() const { return form_ == Form::rows && outer_.empty() && mid_.extent == 1 && units_ > 0; }
  const char* form() const;  // "rows", "fill", "tiles" or "strided": what the innermost loop does

 private:
  struct Loop {
    int64_t extent, in_step, out_step;
  };
  enum class Form : uint8_t { rows, fill, strided, tiles };
  using Loops = absl::InlinedVector<Loop, 6>;

  void widen(Loops& loops);
  void cut(Loops& loops);
  template <typename T>
  void run_inner(Isa isa, const void* in, void* out, int64_t row, int64_t rows, int64_t chunk) const;

  Loops outer_;              // without the loops below
  Loop inner_{1, 1, 1};      // innermost in the output
  Loop mid_{1, 0, 0};        // the next one; for tiles, the one whose input step is 1
  int64_t inner_chunk_ = 1;  // a unit covers inner_chunk_ of inner_ and mid_chunk_ of mid_
  int64_t mid_chunk_ = 1;
  int64_t inner_chunks_ = 1, mid_chunks_ = 1;
  int64_t units_ = 0, grain_ = 1;
  Element element_ = Element::w1;
  Form form_ = Form::rows;
};

// The copies that the operators are made of. `dims` are those of the input unless said; all are row-major.
// out[i] = in[perm-permuted i]: out dim d is in dim perm[d].
StridedCopy transpose_copy(Element element, std::span<const int64_t> dims, std::span<const int64_t> perm);
// The input repeated repeats[d] times along each dim.
StridedCopy tile_copy(Element element, std::span<const int64_t> dims, std::span<const int64_t> repeats);
// `outer` pieces of `piece` elements each, `in_pitch` and `out_pitch` elements apart: Concat's and Split's windows.
StridedCopy window_copy(Element element, int64_t outer, int64_t piece, int64_t in_pitch, int64_t out_pitch);

}  // namespace forethought::kernels
