// SequenceEmpty: a sequence without elements, for tensors of type `dtype`.
#include "ops/op.h"

namespace forethought {

struct SequenceEmpty {
  DType dtype = DType::kFloat;

  static constexpr OpName name{"SequenceEmpty"};
  static constexpr auto attrs = std::tuple{attr("dtype", &SequenceEmpty::dtype)};
  static constexpr Traits traits{.min_inputs = 0, .max_inputs = 0, .foldable = false};

  Status infer(InferCtx& c) const {
    c.set_type(0, ValueType::sequence(ValueType::tensor(dtype)));
    return absl::OkStatus();
  }
  Status run(RunCtx& c) const {
    auto s = std::make_shared<Sequence>();
    s->element = ValueType::tensor(dtype);
    return c.host->set_output(0, Value(std::shared_ptr<const Sequence>(std::move(s))));
  }
};
DEFINE_OP(SequenceEmpty)

}  // namespace forethought
