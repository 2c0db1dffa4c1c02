// What Softmax and LogSoftmax share: attributes, shape rule, split of the work.
#pragma once

#include "kernels/softmax/softmax.h"
#include "ops/op.h"

namespace forethought {

struct SoftmaxOperator {
  int64_t axis = -1;
  bool coerce_2d = false;  // the form of opset 12 and earlier: all axes from `axis` on are normalised together

  static constexpr auto attrs =
      std::tuple{attr("axis", &SoftmaxOperator::axis), attr("_coerce_2d", &SoftmaxOperator::coerce_2d)};
  static constexpr Traits traits{.in = {kFloats}, .may_overwrite = 1};

  Status infer(InferCtx& c) const;

 protected:
  Status run_softmax(RunCtx& c, kernels::SoftmaxKind kind) const;
};

}  // namespace forethought
