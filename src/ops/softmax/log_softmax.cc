// LogSoftmax: x − ln Σ e^x over one axis.
#include "ops/softmax/softmax_operator.h"

namespace forethought {

struct LogSoftmax : SoftmaxOperator {
  static constexpr OpName name{"LogSoftmax"};
  Status run(RunCtx& c) const { return run_softmax(c, kernels::SoftmaxKind::log_softmax); }
};
DEFINE_OP(LogSoftmax)

}  // namespace forethought
