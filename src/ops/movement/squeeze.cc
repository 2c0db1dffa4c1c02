// Squeeze: drops dims of extent 1.
#include <algorithm>

#include "ops/movement/moves.h"

namespace forethought {

struct Squeeze : movement::HandsViewOn {
  static constexpr OpName name{"Squeeze"};
  static constexpr auto attrs = std::tuple{};
  static constexpr Traits traits{.min_inputs = 1, .max_inputs = 2, .in = {movement::kKept, DType::kInt64}};
  static constexpr uint32_t kContents = 0;

  Status infer(InferCtx& c) const;
  StatusOr<movement::Moves> moves(const movement::View& v) const { return movement::Moves{movement::whole(v, 0, 0)}; }
  StatusOr<KernelFacts> choose(const ChooseCtx& ctx) const { return movement::choose_moves(*this, ctx); }
  Refit refit(const ChooseCtx& ctx, const Runnable& earlier) const {
    return movement::refit_moves(*this, ctx, earlier);
  }
  Status run(RunCtx& ctx) const { return movement::move_now(*this, ctx); }
};
DEFINE_OP(Squeeze)

Status Squeeze::infer(InferCtx& c) const {
  const SymShape& in = c.shape(0);
  SymShape out;
  movement::keep_value(c);
  if (!c.has_in(1)) {
    const bool decided = std::all_of(in.dims.begin(), in.dims.end(), [](const Dim& d) { return d.is_known(); });
    if (in.has_rank && decided) {
      out.has_rank = true;
      for (const Dim& d : in.dims)
        if (!(d == 1)) out.dims.push_back(d);
    }
    return movement::set_moved(c, 0, std::move(out));
  }
  RETURN_IF_ERROR(c.require(1, DType::kInt64, "axes"));
  if (!in.has_rank) return movement::set_moved(c, 0, std::move(out));
  if (const auto given = c.ints(1)) {
    movement::Axes axes;
    RETURN_IF_ERROR(movement::normalise_axes(*given, in.rank(), &axes));
    out.has_rank = true;
    for (int d = 0; d < in.rank(); ++d) {
      if (std::find(axes.begin(), axes.end(), d) == axes.end()) {
        out.dims.push_back(in.dims[d]);
      } else if (in.dims[d].is_known() && !(in.dims[d] == 1)) {
        return invalid(absl::StrCat("axis ", d, " of ", to_string(in), " is to be squeezed, but its extent is not 1"));
      }
    }
    c.by_formula();
  } else if (const auto n = movement::length_of(c, 1); n && *n <= in.rank()) {
    // All axes go, whichever order they come in: a result that is known, so nothing looks at it again.
    for (int d = 0; *n == in.rank() && d < in.rank(); ++d)
      if (in.dims[d].is_known() && !(in.dims[d] == 1))
        return invalid(absl::StrCat("every axis of ", to_string(in), " is to be squeezed, but the extent of axis ", d,
                                    " is not 1"));
    out = SymShape(true, absl::InlinedVector<Dim, 6>(static_cast<size_t>(in.rank() - *n)));
  }
  return movement::set_moved(c, 0, std::move(out));
}

}  // namespace forethought
