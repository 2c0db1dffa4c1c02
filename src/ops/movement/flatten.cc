// Flatten: the dims before `axis` and those from it on, each as one.
#include "ops/movement/moves.h"

namespace forethought {

struct Flatten : movement::HandsViewOn {
  int64_t axis = 1;
  static constexpr OpName name{"Flatten"};
  static constexpr auto attrs = std::tuple{attr("axis", &Flatten::axis)};
  static constexpr Traits traits{.in = {movement::kKept}};
  static constexpr uint32_t kContents = 0;

  Status infer(InferCtx& c) const {
    const SymShape& in = c.shape(0);
    SymShape out(true, {Dim(), Dim()});
    if (in.has_rank) {
      // The axis may be one past the last dim.
      if (axis < -in.rank() || axis > in.rank())
        return invalid(
            absl::StrCat("axis ", axis, " is outside [", -in.rank(), ", ", in.rank(), "] of rank ", in.rank()));
      const int64_t at = axis < 0 ? axis + in.rank() : axis;
      out.dims = {1, 1};
      for (int d = 0; d < in.rank(); ++d) {
        Dim& side = out.dims[d < at ? 0 : 1];
        side = side * in.dims[d];
      }
    }
    c.by_formula();
    return movement::set_moved(c, 0, std::move(out));
  }
  StatusOr<movement::Moves> moves(const movement::View& v) const { return movement::Moves{movement::whole(v, 0, 0)}; }
  StatusOr<KernelFacts> choose(const ChooseCtx& ctx) const { return movement::choose_moves(*this, ctx); }
  Refit refit(const ChooseCtx& ctx, const Runnable& earlier) const {
    return movement::refit_moves(*this, ctx, earlier);
  }
  Status run(RunCtx& ctx) const { return movement::move_now(*this, ctx); }
};
DEFINE_OP(Flatten)

}  // namespace forethought
