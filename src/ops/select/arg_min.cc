// ArgMin: the index of the smallest element along an axis.
#include "ops/select/arg_operator.h"

namespace forethought {

struct ArgMin : ArgOperator {
  static constexpr OpName name{"ArgMin"};
  Status run(RunCtx& c) const { return run_arg(c, kernels::ArgKind::min); }
};
DEFINE_OP(ArgMin)

}  // namespace forethought
