// OptionalGetElement: what an optional holds; a tensor or sequence that is no optional as it is.
#include "ops/movement/moves.h"
#include "ops/sequence/hand_out.h"

namespace forethought {

struct OptionalGetElement {
  static constexpr OpName name{"OptionalGetElement"};
  static constexpr auto attrs = std::tuple{};
  static constexpr Traits traits{.foldable = false};
  static constexpr uint32_t kContents = 0;

  Status infer(InferCtx& c) const {
    const ValueType& t = c.type(0);
    if (t.kind() == ValueType::Kind::optional) {
      c.set_type(0, *t.inner());
    } else {
      c.like(0, 0);
    }
    return absl::OkStatus();
  }

  StatusOr<KernelFacts> choose(const ChooseCtx& ctx) const {
    if (ctx.inputs[0].dtype != DType::kUndefined) return movement::choose_moves(*this, ctx);
    KernelFacts facts = default_facts(name, traits, ctx);
    facts.escapes = 1;
    if (ctx.outputs[0].dtype != DType::kUndefined) facts.sized_at_run = 1;
    return facts;
  }
  StatusOr<movement::Moves> moves(const movement::View& v) const { return movement::Moves{movement::whole(v, 0, 0)}; }

  Status run(RunCtx& c) const {
    if (c.in(0).dtype != DType::kUndefined) return movement::move_now(*this, c);
    const Value* held = c.in(0).object;
    if (!held || held->is_none())
      return invalid("the optional holds nothing; ask OptionalHasElement first, or give the input");
    return hand_out(c, *held);
  }
};
DEFINE_OP(OptionalGetElement)

}  // namespace forethought
