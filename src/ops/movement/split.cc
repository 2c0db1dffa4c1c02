// Split: pieces of one axis, of given sizes or as equal as can be.
#include "ops/movement/moves.h"

namespace forethought {

struct Split : movement::PicksFromView {
  int64_t axis = 0;
  std::optional<int64_t> num_outputs;
  static constexpr OpName name{"Split"};
  static constexpr auto attrs = std::tuple{attr("axis", &Split::axis), attr("num_outputs", &Split::num_outputs)};
  static constexpr Traits traits{.min_inputs = 1,
                                 .max_inputs = 2,
                                 .max_outputs = kVariadic,
                                 .in = {movement::kMoved, DType::kInt64},
                                 .contents = 0b10};
  static constexpr uint32_t kContents = 0;

  Status infer(InferCtx& c) const;
  bool accepts(LayoutQuery& q) const;
  StatusOr<movement::Moves> moves(const movement::View& v) const;
  std::optional<ViewUnit> gives_view(const PrepareCtx&, int, ViewUnit unit, int) const { return unit; }
  StatusOr<KernelFacts> choose(const ChooseCtx& ctx) const {
    for (size_t i = 32; i < ctx.outputs.size(); ++i)
      if (ctx.outputs[i].present && !ctx.outputs[i].known)
        return unsupported(
            absl::StrCat("Split into ", ctx.outputs.size(), " pieces whose sizes only the run tells; 32 are possible"));
    return movement::choose_moves(*this, ctx);
  }
  Refit refit(const ChooseCtx& ctx, const Runnable& earlier) const {
    return movement::refit_moves(*this, ctx, earlier);
  }
  Status run(RunCtx& ctx) const { return movement::move_now(*this, ctx); }

