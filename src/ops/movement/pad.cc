// Pad: borders of a constant, mirrored, repeated or wrapped elements; negative pads crop.
#include "kernels/movement/pad.h"

#include <algorithm>

#include "ops/movement/moves.h"

namespace forethought {
namespace {

class PadInstance final : public Runnable {
 public:
  explicit PadInstance(kernels::Pad pad) : pad_(std::move(pad)) {}
  Status run(RunCtx& ctx) const override {
    static const std::string kEmpty;
    alignas(16) static constexpr std::byte kZero[16] = {};
    const void* value = ctx.in(0).dtype == DType::kString ? static_cast<const void*>(&kEmpty) : kZero;
    if (ctx.has_in(2) && ctx.in(2).elements == 1) value = ctx.in(2).data;
    parallel_ranges(ctx, pad_.units(), pad_.grain(), [&](int64_t begin, int64_t end, int) {
      pad_.run(ctx.in(0).data, value, ctx.out(0).data, begin, end);
    });
    return absl::OkStatus();
  }

 private:
  kernels::Pad pad_;
};

}  // namespace

struct Pad {
  std::string mode = "constant";
  static constexpr OpName name{"Pad"};
  static constexpr auto attrs = std::tuple{attr("mode", &Pad::mode)};
  static constexpr Traits traits{.min_inputs = 2,
                                 .max_inputs = 4,
                                 .in = {movement::kMoved, DType::kInt64, movement::kMoved, kIndices},
                                 .contents = 0b1010};

  Status init(const GraphNode&) const { return mode_of().status(); }
  Status infer(InferCtx& c) const;
  bool accepts(LayoutQuery& q) const;
  StatusOr<KernelFacts> choose(const ChooseCtx& ctx) const;
  Status run(RunCtx& ctx) const {
    ASSIGN_OR_RETURN(kernels::Pad pad, plan(movement::view_of(ctx)));
    return PadInstance(std::move(pad)).run(ctx);
  }

