// Size: the number of the input's elements as an i64 of rank 0.
#include "ops/op.h"

namespace forethought {

struct Size {
  static constexpr OpName name{"Size"};
  static constexpr auto attrs = std::tuple{};
  static constexpr Traits traits{};

  Status infer(InferCtx& c) const {
    c.set(0, DType::kInt64, SymShape::scalar());
    const Dim n = c.shape(0).elements();
    if (!n.is_unknown()) c.set_value(0, SymValue{.ints = {n}});
    c.by_formula();
    return absl::OkStatus();
  }
  bool accepts(LayoutQuery& q) const {
    q.outputs[0] = Layout::plain();
    return true;
  }
  Status run(RunCtx& c) const {
    *c.out_as<int64_t>(0) = c.in(0).elements;
    return absl::OkStatus();
  }
};
DEFINE_OP(Size)

}  // namespace forethought