 private:
  // Elements of piece i along the axis: those of the output, or of one that nobody wants, as far as they are known.
  StatusOr<int64_t> extent_of(const movement::View& v, int i, int at) const;
  // The extent of each piece of an axis `at` of `dim` elements.
  StatusOr<absl::InlinedVector<Dim, 6>> sizes(InferCtx& c, int at, const Dim& dim) const;
};
DEFINE_OP(Split)

StatusOr<absl::InlinedVector<Dim, 6>> Split::sizes(InferCtx& c, int at, const Dim& dim) const {
  const int n = c.outputs();
  absl::InlinedVector<Dim, 6> r(static_cast<size_t>(n));
  if (c.has_in(1)) {
    RETURN_IF_ERROR(c.require(1, DType::kInt64, "split"));
    if (const auto length = movement::length_of(c, 1); length && *length != n)
      return invalid(absl::StrCat("split gives ", *length, " sizes for ", n, " outputs"));
    const auto at_most = [&](int i) { return c.data_dim(i, at, dim); };
    const SymValue* v = c.value(1);
    if (!v || v->is_float || static_cast<int>(v->ints.size()) != n) {
      for (int i = 0; i < n; ++i) r[i] = at_most(i);
      return r;
    }
    Dim sum = 0;
    for (int i = 0; i < n; ++i) {
      r[i] = v->ints[i];
      if (r[i].is_known() && r[i].value() < 0)
        return invalid(absl::StrCat("piece ", i, " would have ", r[i].value(), " elements"));
      sum = sum + r[i];
      if (r[i].is_unknown()) r[i] = at_most(i);
    }
    if (sum.is_known() && dim.is_known() && sum.value() != dim.value())
      return invalid(absl::StrCat("the pieces have ", sum.value(), " elements together, the axis has ", dim.value()));
    return r;
  }
  if (num_outputs && *num_outputs != n)
    return invalid(absl::StrCat("attribute 'num_outputs' is ", *num_outputs, ", but there are ", n, " outputs"));
  if (!num_outputs && dim.is_known() && dim.value() % n != 0)
    return invalid(absl::StrCat("an axis of ", dim.value(), " elements cannot be split evenly in ", n,
                                "; give the sizes (input split) or attribute num_outputs"));
  // Pieces of ⌈dim / n⌉; the last one is what remains.
  const Dim size = num_outputs ? ceil_div(dim, Dim(n)) : floor_div(dim, Dim(n));
  const Dim last = num_outputs ? dim - size * Dim(n - 1) : size;
  if (last.is_known() && last.value() < 0)
    return invalid(
        absl::StrCat("an axis of ", dim.value(), " elements does not reach for ", n, " pieces of ", size.value()));
  for (int i = 0; i < n; ++i) r[i] = i + 1 == n ? last : size;
  return r;
}

Status Split::infer(InferCtx& c) const {
  const SymShape& in = c.shape(0);
  if (!in.has_rank) {
    for (int i = 0; i < c.outputs(); ++i) RETURN_IF_ERROR(movement::set_moved(c, i, {}));
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const int at, c.axis(axis, in.rank()));
  ASSIGN_OR_RETURN(const auto size, sizes(c, at, in.dims[at]));
  Dim all = 0;
  for (const Dim& d : size) all = all + d;
  if (all.same(in.dims[at])) c.by_formula();
  const SymValue* v = in.rank() == 1 ? c.value(0) : nullptr;
  Dim offset = 0;
  for (int i = 0; i < c.outputs(); ++i) {
    SymShape out = in;
    out.dims[at] = size[i];
    RETURN_IF_ERROR(movement::set_moved(c, i, std::move(out)));
    if (v && offset.is_known() && size[i].is_known() &&
        offset.value() + size[i].value() <= static_cast<int64_t>(v->size())) {
      SymValue piece;
      piece.is_float = v->is_float;
      for (int64_t k = offset.value(); k < offset.value() + size[i].value(); ++k) {
        if (v->is_float)
          piece.floats.push_back(v->floats[k]);
        else
          piece.ints.push_back(v->ints[k]);
      }
      c.set_value(i, std::move(piece));
    }
    offset = offset + size[i];
  }
  return absl::OkStatus();
}

// Whole channel blocks may be cut apart where they lie.
bool Split::accepts(LayoutQuery& q) const {
  const SymShape& in = *q.input_shapes[0];
  if (!q.inputs[0].is_blocked() || !in.has_rank || (axis != 1 && axis != 1 - in.rank())) return false;
  for (size_t i = 1; i < q.inputs.size(); ++i)
    if (!q.inputs[i].is_plain()) return false;
  for (size_t i = 0; i < q.outputs.size(); ++i) {
    const SymShape* s = q.output_shapes[i];
    if (!s || !s->has_rank || !s->dims[1].is_known() || s->dims[1].value() % q.inputs[0].block != 0) return false;
    q.outputs[i] = q.inputs[0];
  }
  return true;
}

StatusOr<int64_t> Split::extent_of(const movement::View& v, int i, int at) const {
  if (v.out[i].present) return v.out[i].dims[at];
  const int64_t n = std::ssize(v.out), dim = v.in[0].dims[at];
  if (!v.has(1)) {
    const int64_t size = (dim + n - 1) / n;
    return i + 1 == n ? dim - size * (n - 1) : size;
  }
  if (!v.in[1].contents)
    return unsupported(absl::StrCat("Split with sizes known only at run and output ", i, " skipped; name that output"));
  return v.ints(1)[static_cast<size_t>(i)];
}

StatusOr<movement::Moves> Split::moves(const movement::View& v) const {
  const std::span<const int64_t> dims = v.in[0].dims;
  const int at = static_cast<int>(axis < 0 ? axis + std::ssize(dims) : axis);
  int64_t outer = 1, inner = 1;
  for (int d = 0; d < at; ++d) outer *= dims[d];
  for (size_t d = static_cast<size_t>(at) + 1; d < dims.size(); ++d) inner *= dims[d];
  const kernels::Element e = kernels::element_of(v.in[0].dtype);
  movement::Moves moves;
  int64_t offset = 0;
  // In blocked channels the axis is that of the blocks, and a block is the innermost dim: the arithmetic is the same.
  for (int i = 0; i < static_cast<int>(v.out.size()); ++i) {
    ASSIGN_OR_RETURN(const int64_t extent, extent_of(v, i, at));
    const int64_t piece = extent * inner;
    if (v.out[i].present && (v.out[i].may_stride || !v.in[0].strides.empty())) {
      const Dims steps = v.steps(0);
      moves.push_back(movement::pick(v, 0, i, offset / std::max<int64_t>(1, inner) * steps[at], steps));
    } else if (v.out[i].present) {
      moves.push_back({0, i, offset, 0, e, kernels::window_copy(e, outer, piece, dims[at] * inner, piece), {}});
    }
    offset += piece;
  }
  if (offset != dims[at] * inner)
    return invalid(absl::StrCat("the pieces have ", offset / std::max<int64_t>(1, inner), " elements together, axis ",
                                at, " has ", dims[at]));
  return moves;
}

}  // namespace forethought
