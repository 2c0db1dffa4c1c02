// SequenceInsert: the sequence with one more tensor, at a position or at its end. Elements are shared, not copied.
#include "ops/op.h"
#include "ops/sequence/position.h"

namespace forethought {

struct SequenceInsert {
  static constexpr OpName name{"SequenceInsert"};
  static constexpr auto attrs = std::tuple{};
  static constexpr Traits traits{
      .min_inputs = 2, .max_inputs = 3, .in = {TypeSet(), kPlain, kIndices}, .foldable = false};

  Status infer(InferCtx& c) const {
    const ValueType& seq = c.type(0);
    if (!seq.is_unknown()) {
      if (seq.kind() != ValueType::Kind::sequence)
        return invalid(absl::StrCat("input 0 is ", to_string(seq), ", not a sequence"));
      if (!c.type(1).is_unknown() && !(*seq.inner() == c.type(1)))
        return invalid(absl::StrCat("input 1 is ", to_string(c.type(1)), ", which a ", to_string(seq), " cannot hold"));
    }
    c.set_type(0, seq);
    return absl::OkStatus();
  }

  StatusOr<KernelFacts> choose(const ChooseCtx& ctx) const {
    KernelFacts facts = default_facts(name, traits, ctx);
    facts.escapes = 1u << 1;
    facts.host_inputs = 1u << 2;
    return facts;
  }

  Status run(RunCtx& c) const {
    ASSIGN_OR_RETURN(const Sequence* from, read_sequence(c.in(0)));
    const int64_t size = static_cast<int64_t>(from->items.size());
    if (!(from->element == ValueType::tensor(c.in(1).dtype)))
      return invalid(absl::StrCat("a ", forethought::name(c.in(1).dtype), " tensor cannot enter a sequence of ",
                                  to_string(from->element)));
    size_t at = from->items.size();
    if (c.has_in(2)) {
      ASSIGN_OR_RETURN(at, read_position(c.in(2), size, size + 1));
    }
    auto s = std::make_shared<Sequence>();
    s->element = from->element;
    s->items.reserve(from->items.size() + 1);
    s->items.assign(from->items.begin(), from->items.begin() + static_cast<int64_t>(at));
    ASSIGN_OR_RETURN(Value v, c.host->escape(1));
    s->items.push_back(std::move(v));
    s->items.insert(s->items.end(), from->items.begin() + static_cast<int64_t>(at), from->items.end());
    return c.host->set_output(0, Value(std::shared_ptr<const Sequence>(std::move(s))));
  }
};
DEFINE_OP(SequenceInsert)

}  // namespace forethought
