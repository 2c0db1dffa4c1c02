// Add, Sub, Mul, Div, Pow and PRelu, with numpy's broadcasting.
#include "ops/pointwise/pointwise.h"
#include "ops/pointwise/propagate.h"

namespace forethought {
namespace {

Status infer_binary(InferCtx& c, const ElementRule& rule) {
  RETURN_IF_ERROR(require_one_type(c, 2));
  ASSIGN_OR_RETURN(SymShape shape, broadcast_shapes(c, 2));
  const DType dtype = c.dtype(0);
  c.set(0, dtype, std::move(shape));
  propagate(c, 2, dtype, rule);
  c.by_formula();
  return absl::OkStatus();
}

StatusOr<KernelFacts> choose_binary(const ChooseCtx& ctx, const OpName& name, const Traits& traits,
                                    kernels::PointwiseOp op) {
  return choose_pointwise(ctx, name, traits, {}, [&](kernels::Program& p, std::span<const int> v) {
    return p.apply(op, {v[0], v[1]});
  });
}

Dim add(const Dim& a, const Dim& b) { return a + b; }
Dim sub(const Dim& a, const Dim& b) { return a - b; }
Dim mul(const Dim& a, const Dim& b) { return a * b; }

}  // namespace

#define BINARY_OP(NAME, ...)                                                 \
  struct NAME : BroadcastLayouts {                                           \
    static constexpr OpName name{#NAME};                                     \
    static constexpr auto attrs = std::tuple{};                              \
    static constexpr Traits traits = binary_traits(kNumbers);                \
    Status infer(InferCtx& c) const { return infer_binary(c, __VA_ARGS__); } \
    StatusOr<KernelFacts> choose(const ChooseCtx& ctx) const {               \
      return choose_binary(ctx, name, traits, kernels::PointwiseOp::NAME);   \
    }                                                                        \
  };                                                                         \
  DEFINE_OP(NAME)

BINARY_OP(Add, {&add, [](double a, double b) { return a + b; }})
BINARY_OP(Div, {&truncating_div, [](double a, double b) { return a / b; }})
BINARY_OP(Mul, {&mul, [](double a, double b) { return a * b; }})
BINARY_OP(Sub, {&sub, [](double a, double b) { return a - b; }})

#undef BINARY_OP

// x < 0 ? slope · x : x; the slope broadcasts to x, not the other way round.
struct PRelu : BroadcastLayouts {
  static constexpr OpName name{"PRelu"};
  static constexpr auto attrs = std::tuple{};
  static constexpr TypeSet kTypes = kFloats | DType::kInt32 | DType::kInt64 | DType::kUint32 | DType::kUint64;
  static constexpr Traits traits = binary_traits(kTypes);

  Status infer(InferCtx& c) const {
    RETURN_IF_ERROR(require_one_type(c, 2));
    ASSIGN_OR_RETURN(const SymShape both, broadcast_shapes(c, 2));
    const auto x = c.shape(0).numbers(), all = both.numbers();
    if (x && all && *x != *all)
      return invalid(absl::StrCat("input 1 (slope) of shape ", to_string(c.shape(1)),
                                  " does not broadcast to input 0 of shape ", to_string(c.shape(0))));
    c.set(0, c.dtype(0), c.shape(0));
    c.by_formula();
    return absl::OkStatus();
  }
  StatusOr<KernelFacts> choose(const ChooseCtx& ctx) const {
    return choose_binary(ctx, name, traits, kernels::PointwiseOp::PRelu);
  }
};
DEFINE_OP(PRelu)

// base ^ exponent in the type of the base.
struct Pow : BroadcastLayouts {
  static constexpr OpName name{"Pow"};
  static constexpr auto attrs = std::tuple{};
  static constexpr Traits traits{.min_inputs = 2,
                                 .max_inputs = 2,
                                 .in = {kFloats | kIndices, kNumbers},
                                 .may_overwrite = 1,
                                 .elementwise = true,
                                 .strided = 3};

  Status infer(InferCtx& c) const {
    ASSIGN_OR_RETURN(SymShape shape, broadcast_shapes(c, 2));
    c.set(0, c.dtype(0), std::move(shape));
    c.by_formula();
    return absl::OkStatus();
  }
  StatusOr<KernelFacts> choose(const ChooseCtx& ctx) const {
    return choose_pointwise(ctx, name, traits, {},
                            [](kernels::Program& p, std::span<const int> v) { return p.pow(v[0], v[1]); });
  }
};
DEFINE_OP(Pow)

}  // namespace forethought
