// Relu: y = max(x, 0); NaN stays NaN.
#include "ops/op.h"

namespace forethought {

struct Relu {
  static constexpr OpName name{"Relu"};
  static constexpr auto attrs = std::tuple{};
  static constexpr Traits traits{.in = {DType::kFloat}, .may_overwrite = 1, .elementwise = true};

  Status infer(InferCtx& c) const {
    c.set(0, c.dtype(0), c.shape(0));
    return absl::OkStatus();
  }
  Status run(RunCtx& c) const {
    const float* x = c.in_as<float>(0);
    float* y = c.out_as<float>(0);
    parallel_ranges(c, c.in(0).storage(), 32768, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) y[i] = x[i] > 0 || x[i] != x[i] ? x[i] : 0.0f;
    });
    return absl::OkStatus();
  }
};
DEFINE_OP(Relu)

}  // namespace forethought
