// What ReduceSum, ReduceMean, ReduceMax and ReduceMin share: attributes, shape rule, split of the work.
#pragma once

#include "kernels/reduce/reduce.h"
#include "ops/op.h"

namespace forethought {

struct ReduceOperator {
  bool keepdims = true;
  bool noop_with_empty_axes = false;

  static constexpr auto attrs = std::tuple{attr("keepdims", &ReduceOperator::keepdims),
                                           attr("noop_with_empty_axes", &ReduceOperator::noop_with_empty_axes)};
  static constexpr Traits traits_for(TypeSet data) {
    return {.min_inputs = 1, .max_inputs = 2, .in = {data, DType::kInt64}};
  }
  // Besides plain tensors: kept N and C and reduced spatial axes of the channel layouts.
  bool accepts(LayoutQuery& query) const;

 protected:
  Status infer_reduce(InferCtx& c, kernels::ReduceKind kind) const;
  Status run_reduce(RunCtx& c, kernels::ReduceKind kind) const;
};

// The element types of the schemas; the kernels have exactly these.
constexpr TypeSet kReduceSumTypes = kFloats | DType::kInt32 | DType::kInt64 | DType::kUint32 | DType::kUint64;
constexpr TypeSet kReduceExtremeTypes = kReduceSumTypes | DType::kInt8 | DType::kUint8 | DType::kBool;

}  // namespace forethought
