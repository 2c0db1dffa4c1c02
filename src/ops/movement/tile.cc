// Tile: the input repeated along each dim.
#include "ops/movement/moves.h"

namespace forethought {

struct Tile {
  static constexpr OpName name{"Tile"};
  static constexpr auto attrs = std::tuple{};
  static constexpr Traits traits{.min_inputs = 2, .max_inputs = 2, .in = {movement::kMoved, DType::kInt64}};
  static constexpr uint32_t kContents = 0;

  Status infer(InferCtx& c) const;
  StatusOr<movement::Moves> moves(const movement::View& v) const {
    const kernels::Element e = kernels::element_of(v.in[0].dtype);
    // The repeats follow from the shapes; where the input is empty there is nothing to repeat.
    absl::InlinedVector<int64_t, 8> repeats;
    for (size_t d = 0; d < v.in[0].dims.size(); ++d)
      repeats.push_back(v.in[0].dims[d] == 0 ? 0 : v.out[0].dims[d] / v.in[0].dims[d]);
    return movement::Moves{{0, 0, 0, 0, e, kernels::tile_copy(e, v.in[0].dims, repeats), {}}};
  }
  StatusOr<KernelFacts> choose(const ChooseCtx& ctx) const { return movement::choose_moves(*this, ctx); }
  Refit refit(const ChooseCtx& ctx, const Runnable& earlier) const {
    return movement::refit_moves(*this, ctx, earlier);
  }
  Status run(RunCtx& ctx) const { return movement::move_now(*this, ctx); }
};
DEFINE_OP(Tile)

Status Tile::infer(InferCtx& c) const {
  RETURN_IF_ERROR(c.require(1, DType::kInt64, "repeats"));
  const SymShape& in = c.shape(0);
  if (!in.has_rank) return movement::set_moved(c, 0, {});
  const auto n = movement::length_of(c, 1);
  if ((n && *n != in.rank()) || (c.shape(1).has_rank && c.shape(1).rank() != 1))
    return invalid(
        absl::StrCat("the repeats are ", to_string(c.shape(1)), "; the input ", to_string(in), " needs one a dim"));
  SymShape out(true, absl::InlinedVector<Dim, 6>(in.dims.size()));
  if (const SymValue* r = c.value(1); r && !r->is_float && r->ints.size() == in.dims.size()) {
    for (int d = 0; d < in.rank(); ++d) {
      if (r->ints[d].is_known() && r->ints[d].value() < 0)
        return invalid(absl::StrCat("axis ", d, " is to be repeated ", r->ints[d].value(), " times"));
      out.dims[d] = in.dims[d] * r->ints[d];
      if (out.dims[d].is_unknown() && in.dims[d].is_known() && r->ints[d].is_known())
        return invalid(absl::StrCat("axis ", d, " of ", in.dims[d].value(), " elements, repeated ", r->ints[d].value(),
                                    " times, has more than can be counted"));
    }
    c.by_formula();
    const SymValue* v = c.value(0);
    const auto total = out.elements().known();
    if (v && in.rank() == 1 && v->size() > 0 && total && *total <= static_cast<int64_t>(kMaxPropagated)) {
      SymValue t;
      t.is_float = v->is_float;
      for (size_t i = 0; i < static_cast<size_t>(*total); ++i) {
        if (v->is_float)
          t.floats.push_back(v->floats[i % v->size()]);
        else
          t.ints.push_back(v->ints[i % v->size()]);
      }
      c.set_value(0, std::move(t));
    }
  }
  return movement::set_moved(c, 0, std::move(out));
}

}  // namespace forethought
