#include "kernels/resize/resize.h"

namespace forethought::kernels {

StatusOr<std::unique_ptr<const Resize>> Resize::make(DType dtype, const ResizeParams& params,
                                                     std::span<const ResizeAxis> axes) {
  if (params.mode == ResizeMode::nearest) return make_nearest_resize(dtype, params, axes);
  ASSIGN_OR_RETURN(std::unique_ptr<const Resize> bilinear, make_bilinear_resize(dtype, params, axes));
  if (bilinear) return bilinear;
  return make_separable_resize(dtype, params, axes);
}

}  // namespace forethought::kernels
