// What Softmax and LogSoftmax share: attributes, shape rule, split of the work.
#include "ops/softmax/softmax_operator.h"

#include <algorithm>

namespace forethought {

Status SoftmaxOperator::infer(InferCtx& c) const {
  const SymShape& in = c.shape(0);
  if (in.has_rank) RETURN_IF_ERROR(c.axis(axis, in.rank()).status());
  c.set(0, c.dtype(0), in);
  c.by_formula();
  return absl::OkStatus();
}

Status SoftmaxOperator::run_softmax(RunCtx& c, kernels::SoftmaxKind kind) const {
  constexpr int64_t kGrain = 8192;  // elements a block normalises at least
  const Arg& x = c.in(0);
  const int first = static_cast<int>(axis < 0 ? axis + x.rank : axis);
  if (first < 0 || first >= x.rank)
    return invalid(absl::StrCat("axis ", axis, " is outside a tensor of rank ", x.rank));
  int64_t outer = 1, n = 1, inner = 1;
  for (int i = 0; i < x.rank; ++i) (i < first ? outer : i == first || coerce_2d ? n : inner) *= x.dim(i);
  const int64_t grain = std::max({kGrain / std::max<int64_t>(n, 1), std::min<int64_t>(inner, 64), int64_t{1}});
  const Isa isa = active_isa();
  if (x.elements == 0) return absl::OkStatus();
  parallel_ranges(c, outer * inner, grain, [&](int64_t begin, int64_t end, int) {
    kernels::softmax(isa, kind, x.dtype, x.data, c.out(0).data, n, inner, begin, end);
  });
  return absl::OkStatus();
}

}  // namespace forethought
