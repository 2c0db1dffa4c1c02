// SequenceConstruct: a sequence of the inputs. They escape: they outlive the step.
#include "ops/op.h"

namespace forethought {

struct SequenceConstruct {
  static constexpr OpName name{"SequenceConstruct"};
  static constexpr auto attrs = std::tuple{};
  static constexpr Traits traits{.max_inputs = kVariadic, .in = {kPlain}, .foldable = false};

  Status infer(InferCtx& c) const {
    for (int i = 0; i < c.inputs(); ++i) {
      if (!c.has_in(i)) return invalid(absl::StrCat("input ", i, " is skipped"));
      if (c.dtype(i) != DType::kUndefined && c.dtype(0) != DType::kUndefined && c.dtype(i) != c.dtype(0))
        return invalid(absl::StrCat("input ", i, " is ", to_string(c.type(i)), " beside ", to_string(c.type(0))));
    }
    if (!c.type(0).is_unknown()) c.set_type(0, ValueType::sequence(c.type(0)));
    return absl::OkStatus();
  }

  StatusOr<KernelFacts> choose(const ChooseCtx& ctx) const {
    KernelFacts facts = default_facts(name, traits, ctx);
    facts.escapes = ctx.inputs.size() >= 32 ? ~0u : (1u << ctx.inputs.size()) - 1;  // beyond 32, escape() copies
    return facts;
  }

  Status run(RunCtx& c) const {
    auto s = std::make_shared<Sequence>();
    s->element = ValueType::tensor(c.in(0).dtype);
    s->items.reserve(c.inputs.size());
    for (size_t i = 0; i < c.inputs.size(); ++i) {
      ASSIGN_OR_RETURN(Value v, c.host->escape(static_cast<int>(i)));
      s->items.push_back(std::move(v));
    }
    return c.host->set_output(0, Value(std::shared_ptr<const Sequence>(std::move(s))));
  }
};
DEFINE_OP(SequenceConstruct)

}  // namespace forethought
