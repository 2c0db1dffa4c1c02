// Transpose: output dim d is input dim perm[d]; without perm, the dims in reverse.
#include <algorithm>

#include "ops/movement/moves.h"

namespace forethought {

struct Transpose : movement::PicksFromView {
  std::optional<std::vector<int64_t>> perm;
  static constexpr OpName name{"Transpose"};
  static constexpr auto attrs = std::tuple{attr("perm", &Transpose::perm)};
  static constexpr Traits traits{.in = {movement::kMoved}};
  static constexpr uint32_t kContents = 0;

  Status init(const GraphNode&) const;
  Status infer(InferCtx& c) const;
  StatusOr<movement::Moves> moves(const movement::View& v) const;
  std::optional<ViewUnit> gives_view(const PrepareCtx&, int, ViewUnit unit, int rank) const;
  StatusOr<KernelFacts> choose(const ChooseCtx& ctx) const { return movement::choose_moves(*this, ctx); }
  Refit refit(const ChooseCtx& ctx, const Runnable& earlier) const {
    return movement::refit_moves(*this, ctx, earlier);
  }
  Status run(RunCtx& ctx) const { return movement::move_now(*this, ctx); }

 private:
  absl::InlinedVector<int64_t, 8> order(size_t rank) const;
};
DEFINE_OP(Transpose)

Status Transpose::init(const GraphNode&) const {
  if (!perm) return absl::OkStatus();
  std::vector<int64_t> sorted = *perm;
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 0; i < sorted.size(); ++i)
    if (sorted[i] != static_cast<int64_t>(i))
      return invalid(absl::StrCat("attribute 'perm' is no permutation of 0 to ", sorted.size() - 1));
  return absl::OkStatus();
}

absl::InlinedVector<int64_t, 8> Transpose::order(size_t rank) const {
  absl::InlinedVector<int64_t, 8> r;
  for (size_t d = 0; d < rank; ++d) r.push_back(perm ? (*perm)[d] : static_cast<int64_t>(rank - 1 - d));
  return r;
}

Status Transpose::infer(InferCtx& c) const {
  const SymShape& in = c.shape(0);
  SymShape out;
  if (in.has_rank) {
    if (perm && perm->size() != in.dims.size())
      return invalid(absl::StrCat("attribute 'perm' orders ", perm->size(), " dims, the input is ", to_string(in)));
    out.has_rank = true;
    for (int64_t d : order(in.dims.size())) out.dims.push_back(in.dims[d]);
    if (in.rank() < 2) movement::keep_value(c);
    c.by_formula();
  } else if (perm) {
    out = SymShape(true, absl::InlinedVector<Dim, 6>(perm->size()));
  }
  return movement::set_moved(c, 0, std::move(out));
}

std::optional<ViewUnit> Transpose::gives_view(const PrepareCtx&, int, ViewUnit unit, int rank) const {
  if (perm) rank = static_cast<int>(perm->size());
  if (rank < 0 || unit >= rank) return std::nullopt;
  if (unit == kNoUnit || rank == 0) return kNoUnit;
  const auto turned = order(static_cast<size_t>(rank));
  return static_cast<ViewUnit>(turned.end() - 1 - std::ranges::find(turned, rank - 1 - unit));
}

StatusOr<movement::Moves> Transpose::moves(const movement::View& v) const {
  const Dims steps = v.steps(0);
  Dims turned;
  for (const int64_t d : order(steps.size())) turned.push_back(steps[d]);
  return movement::Moves{movement::pick(v, 0, 0, 0, turned)};
}

}  // namespace forethought
