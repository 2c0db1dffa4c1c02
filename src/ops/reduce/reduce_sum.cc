// ReduceSum: the sum over the given axes.
#include "ops/reduce/reduce_operator.h"

namespace forethought {

struct ReduceSum : ReduceOperator {
  static constexpr OpName name{"ReduceSum"};
  static constexpr Traits traits = traits_for(kReduceSumTypes);

  Status infer(InferCtx& c) const { return infer_reduce(c, kernels::ReduceKind::sum); }
  Status run(RunCtx& c) const { return run_reduce(c, kernels::ReduceKind::sum); }
};
DEFINE_OP(ReduceSum)

}  // namespace forethought
