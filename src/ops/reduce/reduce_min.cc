// ReduceMin: the minimum over the given axes.
#include "ops/reduce/reduce_operator.h"

namespace forethought {

struct ReduceMin : ReduceOperator {
  static constexpr OpName name{"ReduceMin"};
  static constexpr Traits traits = traits_for(kReduceExtremeTypes);

  Status infer(InferCtx& c) const { return infer_reduce(c, kernels::ReduceKind::min); }
  Status run(RunCtx& c) const { return run_reduce(c, kernels::ReduceKind::min); }
};
DEFINE_OP(ReduceMin)

}  // namespace forethought
