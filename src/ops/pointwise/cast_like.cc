// CastLike: Cast to the type of the second input, whose elements nobody reads.
#include "ops/pointwise/cast.h"

namespace forethought {

struct CastLike {
  int64_t saturate = 1;
  std::string round_mode = "up";
  static constexpr OpName name{"CastLike"};
  static constexpr auto attrs =
      std::tuple{attr("saturate", &CastLike::saturate), attr("round_mode", &CastLike::round_mode)};
  static constexpr Traits traits{.min_inputs = 2, .max_inputs = 2, .in = {kPlain, kPlain}, .may_overwrite = 1};

  Status infer(InferCtx& c) const {
    const DType to = c.dtype(1);
    if (to == DType::kUndefined) return absl::OkStatus();
    c.set(0, to, c.shape(0));
    propagate_cast(c, to);
    c.by_formula();
    return absl::OkStatus();
  }
  StatusOr<KernelFacts> choose(const ChooseCtx& ctx) const {
    ChooseCtx cast = ctx;
    cast.inputs = ctx.inputs.first(1);
    return Cast{.to = ctx.inputs[1].dtype}.choose(cast);
  }
  // Strings.
  Status run(RunCtx& c) const { return Cast{.to = c.in(1).dtype}.run(c); }
};
DEFINE_OP(CastLike)

}  // namespace forethought
