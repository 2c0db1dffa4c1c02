// Unsqueeze: puts dims of extent 1 at the given places of the output.
#include "ops/movement/moves.h"

namespace forethought {

struct Unsqueeze : movement::HandsViewOn {
  static constexpr OpName name{"Unsqueeze"};
  static constexpr auto attrs = std::tuple{};
  static constexpr Traits traits{.min_inputs = 2, .max_inputs = 2, .in = {movement::kKept, DType::kInt64}};
  static constexpr uint32_t kContents = 0;

  Status infer(InferCtx& c) const;
  StatusOr<movement::Moves> moves(const movement::View& v) const { return movement::Moves{movement::whole(v, 0, 0)}; }
  StatusOr<KernelFacts> choose(const ChooseCtx& ctx) const { return movement::choose_moves(*this, ctx); }
  Refit refit(const ChooseCtx& ctx, const Runnable& earlier) const {
    return movement::refit_moves(*this, ctx, earlier);
  }
  Status run(RunCtx& ctx) const { return movement::move_now(*this, ctx); }
};
DEFINE_OP(Unsqueeze)

Status Unsqueeze::infer(InferCtx& c) const {
  RETURN_IF_ERROR(c.require(1, DType::kInt64, "axes"));
  const SymShape& in = c.shape(0);
  SymShape out;
  movement::keep_value(c);
  if (!in.has_rank) return movement::set_moved(c, 0, std::move(out));
  if (const auto given = c.ints(1)) {
    const int rank = in.rank() + static_cast<int>(given->size());
    movement::Axes axes;
    RETURN_IF_ERROR(movement::normalise_axes(*given, rank, &axes));
    std::vector<bool> fresh(static_cast<size_t>(rank), false);
    for (int a : axes) fresh[a] = true;
    out.has_rank = true;
    for (int d = 0, from = 0; d < rank; ++d) out.dims.push_back(fresh[d] ? Dim(1) : in.dims[from++]);
    c.by_formula();
  } else if (const auto n = movement::length_of(c, 1); n && *n <= static_cast<int64_t>(kMaxPropagated)) {
    out = SymShape(true, absl::InlinedVector<Dim, 6>(static_cast<size_t>(in.rank() + *n)));
  }
  return movement::set_moved(c, 0, std::move(out));
}

}  // namespace forethought
