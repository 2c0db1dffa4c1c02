// ArgMax: the index of the largest element along an axis.
#include "ops/select/arg_operator.h"

namespace forethought {

struct ArgMax : ArgOperator {
  static constexpr OpName name{"ArgMax"};
  Status run(RunCtx& c) const { return run_arg(c, kernels::ArgKind::max); }
};
DEFINE_OP(ArgMax)

}  // namespace forethought
