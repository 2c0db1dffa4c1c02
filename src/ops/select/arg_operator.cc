// What ArgMax and ArgMin share: attributes, shape rule, split of the work.
#include "ops/select/arg_operator.h"

#include <algorithm>

#include "ops/select/slices.h"

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
  c.by_formula();
  return absl::OkStatus();
}

Status ArgOperator::run_arg(RunCtx& c, kernels::ArgKind kind) const {
  constexpr int64_t kGrain = 16384;  // elements a block reads at least
  const Arg& x = c.in(0);
  ASSIGN_OR_RETURN(const Slices s, slices_of(x, axis));
  const int64_t n = s.n, inner = s.inner;
  if (s.outer * inner == 0) return absl::OkStatus();
  if (n == 0) return invalid(absl::StrCat("axis ", axis, " has no elements, so none of them is the extreme"));
  const int64_t grain = std::max({kGrain / n, std::min<int64_t>(inner, 64), int64_t{1}});
  const Isa isa = active_isa();
  parallel_ranges(c, s.outer * inner, grain, [&](int64_t begin, int64_t end, int) {
    kernels::arg_extreme(isa, kind, select_last_index, x.dtype, x.data, c.out_as<int64_t>(0), n, inner, begin, end);
  });
  return absl::OkStatus();
}

}  // namespace forethought
