// What ArgMax and ArgMin share: attributes, shape rule, split of the work.
#pragma once

#include "kernels/select/select.h"
#include "ops/op.h"

namespace forethought {

struct ArgOperator {
  int64_t axis = 0;
  bool keepdims = true;
  bool select_last_index = false;

  static constexpr auto attrs = std::tuple{attr("axis", &ArgOperator::axis), attr("keepdims", &ArgOperator::keepdims),
                                           attr("select_last_index", &ArgOperator::select_last_index)};
  static constexpr Traits traits{.in = {kNumbers}};

  Status infer(InferCtx& c) const;

 protected:
  Status run_arg(RunCtx& c, kernels::ArgKind kind) const;
};

}  // namespace forethought
