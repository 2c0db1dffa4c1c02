// SequenceLength: how many elements a sequence has.
#include "ops/op.h"
#include "ops/sequence/position.h"

namespace forethought {

struct SequenceLength {
  static constexpr OpName name{"SequenceLength"};
  static constexpr auto attrs = std::tuple{};
  static constexpr Traits traits{.foldable = false};

  Status infer(InferCtx& c) const {
    RETURN_IF_ERROR(require_sequence(c));
    c.set(0, DType::kInt64, SymShape::of(Dims{}));
    return absl::OkStatus();
  }
  Status run(RunCtx& c) const {
    ASSIGN_OR_RETURN(const Sequence* from, read_sequence(c.in(0)));
    *c.out_as<int64_t>(0) = static_cast<int64_t>(from->items.size());
    return absl::OkStatus();
  }
};
DEFINE_OP(SequenceLength)

}  // namespace forethought
