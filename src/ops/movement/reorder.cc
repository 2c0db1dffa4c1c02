// Reorder (internal): the same tensor in another layout, plain, channels last or blocked channels.
#include "kernels/movement/blocked.h"
#include "ops/movement/moves.h"

namespace forethought {
namespace {

using kernels::BlockedShape;

class BlockedInstance final : public Runnable {
 public:
  BlockedInstance(BlockedShape shape, bool to_blocked) : shape_(shape), to_blocked_(to_blocked) {}
  Status run(RunCtx& ctx) const override {
    const Isa isa = active_isa();
    const float* in = ctx.in_as<float>(0);
    float* out = ctx.out_as<float>(0);
    parallel_ranges(ctx, shape_.units(), shape_.grain(), [&](int64_t begin, int64_t end, int) {
      if (to_blocked_)
        kernels::to_blocked(isa, shape_, in, out, begin, end);
      else
        kernels::from_blocked(isa, shape_, in, out, begin, end);
    });
    return absl::OkStatus();
  }

 private:
  BlockedShape shape_;
  bool to_blocked_;
};

}  // namespace

struct Reorder {
  std::string layout;  // the output's, for readers of the graph; the value's own layout decides
  static constexpr OpName name{"Reorder", kInternalDomain};
  static constexpr auto attrs = std::tuple{attr("layout", &Reorder::layout)};
  static constexpr Traits traits{.in = {movement::kMoved}};

  Status init(const GraphNode&) const {
    if (!layout.empty() && !layout_from_name(layout))
      return invalid(absl::StrCat("attribute 'layout' is '", layout, "', which is none"));
    return absl::OkStatus();
  }
  Status infer(InferCtx& c) const {
    c.like(0, 0);
    c.by_formula();
    return absl::OkStatus();
  }
  bool accepts(LayoutQuery& q) const {
    if (!layout.empty()) q.outputs[0] = *layout_from_name(layout);
    return true;
  }
  StatusOr<KernelFacts> choose(const ChooseCtx& ctx) const;

 private:
  static StatusOr<KernelFacts> blocked(const ChooseCtx& ctx, bool to_blocked);
  static StatusOr<KernelFacts> channels_last(const ChooseCtx& ctx, bool to_last);
};
DEFINE_OP(Reorder)

StatusOr<KernelFacts> Reorder::blocked(const ChooseCtx& ctx, bool to_blocked) {
  const Operand& in = ctx.inputs[0];
  if (in.dtype != DType::kFloat)
    return unsupported(absl::StrCat("blocked channels of ", forethought::name(in.dtype), "; this build has f32"));
  BlockedShape s;
  s.block = to_blocked ? ctx.outputs[0].layout.block : in.layout.block;
  s.batch = in.dims[0], s.channels = in.dims[1];
  for (int64_t d : in.dims.subspan(2)) s.spatial *= d;
  KernelFacts facts;
  facts.kernel = absl::StrCat("reorder.", to_string(in.layout), ".", to_string(ctx.outputs[0].layout), ".f32");
  facts.instance = std::make_shared<BlockedInstance>(s, to_blocked);
  return facts;
}

StatusOr<KernelFacts> Reorder::channels_last(const ChooseCtx& ctx, bool to_last) {
  const Operand& in = ctx.inputs[0];
  const kernels::Element e = kernels::element_of(in.dtype);
  int64_t spatial = 1;
  for (int64_t d : in.dims.subspan(2)) spatial *= d;
  const int64_t first[] = {in.dims[0], in.dims[1], spatial}, last[] = {in.dims[0], spatial, in.dims[1]},
                swap[] = {0, 2, 1};
  movement::Moves moves{
      {0, 0, 0, 0, e, kernels::transpose_copy(e, to_last ? std::span(first) : std::span(last), swap), {}}};
  return movement::facts_of(name, movement::view_of(ctx), std::move(moves));
}

StatusOr<KernelFacts> Reorder::choose(const ChooseCtx& ctx) const {
  const Operand& in = ctx.inputs[0];
  const Layout from = in.layout, to = ctx.outputs[0].layout;
  if (!in.known || !ctx.outputs[0].known) return unsupported("a reorder of a tensor whose size only the run tells");
  const movement::View view = movement::view_of(ctx);
  if (from == to) return movement::facts_of(name, view, movement::Moves{movement::whole(view, 0, 0)});
  if (in.dims.size() < 2)
    return invalid(absl::StrCat("the layout ", to_string(to), " needs two dims, the tensor is ", to_string(in.dims)));
  if (from.is_plain() && to.is_blocked()) return blocked(ctx, true);
  if (from.is_blocked() && to.is_plain()) return blocked(ctx, false);
  if (from.is_plain() && to == Layout::channels_last()) return channels_last(ctx, true);
  if (from == Layout::channels_last() && to.is_plain()) return channels_last(ctx, false);
  return unsupported(absl::StrCat("a reorder from ", to_string(from), " to ", to_string(to), "; go through plain"));
}

}  // namespace forethought
