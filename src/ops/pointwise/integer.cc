// BitwiseAnd and its kin, BitShift and Mod, with numpy's broadcasting.
#include "ops/pointwise/pointwise.h"
#include "ops/pointwise/propagate.h"

namespace forethought {
namespace {

using kernels::IntegerOp;

Status infer_alike(InferCtx& c, const ElementRule& rule) {
  RETURN_IF_ERROR(require_one_type(c, 2));
  ASSIGN_OR_RETURN(SymShape shape, broadcast_shapes(c, 2));
  const DType dtype = c.dtype(0);
  c.set(0, dtype, std::move(shape));
  // Followed elements are signed; large unsigned ones have other remainders.
  if (rule.ints && dtype != DType::kUint64) propagate(c, 2, dtype, rule);
  c.by_formula();
  return absl::OkStatus();
}

StatusOr<KernelFacts> choose_integer(const ChooseCtx& ctx, const OpName& name, const Traits& traits, IntegerOp op) {
  return choose_pointwise(ctx, name, traits, {},
                          [&](kernels::Program& p, std::span<const int> v) { return p.integer(op, v[0], v[1]); });
}

}  // namespace

#define BITWISE_OP(NAME, OP)                                                                                   \
  struct NAME : BroadcastLayouts {                                                                             \
    static constexpr OpName name{#NAME};                                                                       \
    static constexpr auto attrs = std::tuple{};                                                                \
    static constexpr Traits traits = binary_traits(kInts);                                                     \
    Status infer(InferCtx& c) const { return infer_alike(c, {}); }                                             \
    StatusOr<KernelFacts> choose(const ChooseCtx& ctx) const { return choose_integer(ctx, name, traits, OP); } \
  };                                                                                                           \
  DEFINE_OP(NAME)

BITWISE_OP(BitwiseAnd, IntegerOp::And)
BITWISE_OP(BitwiseOr, IntegerOp::Or)
BITWISE_OP(BitwiseXor, IntegerOp::Xor)

#undef BITWISE_OP

struct BitwiseNot {
  static constexpr OpName name{"BitwiseNot"};
  static constexpr auto attrs = std::tuple{};
  static constexpr Traits traits{.in = {kInts}, .may_overwrite = 1, .elementwise = true, .strided = 1};
  Status infer(InferCtx& c) const {
    c.set(0, c.dtype(0), c.shape(0));
    c.by_formula();
    return absl::OkStatus();
  }
  StatusOr<KernelFacts> choose(const ChooseCtx& ctx) const {
    return choose_pointwise(ctx, name, traits, {},
                            [](kernels::Program& p, std::span<const int> v) { return p.bit_not(v[0]); });
  }
  Refit refit(const ChooseCtx& ctx, const Runnable& earlier) const { return refit_pointwise(ctx, earlier); }
};
DEFINE_OP(BitwiseNot)

struct BitShift : BroadcastLayouts {
  std::string direction;

  static constexpr OpName name{"BitShift"};
  static constexpr auto attrs = std::tuple{required("direction", &BitShift::direction)};
  static constexpr Traits traits = binary_traits(kInts);

  Status init(const GraphNode&) {
    if (direction == "LEFT" || direction == "RIGHT") return absl::OkStatus();
    return invalid(absl::StrCat("direction is '", direction, "'; it must be LEFT or RIGHT"));
  }
  Status infer(InferCtx& c) const { return infer_alike(c, {}); }
  StatusOr<KernelFacts> choose(const ChooseCtx& ctx) const {
    return choose_integer(ctx, name, traits, direction == "LEFT" ? IntegerOp::ShiftLeft : IntegerOp::ShiftRight);
  }
};
DEFINE_OP(BitShift)

struct Mod : BroadcastLayouts {
  int64_t fmod = 0;

  static constexpr OpName name{"Mod"};
  static constexpr auto attrs = std::tuple{attr("fmod", &Mod::fmod)};
  static constexpr Traits traits = binary_traits(kNumbers);

  Status init(const GraphNode&) {
    return fmod == 0 || fmod == 1 ? absl::OkStatus() : invalid(absl::StrCat("fmod is ", fmod, "; it must be 0 or 1"));
  }
  Status infer(InferCtx& c) const {
    constexpr auto floored = [](const Dim& a, const Dim& b) {
      return b.is_known() && b.value() > 0 ? mod(a, b) : Dim();
    };
    return infer_alike(c, {fmod == 0 ? +floored : nullptr, nullptr});
  }
  StatusOr<KernelFacts> choose(const ChooseCtx& ctx) const {
    return choose_integer(ctx, name, traits, fmod == 0 ? IntegerOp::Mod : IntegerOp::Fmod);
  }
};
DEFINE_OP(Mod)

}  // namespace forethought
