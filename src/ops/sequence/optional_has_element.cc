// OptionalHasElement: whether an optional holds something; true of what is no optional, false of a skipped input.
#include "ops/op.h"

namespace forethought {

struct OptionalHasElement {
  static constexpr OpName name{"OptionalHasElement"};
  static constexpr auto attrs = std::tuple{};
  static constexpr Traits traits{.min_inputs = 0, .max_inputs = 1, .foldable = false};

  Status infer(InferCtx& c) const {
    c.set(0, DType::kBool, SymShape::of(Dims{}));
    const bool open = c.has_in(0) && (c.type(0).is_unknown() || c.type(0).kind() == ValueType::Kind::optional);
    if (open) return absl::OkStatus();
    SymValue known;
    known.ints.push_back(c.has_in(0) ? 1 : 0);
    c.set_value(0, known);
    return absl::OkStatus();
  }
  Status run(RunCtx& c) const {
    const bool object = c.has_in(0) && c.in(0).dtype == DType::kUndefined;
    *c.out_as<uint8_t>(0) = c.has_in(0) && (!object || (c.in(0).object && !c.in(0).object->is_none()));
    return absl::OkStatus();
  }
};
DEFINE_OP(OptionalHasElement)

}  // namespace forethought
