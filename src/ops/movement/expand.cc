// Expand: repeats dims of extent 1, numpy's broadcast of the input against a shape.
#include "ops/movement/moves.h"

namespace forethought {

struct Expand : movement::PicksFromView {
  static constexpr OpName name{"Expand"};
  static constexpr auto attrs = std::tuple{};
  static constexpr Traits traits{.min_inputs = 2, .max_inputs = 2, .in = {movement::kMoved, DType::kInt64}};
  static constexpr uint32_t kContents = 0;

  Status infer(InferCtx& c) const;
  StatusOr<movement::Moves> moves(const movement::View& v) const {
    const std::span<const int64_t> dims = v.in[0].dims, out = v.out[0].dims;
    const Dims own = v.steps(0);
    Dims steps(out.size(), 0);
    for (size_t d = 0; d < dims.size(); ++d)
      if (dims[d] != 1) steps[out.size() - dims.size() + d] = own[d];
    return movement::Moves{movement::pick(v, 0, 0, 0, steps)};
  }
  std::optional<ViewUnit> gives_view(const PrepareCtx&, int, ViewUnit unit, int) const { return unit; }
  StatusOr<KernelFacts> choose(const ChooseCtx& ctx) const { return movement::choose_moves(*this, ctx); }
  Refit refit(const ChooseCtx& ctx, const Runnable& earlier) const {
    return movement::refit_moves(*this, ctx, earlier);
  }
  Status run(RunCtx& ctx) const { return movement::move_now(*this, ctx); }
};
DEFINE_OP(Expand)

Status Expand::infer(InferCtx& c) const {
  RETURN_IF_ERROR(c.require(1, DType::kInt64, "shape"));
  if (c.shape(1).has_rank && c.shape(1).rank() != 1)
    return invalid(absl::StrCat("the shape input is ", to_string(c.shape(1)), "; it must have one dim"));
  SymShape wanted;
  if (const SymValue* v = c.value(1); v && !v->is_float) {
    wanted.has_rank = true;
    for (const Dim& d : v->ints) {
      if (d.is_known() && d.value() < 0) return invalid(absl::StrCat("the shape to expand to has a ", d.value()));
      wanted.dims.push_back(d);
    }
  } else if (const auto n = movement::length_of(c, 1); n && *n <= static_cast<int64_t>(kMaxPropagated)) {
    wanted = SymShape(true, absl::InlinedVector<Dim, 6>(static_cast<size_t>(*n)));
  }
  const auto out = c.broadcast(c.shape(0), wanted);
  if (!out) return invalid(absl::StrCat("cannot expand ", to_string(c.shape(0)), " to ", to_string(wanted)));
  const SymValue* v = c.value(0);
  if (const auto n = out->elements().known();
      v && v->size() == 1 && n && *n >= 0 && *n <= static_cast<int64_t>(kMaxPropagated)) {
    SymValue r;
    r.is_float = v->is_float;
    if (v->is_float)
      r.floats.assign(static_cast<size_t>(*n), v->floats[0]);
    else
      r.ints.assign(static_cast<size_t>(*n), v->ints[0]);
    c.set_value(0, std::move(r));
  }
  c.by_formula();
  return movement::set_moved(c, 0, *out);
}

}  // namespace forethought
