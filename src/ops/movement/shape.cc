// Shape: the input's dims from `start` to `end` as i64.
#include <algorithm>
#include <limits>

#include "ops/movement/moves.h"

namespace forethought {

struct Shape {
  int64_t start = 0;
  std::optional<int64_t> end;
  static constexpr OpName name{"Shape"};
  static constexpr auto attrs = std::tuple{attr("start", &Shape::start), attr("end", &Shape::end)};
  static constexpr Traits traits{};

  Status infer(InferCtx& c) const {
    const SymShape& in = c.shape(0);
    if (!in.has_rank) {
      c.set(0, DType::kInt64, SymShape(true, {Dim()}));
      return absl::OkStatus();
    }
    const auto [first, last] = range(in.rank());
    SymValue v;
    for (int64_t d = first; d < last; ++d) v.ints.push_back(in.dims[d]);
    c.set(0, DType::kInt64, SymShape(true, {Dim(last - first)}));
    c.set_value(0, std::move(v));
    c.by_formula();
    return absl::OkStatus();
  }
  bool accepts(LayoutQuery& q) const {  // dims are logical in every layout
    q.outputs[0] = Layout::plain();
    return true;
  }
  Status run(RunCtx& c) const {
    const auto [first, last] = range(c.in(0).rank);
    for (int64_t d = first; d < last; ++d) c.out_as<int64_t>(0)[d - first] = c.in(0).dims()[d];
    return absl::OkStatus();
  }

 private:
  // Both ends are clamped to the rank; nothing is left where they cross.
  std::pair<int64_t, int64_t> range(int64_t rank) const {
    const auto clamped = [rank](int64_t i) { return std::clamp<int64_t>(i < 0 ? i + rank : i, 0, rank); };
    const int64_t first = clamped(start);
    return {first, std::max(first, clamped(end.value_or(std::numeric_limits<int64_t>::max())))};
  }
};
DEFINE_OP(Shape)

}  // namespace forethought
