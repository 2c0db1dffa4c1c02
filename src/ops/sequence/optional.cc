// Optional: wraps a tensor or a sequence; without an input, an optional of `type` that holds nothing.
#include "ops/op.h"

namespace forethought {

struct Optional {
  std::optional<ValueType> type;

  static constexpr OpName name{"Optional"};
  static constexpr auto attrs = std::tuple{attr("type", &Optional::type)};
  static constexpr Traits traits{.min_inputs = 0, .max_inputs = 1, .foldable = false};

  Status init(const GraphNode& node) const {
    const bool given = !node.inputs.empty() && node.inputs[0].valid();
    if (!given && !type) return invalid("has neither an input nor the attribute 'type', so its type is open");
    return absl::OkStatus();
  }
  Status infer(InferCtx& c) const {
    if (!c.has_in(0)) {
      c.set_type(0, ValueType::optional(*type));
    } else if (!c.type(0).is_unknown()) {
      c.set_type(0, ValueType::optional(c.type(0)));
    }
    return absl::OkStatus();
  }
  StatusOr<KernelFacts> choose(const ChooseCtx& ctx) const {
    KernelFacts facts = default_facts(name, traits, ctx);
    facts.escapes = 1;
    return facts;
  }
  Status run(RunCtx& c) const {
    Value v;
    if (c.has_in(0)) {
      ASSIGN_OR_RETURN(v, c.host->escape(0));
    }
    return c.host->set_output(0, std::move(v));
  }
};
DEFINE_OP(Optional)

}  // namespace forethought
