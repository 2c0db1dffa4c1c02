// SpaceToDepth: blocks of pixels become blocks of channels, the inverse of DepthToSpace.
#include "ops/movement/moves.h"

namespace forethought {

struct SpaceToDepth {
  int64_t blocksize = 0;
  std::string mode = "DCR";
  static constexpr OpName name{"SpaceToDepth"};
  static constexpr auto attrs =
      std::tuple{required("blocksize", &SpaceToDepth::blocksize), attr("mode", &SpaceToDepth::mode)};
  static constexpr Traits traits{.in = {movement::kMoved}};
  static constexpr uint32_t kContents = 0;

  Status init(const GraphNode&) const {
    if (blocksize < 1 || blocksize > 1 << 20) return invalid(absl::StrCat("attribute 'blocksize' is ", blocksize));
    if (mode != "DCR" && mode != "CRD")
      return invalid(absl::StrCat("attribute 'mode' is '", mode, "'; there are DCR and CRD"));
    return absl::OkStatus();
  }
  Status infer(InferCtx& c) const {
    const SymShape& in = c.shape(0);
    if (!in.has_rank) return movement::set_moved(c, 0, SymShape(true, {Dim(), Dim(), Dim(), Dim()}));
    if (in.rank() != 4) return invalid(absl::StrCat("the input is ", to_string(in), "; it must be N,C,H,W"));
    for (int d : {2, 3})
      if (in.dims[d].is_known() && in.dims[d].value() % blocksize != 0)
        return invalid(absl::StrCat("axis ", d, " of ", to_string(in), " is no multiple of blocksize ", blocksize));
    const Dim b(blocksize);
    return movement::set_moved(
        c, 0, SymShape(true, {in.dims[0], in.dims[1] * b * b, floor_div(in.dims[2], b), floor_div(in.dims[3], b)}));
  }
  StatusOr<movement::Moves> moves(const movement::View& v) const {
    const std::span<const int64_t> in = v.in[0].dims;
    const int64_t b = blocksize;
    const kernels::Element e = kernels::element_of(v.in[0].dtype);
    const int64_t dims[] = {in[0], in[1], in[2] / b, b, in[3] / b, b};
    const int64_t dcr[] = {0, 3, 5, 1, 2, 4}, crd[] = {0, 1, 3, 5, 2, 4};
    return movement::Moves{{0, 0, 0, 0, e, kernels::transpose_copy(e, dims, mode == "DCR" ? dcr : crd), {}}};
  }
  StatusOr<KernelFacts> choose(const ChooseCtx& ctx) const { return movement::choose_moves(*this, ctx); }
  Refit refit(const ChooseCtx& ctx, const Runnable& earlier) const {
    return movement::refit_moves(*this, ctx, earlier);
  }
  Status run(RunCtx& ctx) const { return movement::move_now(*this, ctx); }
};
DEFINE_OP(SpaceToDepth)

}  // namespace forethought
