// ReduceMean: the mean over the given axes.
#include "ops/reduce/reduce_operator.h"

namespace forethought {

struct ReduceMean : ReduceOperator {
  static constexpr OpName name{"ReduceMean"};
  static constexpr Traits traits = traits_for(kReduceSumTypes);

  Status infer(InferCtx& c) const { return infer_reduce(c, kernels::ReduceKind::mean); }
  Status run(RunCtx& c) const { return run_reduce(c, kernels::ReduceKind::mean); }
};
DEFINE_OP(ReduceMean)

}  // namespace forethought