 private:
  static bool leaves_channels(const LayoutQuery& q);
  StatusOr<kernels::PadMode> mode_of() const;
  StatusOr<kernels::Pad> plan(const movement::View& v) const;
};
DEFINE_OP(Pad)

StatusOr<kernels::PadMode> Pad::mode_of() const {
  if (mode == "constant") return kernels::PadMode::constant;
  if (mode == "reflect") return kernels::PadMode::reflect;
  if (mode == "edge") return kernels::PadMode::edge;
  if (mode == "wrap") return kernels::PadMode::wrap;
  return invalid(absl::StrCat("attribute 'mode' is '", mode, "'; there are constant, reflect, edge and wrap"));
}

Status Pad::infer(InferCtx& c) const {
  RETURN_IF_ERROR(c.require(1, DType::kInt64, "pads"));
  if (c.shape(2).elements().known().value_or(1) > 1)
    return invalid(absl::StrCat("the constant value is ", to_string(c.shape(2)), "; it must be one element"));
  const SymShape& in = c.shape(0);
  if (!in.has_rank) return movement::set_moved(c, 0, {});
  SymShape out(true, absl::InlinedVector<Dim, 6>(in.dims.size()));
  std::vector<int64_t> axes;
  if (c.has_in(3)) {
    const auto given = c.ints(3);
    if (!given) return movement::set_moved(c, 0, std::move(out));
    axes = *given;
  } else {
    for (int d = 0; d < in.rank(); ++d) axes.push_back(d);
  }
  movement::Axes where;
  RETURN_IF_ERROR(movement::normalise_axes(axes, in.rank(), &where));
  out = in;
  const SymValue* pads = c.value(1);
  if (pads && (pads->is_float || pads->ints.size() != 2 * where.size())) pads = nullptr;
  if (const auto n = movement::length_of(c, 1); n && *n != 2 * std::ssize(where))
    return invalid(absl::StrCat("there are ", *n, " pads for ", where.size(), " axes; each needs two"));
  for (size_t i = 0; i < where.size(); ++i) {
    Dim& d = out.dims[where[i]];
    const Dim before = d;
    d = pads ? d + pads->ints[i] + pads->ints[where.size() + i] : Dim();
    if (d.is_known() && d.value() < 0)
      return invalid(absl::StrCat("pads ", to_string(pads->ints[i]), " and ", to_string(pads->ints[where.size() + i]),
                                  " crop more than axis ", where[i], " has (", to_string(before), ")"));
  }
  c.by_formula();  // choose() asks whether mirrored pads fit
  return movement::set_moved(c, 0, std::move(out));
}

// Whether the pads are known and none of them is of channels.
bool Pad::leaves_channels(const LayoutQuery& q) {
  const Tensor* pads = q.constants[1];
  if (!pads) return false;
  movement::View view;
  view.in.push_back({.present = true, .known = true, .dtype = pads->dtype, .dims = pads->dims, .contents = pads->data});
  const auto amounts = view.ints(0);
  const size_t n = amounts.size() / 2;
  const int rank = q.input_shapes[0]->rank();
  movement::Axes axes;
  for (size_t i = 0; i < n; ++i) axes.push_back(static_cast<int>(i));
  if (q.inputs.size() > 3 && q.input_types[3]) {
    const Tensor* given = q.constants[3];
    if (!given || given->elements() != static_cast<int64_t>(n)) return false;
    view.in[0] = {.present = true, .known = true, .dtype = given->dtype, .dims = given->dims, .contents = given->data};
    axes.clear();
    for (int64_t a : view.ints(0)) axes.push_back(static_cast<int>(a < 0 ? a + rank : a));
  }
  for (size_t i = 0; i < n; ++i)
    if (axes[i] == 1 && (amounts[i] != 0 || amounts[n + i] != 0)) return false;
  return true;
}

// Channel blocks stay as they are where only spatial dims are padded: pads that crop as many channels at one end as
// they add at the other keep the shape, yet move the channels. Channels beyond the last must stay zero, so a constant
// that may be another needs full blocks.
bool Pad::accepts(LayoutQuery& q) const {
  const SymShape& in = *q.input_shapes[0];
  const SymShape& out = *q.output_shapes[0];
  if (!q.inputs[0].is_blocked() || !in.has_rank || !out.has_rank || in.rank() < 3) return false;
  for (size_t i = 1; i < q.inputs.size(); ++i)
    if (!q.inputs[i].is_plain()) return false;
  if (!in.dims[0].same(out.dims[0]) || !in.dims[1].same(out.dims[1])) return false;
  if (!leaves_channels(q)) return false;
  const bool zero = q.inputs.size() <= 2 || !q.input_types[2];
  const bool full = in.dims[1].is_known() && in.dims[1].value() % q.inputs[0].block == 0;
  if (mode == "constant" && !zero && !full) return false;
  q.outputs[0] = q.inputs[0];
  return true;
}

StatusOr<kernels::Pad> Pad::plan(const movement::View& v) const {
  const std::span<const int64_t> dims = v.in[0].dims;
  const auto pads = v.ints(1);
  absl::InlinedVector<int64_t, 8> axes;
  if (v.has(3))
    axes = v.ints(3);
  else
    for (size_t d = 0; d < dims.size(); ++d) axes.push_back(static_cast<int64_t>(d));
  movement::Axes where;
  RETURN_IF_ERROR(movement::normalise_axes(axes, static_cast<int>(dims.size()), &where));
  if (pads.size() != 2 * where.size())
    return invalid(absl::StrCat("there are ", pads.size(), " pads for ", where.size(), " axes; each needs two"));
  absl::InlinedVector<int64_t, 8> begins(dims.size(), 0), ends(dims.size(), 0);
  for (size_t i = 0; i < where.size(); ++i) begins[where[i]] = pads[i], ends[where[i]] = pads[where.size() + i];
  ASSIGN_OR_RETURN(const kernels::PadMode m, mode_of());
  const kernels::Element e = kernels::element_of(v.in[0].dtype);
  if (const Layout l = v.in[0].layout; l.is_blocked()) {
    Dims blocks(dims.begin(), dims.end());
    if (begins[1] != 0 || ends[1] != 0) return invalid("pads of blocked channels");
    blocks[1] = (dims[1] + l.block - 1) / l.block;
    blocks.push_back(l.block);
    begins.push_back(0);
    ends.push_back(0);
    return kernels::Pad::make(e, m, blocks, begins, ends);
  }
  ASSIGN_OR_RETURN(kernels::Pad pad, kernels::Pad::make(e, m, dims, begins, ends));
  if (!std::equal(pad.out_dims().begin(), pad.out_dims().end(), v.out[0].dims.begin(), v.out[0].dims.end()))
    return invalid(absl::StrCat("the padded shape is ", to_string(pad.out_dims()), ", not ", to_string(v.out[0].dims),
                                " as planned"));
  return pad;
}

StatusOr<KernelFacts> Pad::choose(const ChooseCtx& ctx) const {
  if (auto facts = movement::sized_at_run(*this, ctx)) return *std::move(facts);
  KernelFacts facts = default_facts(name, traits, ctx);
  const movement::View view = movement::view_of(ctx);
  if (!view.in[1].contents || (view.has(3) && !view.in[3].contents)) {
    facts.reason = "the pads are known only at run";
    return facts;
  }
  const auto pads = view.ints(1);
  if (std::all_of(pads.begin(), pads.end(), [](int64_t p) { return p == 0; }))
    return movement::facts_of(name, view, movement::Moves{movement::whole(view, 0, 0)});
  ASSIGN_OR_RETURN(kernels::Pad pad, plan(view));
  absl::StrAppend(&facts.kernel, ".", mode);
  facts.instance = std::make_shared<PadInstance>(std::move(pad));
  return facts;
}

}  // namespace forethought
