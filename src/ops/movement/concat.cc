// Concat: tensors one after the other along an axis.
#include "ops/movement/moves.h"

namespace forethought {

struct Concat {
  int64_t axis = 0;
  static constexpr OpName name{"Concat"};
  static constexpr auto attrs = std::tuple{required("axis", &Concat::axis)};
  static constexpr Traits traits{.max_inputs = kVariadic, .in = {movement::kMoved}};
  static constexpr uint32_t kContents = 0;

  Status infer(InferCtx& c) const;
  bool accepts(LayoutQuery& q) const;
  bool takes_view(const PrepareCtx&, int, ViewUnit, int) const { return true; }
  StatusOr<movement::Moves> moves(const movement::View& v) const;
  StatusOr<KernelFacts> choose(const ChooseCtx& ctx) const;
  Status run(RunCtx& ctx) const { return movement::move_now(*this, ctx); }

 private:
  void follow(InferCtx& c) const;
};
DEFINE_OP(Concat)

Status Concat::infer(InferCtx& c) const {
  SymShape out;
  int at = 0;
  Dim sum = 0;
  for (int i = 0; i < c.inputs(); ++i) {
    if (!c.has_in(i)) return invalid(absl::StrCat("input ", i, " is skipped; Concat needs all of its inputs"));
    if (!c.type(i).is_unknown() && !c.type(0).is_unknown() && !(c.type(i) == c.type(0)))
      return invalid(absl::StrCat("input ", i, " is ", to_string(c.type(i)), ", input 0 is ", to_string(c.type(0))));
    const SymShape& s = c.shape(i);
    if (!s.has_rank) {
      sum = Dim();
      continue;
    }
    if (!out.has_rank) {
      ASSIGN_OR_RETURN(at, c.axis(axis, s.rank()));
      out = s;
    } else if (s.rank() != out.rank()) {
      return invalid(absl::StrCat("input ", i, " is ", to_string(s), ", another one is ", to_string(out),
                                  "; the ranks must be equal"));
    }
    for (int d = 0; d < s.rank(); ++d) {
      if (d == at) continue;
      Dim& o = out.dims[d];
      if (o.is_known() && s.dims[d].is_known() && o.value() != s.dims[d].value())
        return invalid(absl::StrCat("input ", i, " is ", to_string(s), ", another one has ", o.value(),
                                    " elements along axis ", d));
      if (s.dims[d].is_known() || (o.is_unknown() && !s.dims[d].is_unknown())) o = s.dims[d];
    }
    sum = sum + s.dims[at];
  }
  if (out.has_rank) out.dims[at] = sum;
  follow(c);
  c.by_formula();
  return movement::set_moved(c, 0, std::move(out));
}

// Follows the elements of small vectors; those of an input of known length but unknown contents stay open.
void Concat::follow(InferCtx& c) const {
  SymValue all;
  for (int i = 0; i < c.inputs(); ++i) {
    if (!c.shape(i).has_rank || c.shape(i).rank() != 1) return;
    const SymValue* v = c.value(i);
    const auto length = c.shape(i).dims[0].known();
    if (v && i == 0) all.is_float = v->is_float;
    if (v && v->is_float != all.is_float) return;
    if (v) {
      all.ints.insert(all.ints.end(), v->ints.begin(), v->ints.end());
      all.floats.insert(all.floats.end(), v->floats.begin(), v->floats.end());
    } else if (length && *length <= static_cast<int64_t>(kMaxPropagated) && kInts.contains(c.dtype(i)) &&
               !all.is_float) {
      all.ints.resize(all.ints.size() + static_cast<size_t>(*length));
    } else {
      return;
    }
    if (all.size() > kMaxPropagated) return;
  }
  c.set_value(0, std::move(all));
}

// Channels in blocks may be put together where each input's last block is full.
bool Concat::accepts(LayoutQuery& q) const {
  for (size_t i = 0; i < q.inputs.size(); ++i) {
    const SymShape& s = *q.input_shapes[i];
    if (!q.inputs[i].is_blocked() || q.inputs[i] != q.inputs[0] || !s.has_rank || s.rank() < 2) return false;
    if (axis != 1 && axis != 1 - s.rank()) return false;
    if (!s.dims[1].is_known() || s.dims[1].value() % q.inputs[0].block != 0) return false;
  }
  q.outputs[0] = q.inputs[0];
  return true;
}

StatusOr<movement::Moves> Concat::moves(const movement::View& v) const {
  const std::span<const int64_t> dims = v.out[0].dims;
  const int at = static_cast<int>(axis < 0 ? axis + std::ssize(dims) : axis);
  int64_t outer = 1, inner = 1;
  for (int d = 0; d < at; ++d) outer *= dims[d];
  for (size_t d = static_cast<size_t>(at) + 1; d < dims.size(); ++d) inner *= dims[d];
  const kernels::Element e = kernels::element_of(v.out[0].dtype);
  movement::Moves moves;
  int64_t offset = 0;
  for (int i = 0; i < static_cast<int>(v.in.size()); ++i) {
    const int64_t piece = v.in[i].dims[at] * inner;
    const movement::Piece& from = v.in[i];
    const kernels::StridedCopy copy = from.strides.empty()
                                          ? kernels::window_copy(e, outer, piece, piece, dims[at] * inner)
                                          : kernels::StridedCopy(e, from.dims, from.strides, row_major_strides(dims));
    moves.push_back({i, 0, 0, offset, e, copy, {}});
    offset += piece;
  }
  if (offset != dims[at] * inner)
    return invalid(absl::StrCat("the inputs have ", offset / std::max<int64_t>(1, inner), " elements along axis ", at,
                                " together, the output has ", dims[at]));
  return moves;
}

StatusOr<KernelFacts> Concat::choose(const ChooseCtx& ctx) const {
  if (auto facts = movement::sized_at_run(*this, ctx)) return *std::move(facts);
  const movement::View view = movement::view_of(ctx);
  ASSIGN_OR_RETURN(movement::Moves moves, this->moves(view));
  absl::InlinedVector<Window, 4> windows;
  for (const movement::Move& m : moves)
    if (m.copy.contiguous() && m.element != kernels::Element::string)
      windows.push_back({m.in, 0, m.out_at * kernels::element_pitch(m.element)});
  KernelFacts facts = movement::facts_of(name, view, std::move(moves));
  if (facts.aliases.empty()) facts.windows.assign(windows.begin(), windows.end());
  return facts;
}

}  // namespace forethought
