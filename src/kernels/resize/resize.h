// ONNX Resize of any rank, type and mode: a plan for one shape, run on any addresses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/cpu.h"
#include "base/dtype.h"
#include "kernels/resize/axis.h"

namespace forethought::kernels {

// The work comes in phases, which run one after the other; the units of a phase are independent. Values are computed in
// float (double where float cannot hold the type), axis by axis, and rounded once at the end.
class Resize {
 public:
  virtual ~Resize() = default;

  // One axis for each dim of the input. Nearest serves every type of whole bytes and strings, the other modes numbers.
  static StatusOr<std::unique_ptr<const Resize>> make(DType dtype, const ResizeParams& params,
                                                      std::span<const ResizeAxis> axes);

  virtual const char* name() const = 0;  // "nearest", "bilinear" (two innermost axes, f32), "separable"
  virtual int phases() const = 0;
  virtual int64_t units(int phase) const = 0;
  virtual int64_t grain(int phase) const = 0;                // units worth a block
  virtual size_t scratch_bytes() const { return 0; }         // shared by all phases of a run; 64-byte aligned
  virtual size_t worker_scratch_bytes() const { return 0; }  // for each thread
  virtual void run(Isa isa, int phase, const void* in, void* out, std::byte* scratch, std::byte* worker_scratch,
                   int64_t begin, int64_t end) const = 0;
};

// What make() picks from; each may also be asked for directly where it applies.
StatusOr<std::unique_ptr<const Resize>> make_nearest_resize(DType dtype, const ResizeParams& params,
                                                            std::span<const ResizeAxis> axes);
StatusOr<std::unique_ptr<const Resize>> make_separable_resize(DType dtype, const ResizeParams& params,
                                                              std::span<const ResizeAxis> axes);
// Null where it does not apply: f32, two taps, the two innermost axes and no other, nothing extrapolated.
StatusOr<std::unique_ptr<const Resize>> make_bilinear_resize(DType dtype, const ResizeParams& params,
                                                             std::span<const ResizeAxis> axes);

}  // namespace forethought::kernels
