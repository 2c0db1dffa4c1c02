// Max, Min, Sum and Mean of any number of tensors, with numpy's broadcasting.
#include <algorithm>
#include <cmath>

#include "ops/pointwise/pointwise.h"
#include "ops/pointwise/propagate.h"

namespace forethought {
namespace {

// More operands than a program numbers are refused.
constexpr int kMaxOperands = 4096;

constexpr Traits variadic_traits(TypeSet types) {
  return {.min_inputs = 1,
          .max_inputs = kMaxOperands,
          .in = {types, types, types, types, types, types},
          .may_overwrite = ~0u,
          .elementwise = true,
          .strided = ~0u};
}

Status infer_variadic(InferCtx& c, const ElementRule& rule) {
  RETURN_IF_ERROR(require_one_type(c, c.inputs()));
  ASSIGN_OR_RETURN(SymShape shape, broadcast_shapes(c, c.inputs()));
  const DType dtype = c.dtype(0);
  c.set(0, dtype, std::move(shape));
  if (rule.ints != nullptr) propagate(c, c.inputs(), dtype, rule);
  c.by_formula();
  return absl::OkStatus();
}

StatusOr<KernelFacts> choose_variadic(const ChooseCtx& ctx, const OpName& name, const Traits& traits,
                                      kernels::PointwiseOp op, double divisor = 1) {
  return choose_pointwise(ctx, name, traits, {}, [&](kernels::Program& p, std::span<const int> v) {
    int r = v[0];
    for (size_t i = 1; i < v.size(); ++i) r = p.apply(op, {r, v[i]});
    return divisor == 1 ? r : p.apply(kernels::PointwiseOp::DivideBy, {r}, {divisor, 0});
  });
}

Dim larger(const Dim& a, const Dim& b) { return max(a, b); }
Dim smaller(const Dim& a, const Dim& b) { return min(a, b); }

}  // namespace

struct Max : BroadcastLayouts {
  static constexpr OpName name{"Max"};
  static constexpr auto attrs = std::tuple{};
  static constexpr Traits traits = variadic_traits(kNumbers);
  Status infer(InferCtx& c) const {
    return infer_variadic(c, {&larger, [](double a, double b) { return std::isnan(a) || a > b ? a : b; }});
  }
  StatusOr<KernelFacts> choose(const ChooseCtx& ctx) const {
    return choose_variadic(ctx, name, traits, kernels::PointwiseOp::Max);
  }
};
DEFINE_OP(Max)

struct Min : BroadcastLayouts {
  static constexpr OpName name{"Min"};
  static constexpr auto attrs = std::tuple{};
  static constexpr Traits traits = variadic_traits(kNumbers);
  Status infer(InferCtx& c) const {
    return infer_variadic(c, {&smaller, [](double a, double b) { return std::isnan(a) || a < b ? a : b; }});
  }
  StatusOr<KernelFacts> choose(const ChooseCtx& ctx) const {
    return choose_variadic(ctx, name, traits, kernels::PointwiseOp::Min);
  }
};
DEFINE_OP(Min)

struct Sum : BroadcastLayouts {
  static constexpr OpName name{"Sum"};
  static constexpr auto attrs = std::tuple{};
  static constexpr Traits traits = variadic_traits(kFloats);
  Status infer(InferCtx& c) const { return infer_variadic(c, {}); }
  StatusOr<KernelFacts> choose(const ChooseCtx& ctx) const {
    return choose_variadic(ctx, name, traits, kernels::PointwiseOp::Add);
  }
};
DEFINE_OP(Sum)

struct Mean : BroadcastLayouts {
  static constexpr OpName name{"Mean"};
  static constexpr auto attrs = std::tuple{};
  static constexpr Traits traits = variadic_traits(kFloats);
  Status infer(InferCtx& c) const { return infer_variadic(c, {}); }
  StatusOr<KernelFacts> choose(const ChooseCtx& ctx) const {
    return choose_variadic(ctx, name, traits, kernels::PointwiseOp::Add, static_cast<double>(ctx.inputs.size()));
  }
};
DEFINE_OP(Mean)

}  // namespace forethought
