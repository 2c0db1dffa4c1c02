// Softmax: e^x / Σ e^x over one axis.
#include "ops/softmax/softmax_operator.h"

namespace forethought {

struct Softmax : SoftmaxOperator {
  static constexpr OpName name{"Softmax"};
  Status run(RunCtx& c) const { return run_softmax(c, kernels::SoftmaxKind::softmax); }
};
DEFINE_OP(Softmax)

}  // namespace forethought
