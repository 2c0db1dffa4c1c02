// What ArgMax and ArgMin share: attributes, shape rule, split of the work.
#include "ops/select/arg_operator.h"

#include <algorithm>

namespace forethought {

Status ArgOperator::infer(InferCtx& c) const {
  const SymShape& in = c.shape(0);
  SymShape out;
  if (in.has_rank) {
    ASSIGN_OR_RETURN(const int at, c.axis(axis, in.rank()));
    out = SymShape::scalar();
    for (int i = 0; i < in.rank(); ++i) {
      if (i != at) {
        out.dims.push_back(in.dims[i]);
      } else if (keepdims) {
        out.dims.push_back(1);
      }
    }
  }
  c.set(0, DType::kInt64, std::move(out));
  return absl::OkStatus();
}

Status ArgOperator::run_arg(RunCtx& c, kernels::ArgKind kind) const {
  constexpr int64_t kGrain = 16384;  // elements a block reads at least
  const Arg& x = c.in(0);
  const int at = static_cast<int>(axis < 0 ? axis + x.rank : axis);
  if (at < 0 || at >= x.rank) return invalid(absl::StrCat("axis ", axis, " is outside a tensor of rank ", x.rank));
  int64_t outer = 1, inner = 1;
  for (int i = 0; i < x.rank; ++i)
    if (i != at) (i < at ? outer : inner) *= x.dim(i);
  const int64_t n = x.dim(at);
  if (outer * inner == 0) return absl::OkStatus();
  if (n == 0) return invalid(absl::StrCat("axis ", axis, " has no elements, so none of them is the extreme"));
  const int64_t grain = std::max({kGrain / n, std::min<int64_t>(inner, 64), int64_t{1}});
  const Isa isa = active_isa();
  parallel_ranges(c, outer * inner, grain, [&](int64_t begin, int64_t end, int) {
    kernels::arg_extreme(isa, kind, select_last_index, x.dtype, x.data, c.out_as<int64_t>(0), n, inner, begin, end);
  });
  return absl::OkStatus();
}

}  // namespace forethought
