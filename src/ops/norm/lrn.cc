// LRN: y = x / (bias + α / size · Σ x²)^β, the sum over `size` neighbouring channels.
#include <algorithm>

#include "kernels/norm/norm.h"
#include "ops/op.h"

namespace forethought {

struct LRN {
  float alpha = 1e-4f;
  float beta = 0.75f;
  float bias = 1.0f;
  int64_t size = 0;

  static constexpr OpName name{"LRN"};
  static constexpr auto attrs = std::tuple{attr("alpha", &LRN::alpha), attr("beta", &LRN::beta),
                                           attr("bias", &LRN::bias), required("size", &LRN::size)};
  static constexpr Traits traits{.in = {kFloats}};

  Status init(const GraphNode&) const {
    if (size < 1) return invalid(absl::StrCat("attribute 'size' is ", size, "; at least one channel is summed"));
    return absl::OkStatus();
  }

  Status infer(InferCtx& c) const {
    const SymShape& x = c.shape(0);
    if (x.has_rank && x.rank() < 2)
      return invalid(absl::StrCat("input 0 has rank ", x.rank(), "; it needs N and C axes"));
    c.set(0, c.dtype(0), x);
    c.by_formula();
    return absl::OkStatus();
  }

  // Convolution regions keep their channel layout through it.
  bool accepts(LayoutQuery& q) const {
    const ValueType* type = q.input_types[0];
    if (size > kernels::kMaxBlockedLrn || !type || !type->is_tensor() || type->dtype() != DType::kFloat) return false;
    q.outputs[0] = q.inputs[0];
    return true;
  }

  Status run(RunCtx& c) const {
    constexpr int64_t kGrain = 16384;  // squares a block sums at least
    const Arg& x = c.in(0);
    if (x.elements == 0) return absl::OkStatus();
    const int64_t channels = x.dim(1), rows = x.dim(0) * channels, inner = x.elements / rows;
    const int64_t window = std::min(size, channels);
    const Isa isa = active_isa();
    const kernels::Lrn p{size, alpha, beta, bias};
    if (x.layout.is_plain()) {
      parallel_ranges(c, rows, std::max<int64_t>(kGrain / window / inner, 1), [&](int64_t begin, int64_t end, int) {
        kernels::lrn(isa, x.dtype, p, channels, inner, x.data, c.out(0).data, begin, end);
      });
      return absl::OkStatus();
    }
    const int64_t block = x.layout.is_blocked() ? x.layout.block : channels;
    parallel_ranges(
        c, x.dim(0) * inner, std::max<int64_t>(kGrain / window / channels, 1), [&](int64_t begin, int64_t end, int) {
          kernels::lrn_blocked(isa, p, channels, inner, block, x.as<float>(), c.out_as<float>(0), begin, end);
        });
    return absl::OkStatus();
  }
};
DEFINE_OP(LRN)

}  // namespace forethought
