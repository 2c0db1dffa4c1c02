// SequenceAt: one tensor of a sequence. Its bytes are shared with the sequence, not copied.
#include "ops/op.h"
#include "ops/sequence/hand_out.h"
#include "ops/sequence/position.h"

namespace forethought {

struct SequenceAt {
  static constexpr OpName name{"SequenceAt"};
  static constexpr auto attrs = std::tuple{};
  static constexpr Traits traits{.min_inputs = 2, .max_inputs = 2, .in = {TypeSet(), kIndices}, .foldable = false};

  Status infer(InferCtx& c) const {
    const ValueType& seq = c.type(0);
    if (seq.is_unknown()) return absl::OkStatus();
    if (seq.kind() != ValueType::Kind::sequence)
      return invalid(absl::StrCat("input 0 is ", to_string(seq), ", not a sequence"));
    c.set_type(0, *seq.inner());
    return absl::OkStatus();
  }

  StatusOr<KernelFacts> choose(const ChooseCtx& ctx) const {
    KernelFacts facts = default_facts(name, traits, ctx);
    facts.sized_at_run = 1;
    facts.host_inputs = 1u << 1;
    return facts;
  }

  Status run(RunCtx& c) const {
    ASSIGN_OR_RETURN(const Sequence* from, read_sequence(c.in(0)));
    const int64_t size = static_cast<int64_t>(from->items.size());
    ASSIGN_OR_RETURN(const size_t at, read_position(c.in(1), size, size));
    return hand_out(c, from->items[at]);
  }
};
DEFINE_OP(SequenceAt)

}  // namespace forethought
