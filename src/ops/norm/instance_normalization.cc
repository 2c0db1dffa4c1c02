// InstanceNormalization: y = (x − mean) / √(var + ε) · scale + B with the moments of each channel of each instance.
#include <algorithm>

#include "kernels/norm/norm.h"
#include "ops/op.h"

namespace forethought {

struct InstanceNormalization {
  float epsilon = 1e-5f;

  static constexpr OpName name{"InstanceNormalization"};
  static constexpr auto attrs = std::tuple{attr("epsilon", &InstanceNormalization::epsilon)};
  static constexpr Traits traits{
      .min_inputs = 3, .max_inputs = 3, .in = {kFloats, kFloats, kFloats}, .may_overwrite = 1};

  Status infer(InferCtx& c) const {
    const SymShape& x = c.shape(0);
    if (x.has_rank && x.rank() < 2)
      return invalid(absl::StrCat("input 0 has rank ", x.rank(), "; it needs N and C axes"));
    for (int i : {1, 2}) {
      if (c.dtype(i) != DType::kUndefined && c.dtype(0) != DType::kUndefined && c.dtype(i) != c.dtype(0))
        return invalid(absl::StrCat("input ", i, " is ", to_string(c.type(i)), " beside ", to_string(c.type(0))));
      const SymShape& s = c.shape(i);
      if (s.has_rank && s.rank() != 1) return invalid(absl::StrCat("input ", i, " has rank ", s.rank(), ", not 1"));
      if (s.has_rank && x.has_rank && s.dims[0].is_known() && x.dims[1].is_known() &&
          s.dims[0].value() != x.dims[1].value())
        return invalid(
            absl::StrCat("input ", i, " has ", s.dims[0].value(), " elements for ", x.dims[1].value(), " channels"));
    }
    c.set(0, c.dtype(0), x);
    c.by_formula();
    return absl::OkStatus();
  }

  Status run(RunCtx& c) const {
    constexpr int64_t kGrain = 16384;  // elements a block normalises at least
    const Arg& x = c.in(0);
    if (x.elements == 0) return absl::OkStatus();
    const int64_t channels = x.dim(1), rows = x.dim(0) * channels, inner = x.elements / rows;
    for (int i : {1, 2})
      if (c.in(i).elements != channels)
        return invalid(absl::StrCat("input ", i, " has ", c.in(i).elements, " elements for ", channels, " channels"));
    const Isa isa = active_isa();
    parallel_ranges(c, rows, std::max<int64_t>(kGrain / inner, 1), [&](int64_t begin, int64_t end, int) {
      kernels::instance_norm(isa, x.dtype, channels, inner, epsilon, c.in(1).data, c.in(2).data, x.data, c.out(0).data,
                             begin, end);
    });
    return absl::OkStatus();
  }
};
DEFINE_OP(InstanceNormalization)

}  // namespace forethought
