// Identity: any value as it is.
#include "ops/movement/moves.h"

namespace forethought {

struct Identity : movement::HandsViewOn {
  static constexpr OpName name{"Identity"};
  static constexpr auto attrs = std::tuple{};
  static constexpr Traits traits{.elementwise = true};
  static constexpr uint32_t kContents = 0;

  Status infer(InferCtx& c) const {
    c.like(0, 0);
    c.by_formula();
    return absl::OkStatus();
  }
  StatusOr<KernelFacts> choose(const ChooseCtx& ctx) const {
    // Objects other than strings have neither type nor dims here: run() hands them over.
    if (ctx.inputs[0].dtype == DType::kUndefined) {
      KernelFacts facts = default_facts(name, traits, ctx);
      facts.escapes = 1;
      return facts;
    }
    return movement::choose_moves(*this, ctx);
  }
  Refit refit(const ChooseCtx& ctx, const Runnable& earlier) const {
    return movement::refit_moves(*this, ctx, earlier);
  }
  StatusOr<movement::Moves> moves(const movement::View& v) const { return movement::Moves{movement::whole(v, 0, 0)}; }
  Status run(RunCtx& ctx) const {
    if (ctx.in(0).dtype != DType::kUndefined) return movement::move_now(*this, ctx);
    ASSIGN_OR_RETURN(Value value, ctx.host->escape(0));
    return ctx.host->set_output(0, std::move(value));
  }
};
DEFINE_OP(Identity)

}  // namespace forethought
