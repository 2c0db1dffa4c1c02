// ConcatFromSequence: the elements of a sequence one after the other along an axis, which may be a new one.
#include "base/checked.h"
#include "kernels/movement/strided_copy.h"
#include "ops/movement/moves.h"
#include "ops/sequence/position.h"

namespace forethought {

struct ConcatFromSequence {
  int64_t axis = 0;
  bool new_axis = false;
  static constexpr OpName name{"ConcatFromSequence"};
  static constexpr auto attrs =
      std::tuple{required("axis", &ConcatFromSequence::axis), attr("new_axis", &ConcatFromSequence::new_axis)};
  static constexpr Traits traits{.foldable = false};

  Status infer(InferCtx& c) const {
    RETURN_IF_ERROR(require_sequence(c));
    if (!c.type(0).is_unknown()) c.set_type(0, *c.type(0).inner());
    return absl::OkStatus();
  }

  StatusOr<KernelFacts> choose(const ChooseCtx& ctx) const {
    KernelFacts facts = default_facts(name, traits, ctx);
    facts.sized_at_run = 1;
    return facts;
  }

  Status run(RunCtx& c) const {
    ASSIGN_OR_RETURN(const Sequence* from, read_sequence(c.in(0)));
    if (from->items.empty()) return invalid("the sequence is empty; there is nothing to put together");
    for (size_t i = 0; i < from->items.size(); ++i)
      if (!from->items[i].is_tensor()) return invalid(absl::StrCat("element ", i, " is no tensor"));
    const Tensor& first = from->items[0].tensor();
    const int rank = static_cast<int>(first.dims.size()) + (new_axis ? 1 : 0);
    if (axis < -rank || axis >= rank)
      return invalid(absl::StrCat("axis ", axis, " is outside [", -rank, ", ", rank - 1, "]"));
    const int at = static_cast<int>(axis < 0 ? axis + rank : axis);
    ASSIGN_OR_RETURN(const Dims dims, result_dims(*from, at));
    ASSIGN_OR_RETURN(void* to, c.host->output(0, dims));
    int64_t outer = 1, inner = 1;
    for (int d = 0; d < at; ++d) outer *= dims[d];
    for (int d = at + 1; d < rank; ++d) inner *= dims[d];
    const kernels::Element e = kernels::element_of(first.dtype);
    int64_t offset = 0;
    for (const Value& item : from->items) {
      const int64_t piece = (new_axis ? 1 : item.tensor().dims[at]) * inner;
      const kernels::StridedCopy copy = kernels::window_copy(e, outer, piece, piece, dims[at] * inner);
      const void* source = item.tensor().data;
      void* target = kernels::advance(to, e, offset);
      parallel_ranges(c, copy.units(), copy.grain(),
                      [&](int64_t begin, int64_t end, int) { copy.run(active_isa(), source, target, begin, end); });
      offset += piece;
    }
    return absl::OkStatus();
  }

 private:
  StatusOr<Dims> result_dims(const Sequence& from, int at) const {
    Dims dims = from.items[0].tensor().dims;
    const Dims model = dims;
    if (new_axis) dims.insert(dims.begin() + at, 0);
    dims[at] = 0;
    for (size_t i = 0; i < from.items.size(); ++i) {
      const Dims& own = from.items[i].tensor().dims;
      bool fits = own.size() == model.size();
      for (size_t d = 0; fits && d < own.size(); ++d)
        fits = own[d] == model[d] || (!new_axis && static_cast<int>(d) == at);
      if (!fits)
        return invalid(
            absl::StrCat("element ", i, " is ", to_string(own), ", element 0 is ", to_string(model),
                         new_axis ? "; all must be equal" : absl::StrCat("; they may differ along axis ", at)));
      const auto sum = checked_add(dims[at], new_axis ? 1 : own[at]);
      if (!sum) return exhausted("the elements are too many to be put together");
      dims[at] = *sum;
    }
    return dims;
  }
};
DEFINE_OP(ConcatFromSequence)

}  // namespace forethought
