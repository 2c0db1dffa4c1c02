// SequenceErase: the sequence without one of its elements, the last if no position is given. The others are shared.
#include "ops/op.h"
#include "ops/sequence/position.h"

namespace forethought {

struct SequenceErase {
  static constexpr OpName name{"SequenceErase"};
  static constexpr auto attrs = std::tuple{};
  static constexpr Traits traits{.min_inputs = 1, .max_inputs = 2, .in = {TypeSet(), kIndices}, .foldable = false};

  Status infer(InferCtx& c) const {
    RETURN_IF_ERROR(require_sequence(c));
    c.set_type(0, c.type(0));
    return absl::OkStatus();
  }

  StatusOr<KernelFacts> choose(const ChooseCtx& ctx) const {
    KernelFacts facts = default_facts(name, traits, ctx);
    facts.host_inputs = 1u << 1;
    return facts;
  }

  Status run(RunCtx& c) const {
    ASSIGN_OR_RETURN(const Sequence* from, read_sequence(c.in(0)));
    const int64_t size = static_cast<int64_t>(from->items.size());
    if (size == 0) return invalid("the sequence is empty; there is nothing to erase");
    size_t at = from->items.size() - 1;
    if (c.has_in(1)) {
      ASSIGN_OR_RETURN(at, read_position(c.in(1), size, size));
    }
    auto s = std::make_shared<Sequence>();
    s->element = from->element;
    s->items.reserve(from->items.size() - 1);
    for (size_t i = 0; i < from->items.size(); ++i)
      if (i != at) s->items.push_back(from->items[i]);
    return c.host->set_output(0, Value(std::shared_ptr<const Sequence>(std::move(s))));
  }
};
DEFINE_OP(SequenceErase)

}  // namespace forethought
