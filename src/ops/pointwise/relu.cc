// Relu: y = max(x, 0); NaN stays NaN.
#include "ops/pointwise/pointwise.h"

namespace forethought {

struct Relu : Unary<Relu, kernels::PointwiseOp::Relu> {
  static constexpr OpName name{"Relu"};
  static constexpr Traits traits = unary_traits(kFloats | kSignedInts);
};
DEFINE_OP(Relu)

}  // namespace forethought
