// Less, Greater and their kin, And, Or and Xor: bools of two operands, with numpy's broadcasting.
#include "ops/pointwise/pointwise.h"
#include "ops/pointwise/propagate.h"

namespace forethought {
namespace {

Status infer_bool(InferCtx& c, Dim (*rule)(const Dim& a, const Dim& b)) {
  RETURN_IF_ERROR(require_one_type(c, 2));
  ASSIGN_OR_RETURN(SymShape shape, broadcast_shapes(c, 2));
  c.set(0, DType::kBool, std::move(shape));
  // Followed elements are signed, so they do not tell which of two large unsigned ones is larger.
  if (c.dtype(0) != DType::kUint64) propagate(c, 2, DType::kBool, {rule, nullptr});
  c.by_formula();
  return absl::OkStatus();
}

template <typename F>
Dim of_numbers(const Dim& a, const Dim& b, F&& f) {
  return a.is_known() && b.is_known() ? Dim(f(a.value(), b.value()) ? 1 : 0) : Dim();
}

constexpr Traits traits_of(TypeSet types) {
  return {
      .min_inputs = 2, .max_inputs = 2, .in = {types, types}, .may_overwrite = 3, .elementwise = true, .strided = 3};
}

}  // namespace

// Greater is Less with its operands in the other order.
#define COMPARISON(NAME, SIGN, OR_EQUAL, FIRST, SECOND)                                                \
  struct NAME : BroadcastLayouts {                                                                     \
    static constexpr OpName name{#NAME};                                                               \
    static constexpr auto attrs = std::tuple{};                                                        \
    static constexpr Traits traits = traits_of(kNumbers);                                              \
    Status infer(InferCtx& c) const {                                                                  \
      return infer_bool(c, [](const Dim& a, const Dim& b) {                                            \
        return of_numbers(a, b, [](int64_t x, int64_t y) { return x SIGN y; });                        \
      });                                                                                              \
    }                                                                                                  \
    StatusOr<KernelFacts> choose(const ChooseCtx& ctx) const {                                         \
      return choose_pointwise(ctx, name, traits, {}, [](kernels::Program& p, std::span<const int> v) { \
        return p.less(v[FIRST], v[SECOND], OR_EQUAL);                                                  \
      });                                                                                              \
    }                                                                                                  \
  };                                                                                                   \
  DEFINE_OP(NAME)

COMPARISON(Less, <, false, 0, 1)
COMPARISON(LessOrEqual, <=, true, 0, 1)
COMPARISON(Greater, >, false, 1, 0)
COMPARISON(GreaterOrEqual, >=, true, 1, 0)

#undef COMPARISON

#define LOGIC(NAME, RULE)                                                                              \
  struct NAME : BroadcastLayouts {                                                                     \
    static constexpr OpName name{#NAME};                                                               \
    static constexpr auto attrs = std::tuple{};                                                        \
    static constexpr Traits traits = traits_of(DType::kBool);                                          \
    Status infer(InferCtx& c) const {                                                                  \
      return infer_bool(c, [](const Dim& a, const Dim& b) { return of_numbers(a, b, RULE); });         \
    }                                                                                                  \
    StatusOr<KernelFacts> choose(const ChooseCtx& ctx) const {                                         \
      return choose_pointwise(ctx, name, traits, {}, [](kernels::Program& p, std::span<const int> v) { \
        return p.logic(kernels::LogicOp::NAME, v[0], v[1]);                                            \
      });                                                                                              \
    }                                                                                                  \
  };                                                                                                   \
  DEFINE_OP(NAME)

LOGIC(And, [](int64_t x, int64_t y) { return x != 0 && y != 0; })
LOGIC(Or, [](int64_t x, int64_t y) { return x != 0 || y != 0; })
LOGIC(Xor, [](int64_t x, int64_t y) { return (x != 0) != (y != 0); })

#undef LOGIC

}  // namespace forethought
