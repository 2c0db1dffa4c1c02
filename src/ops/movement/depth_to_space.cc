// DepthToSpace: blocks of channels become blocks of pixels.
#include "ops/movement/moves.h"

namespace forethought {

struct DepthToSpace {
  int64_t blocksize = 0;
  std::string mode = "DCR";
  static constexpr OpName name{"DepthToSpace"};
  static constexpr auto attrs =
      std::tuple{required("blocksize", &DepthToSpace::blocksize), attr("mode", &DepthToSpace::mode)};
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
    if (in.dims[1].is_known() && in.dims[1].value() % (blocksize * blocksize) != 0)
      return invalid(
          absl::StrCat(in.dims[1].value(), " channels are no multiple of blocksize², ", blocksize * blocksize));
    return movement::set_moved(c, 0,
                               SymShape(true, {in.dims[0], floor_div(in.dims[1], Dim(blocksize * blocksize)),
                                               in.dims[2] * Dim(blocksize), in.dims[3] * Dim(blocksize)}));
  }
  StatusOr<movement::Moves> moves(const movement::View& v) const {
    const std::span<const int64_t> in = v.in[0].dims;
    const int64_t b = blocksize, channels = in[1] / (b * b);
    const kernels::Element e = kernels::element_of(v.in[0].dtype);
    const int64_t dcr[] = {in[0], b, b, channels, in[2], in[3]}, dcr_order[] = {0, 3, 4, 1, 5, 2};
    const int64_t crd[] = {in[0], channels, b, b, in[2], in[3]}, crd_order[] = {0, 1, 4, 2, 5, 3};
    return movement::Moves{
        {0,
         0,
         0,
         0,
         e,
         mode == "DCR" ? kernels::transpose_copy(e, dcr, dcr_order) : kernels::transpose_copy(e, crd, crd_order),
         {}}};
  }
  StatusOr<KernelFacts> choose(const ChooseCtx& ctx) const { return movement::choose_moves(*this, ctx); }
  Refit refit(const ChooseCtx& ctx, const Runnable& earlier) const {
    return movement::refit_moves(*this, ctx, earlier);
  }
  Status run(RunCtx& ctx) const { return movement::move_now(*this, ctx); }
};
DEFINE_OP(DepthToSpace)

}  // namespace forethought
