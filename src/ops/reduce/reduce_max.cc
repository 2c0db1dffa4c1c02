// ReduceMax: the maximum over the given axes.
#include "ops/reduce/reduce_operator.h"

namespace forethought {

struct ReduceMax : ReduceOperator {
  static constexpr OpName name{"ReduceMax"};
  static constexpr Traits traits = traits_for(kReduceExtremeTypes);

  Status infer(InferCtx& c) const { return infer_reduce(c, kernels::ReduceKind::max); }
  Status run(RunCtx& c) const { return run_reduce(c, kernels::ReduceKind::max); }
};
DEFINE_OP(ReduceMax)

}  // namespace forethought
