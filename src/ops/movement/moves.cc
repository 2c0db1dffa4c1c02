#include "ops/movement/moves.h"

#include <algorithm>

namespace forethought::movement {
namespace {

// What of some moves goes into the facts of their step.
struct Described {
  absl::InlinedVector<Alias, 1> aliases;
  std::string_view form;  // of the longest move; empty: nothing moves
  int copied = -1;        // the first output that is a copy and could be a strided view, had its readers let it
  bool operator==(const Described&) const = default;
};

Described describe(std::span<const Move> moves) {
  Described d;
  const Move* longest = nullptr;
  for (const Move& m : moves) {
    if (m.copy.units() == 0) continue;
    if (!longest || m.copy.units() * m.copy.grain() > longest->copy.units() * longest->copy.grain()) longest = &m;
    const bool alone = std::count_if(moves.begin(), moves.end(),
                                     [&](const Move& o) { return o.out == m.out && o.copy.units() > 0; }) == 1;
    if (!m.strides.empty()) {
      d.aliases.push_back({m.out, m.in, m.in_at * kernels::element_pitch(m.element), true});
      continue;
    }
    if (d.copied < 0 && alone && !m.copy.contiguous()) d.copied = m.out;
    if (alone && m.copy.contiguous() && m.out_at == 0 && m.element != kernels::Element::string)
      d.aliases.push_back({m.out, m.in, m.in_at * kernels::element_pitch(m.element)});
  }
  if (longest)
    d.form = !longest->strides.empty() ? "view" : longest->copy.contiguous() ? "whole" : longest->copy.form();
  return d;
}

class MovesInstance final : public Runnable {
 public:
  explicit MovesInstance(Moves moves)
      : moves_(std::make_move_iterator(moves.begin()), std::make_move_iterator(moves.end())) {}
  Status run(RunCtx& ctx) const override {
    run_moves(ctx, moves_);
    return absl::OkStatus();
  }
  std::span<const int64_t> strides(int out) const override {
    const auto m = std::ranges::find(moves_, out, &Move::out);
    return m == moves_.end() ? std::span<const int64_t>() : m->strides;
  }
  std::span<const Move> moves() const { return moves_; }

 private:
  absl::InlinedVector<Move, 1> moves_;  // plans are kept, and most of them have one
};

}  // namespace

absl::InlinedVector<int64_t, 8> View::ints(size_t i) const {
  absl::InlinedVector<int64_t, 8> r;
  const Piece& p = in[i];
  const int64_t n = p.elements();
  r.reserve(static_cast<size_t>(n));
  for (int64_t k = 0; k < n; ++k)
    r.push_back(p.dtype == DType::kInt32 ? kernels::load_element<int32_t>(p.contents, k)
                                         : kernels::load_element<int64_t>(p.contents, k));
  return r;
}

Dims View::steps(size_t i) const {
  return in[i].strides.empty() ? row_major_strides(in[i].dims) : Dims(in[i].strides.begin(), in[i].strides.end());
}

View view_of(const ChooseCtx& ctx) {
  const auto piece = [](const Operand& o) {
    return Piece{o.present, o.known,      o.dtype,        o.layout, o.dims, o.constant ? o.constant->data : nullptr,
                 o.strides, o.may_stride, o.dense_because};
  };
  View v;
  for (const Operand& o : ctx.inputs) v.in.push_back(piece(o));
  for (const Operand& o : ctx.outputs) v.out.push_back(piece(o));
  return v;
}

View view_of(const RunCtx& ctx) {
  const auto piece = [](const Arg& a) {
    return Piece{a.present, true, a.dtype, a.layout, a.dims(), a.data, a.strides(), false, {}};
  };
  View v;
  for (const Arg& a : ctx.inputs) v.in.push_back(piece(a));
  for (const Arg& a : ctx.outputs) v.out.push_back(piece(a));
  return v;
}

void run_moves(RunCtx& ctx, std::span<const Move> moves) {
  const Isa isa = active_isa();
  for (const Move& m : moves) {
    if (m.copy.units() == 0) continue;
    const void* from = kernels::advance(ctx.in(m.in).as<const void>(), m.element, m.in_at);
    void* to = kernels::advance(ctx.out(m.out).as<void>(), m.element, m.out_at);
    if (from == to && (m.copy.contiguous() || !m.strides.empty())) continue;
    parallel_ranges(ctx, m.copy.units(), m.copy.grain(),
                    [&](int64_t begin, int64_t end, int) { m.copy.run(isa, from, to, begin, end); });
  }
}

Move pick(const View& view, int in, int out, int64_t in_at, std::span<const int64_t> steps) {
  const kernels::Element e = kernels::element_of(view.in[in].dtype);
  const Piece& o = view.out[out];
  Move m{in, out, in_at, 0, e, kernels::StridedCopy(e, o.dims, steps, row_major_strides(o.dims)), {}};
  if (!o.may_stride || e == kernels::Element::string || m.copy.units() == 0 || m.copy.contiguous()) return m;
  Dims extents(o.dims.begin(), o.dims.end());
  m.strides.assign(steps.begin(), steps.end());
  for (size_t d = 0; d < extents.size(); ++d) {
    if (extents[d] == 1) m.strides[d] = 0;
    if (m.strides[d] == 0) extents[d] = 1;  // what repeats is written once
  }
  m.copy = kernels::StridedCopy(e, extents, m.strides, m.strides);
  return m;
}

namespace {

// The steps along `to` of elements that lie `steps` apart along `from`, in the same order; nothing where none say it.
// Both have the same number of elements, which is not 0.
std::optional<Dims> steps_under(std::span<const int64_t> from, std::span<const int64_t> steps,
                                std::span<const int64_t> to) {
  Dims result(to.size(), 0);
  size_t i = 0, k = 0;
  while (i < from.size() || k < to.size()) {
    // The next dims of both that have as many elements.
    const size_t i0 = i, k0 = k;
    int64_t a = i < from.size() ? from[i++] : 1, b = k < to.size() ? to[k++] : 1;
    while (a != b) {
      if (a < b) {
        if (i == from.size()) return std::nullopt;
        a *= from[i++];
      } else {
        if (k == to.size()) return std::nullopt;
        b *= to[k++];
      }
    }
    // They must be one run of even steps in `from`.
    int64_t step = 0, elements = 1;
    for (size_t d = i; d-- > i0;) {
      if (from[d] == 1) continue;
      if (elements == 1) step = steps[d];
      if (steps[d] != step * elements) return std::nullopt;
      elements *= from[d];
    }
    for (size_t d = k; d-- > k0; step *= to[d]) result[d] = step;
  }
  return result;
}

}  // namespace

Move whole(const View& view, int in, int out) {
  const Piece& p = view.in[in];
  const kernels::Element e = kernels::element_of(p.dtype);
  if (!p.strides.empty()) {
    if (view.out[out].may_stride && p.elements() > 0) {
      if (const auto steps = steps_under(p.dims, p.strides, view.out[out].dims)) return pick(view, in, out, 0, *steps);
    }
    return {in, out, 0, 0, e, kernels::StridedCopy(e, p.dims, p.strides, row_major_strides(p.dims)), {}};
  }
  int64_t n = storage_elements(p.layout, p.dims).value_or(0);
  if (p.dtype != DType::kString && bit_width(p.dtype) < 8) n = byte_size(p.dtype, n).value_or(0);
  return {in, out, 0, 0, e, kernels::window_copy(e, 1, n, n, n), {}};
}

KernelFacts facts_of(const OpName& name, const View& view, Moves moves) {
  KernelFacts facts;
  for (char c : name.type) facts.kernel.push_back(c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c);
  Described d = describe(moves);
  facts.aliases = std::move(d.aliases);
  if (!d.form.empty()) facts.kernel.append(".").append(d.form);
  if (!view.in.empty() && view.in[0].present) absl::StrAppend(&facts.kernel, ".", forethought::name(view.in[0].dtype));
  if (d.copied >= 0 && !view.out[d.copied].dense_because.empty())
    facts.refused.push_back({absl::StrCat(facts.kernel.substr(0, facts.kernel.find('.')), ".view"),
                             std::string(view.out[d.copied].dense_because)});
  facts.instance = std::make_shared<MovesInstance>(std::move(moves));
  return facts;
}

bool is_of_moves(const Runnable& earlier) { return instance_cast<MovesInstance>(earlier) != nullptr; }

Refit refit_moves(const Runnable& earlier, Moves moves) {
  const auto* instance = instance_cast<MovesInstance>(earlier);
  if (!instance || describe(instance->moves()) != describe(moves)) return {};
  return Refit::with(std::make_shared<MovesInstance>(std::move(moves)));
}

Status size_outputs(RunCtx& ctx, uint32_t mask, FunctionRef<Status(InferCtx&)> infer) {
  const size_t inputs = ctx.inputs.size(), outputs = ctx.outputs.size();
  absl::InlinedVector<Tensor, 6> contents(inputs);
  absl::InlinedVector<ValueType, 6> types(inputs);
  absl::InlinedVector<SymShape, 6> shapes(inputs);
  absl::InlinedVector<InferInput, 6> in(inputs);
  for (size_t i = 0; i < inputs; ++i) {
    const Arg& a = ctx.inputs[i];
    if (!a.present) continue;
    contents[i] = a.tensor();
    types[i] = ValueType::tensor(a.dtype);
    shapes[i] = SymShape::of(a.dims());
    const bool told = a.strides().empty() && (a.data || a.elements == 0);  // rules read elements as rows
    in[i] = {true, &types[i], &shapes[i], told ? &contents[i] : nullptr, nullptr};
  }
  absl::InlinedVector<InferOutput, 2> out(outputs);
  for (size_t i = 0; i < outputs; ++i) out[i].wanted = ctx.outputs[i].present;
  InferCtx c({in.data(), in.size()}, {out.data(), out.size()});
  RETURN_IF_ERROR(infer(c));
  for (size_t i = 0; i < outputs; ++i) {
    if (i >= 32 || ((mask >> i) & 1u) == 0 || !ctx.outputs[i].present) continue;
    const auto dims = out[i].shape.numbers();
    if (!dims || !element_count(*dims))
      return invalid(
          absl::StrCat("the shape of output ", i, " cannot be had from these inputs (", to_string(out[i].shape), ")"));
    for (int64_t d : *dims)
      if (d < 0) return invalid(absl::StrCat("output ", i, " would have the shape ", to_string(out[i].shape)));
    RETURN_IF_ERROR(ctx.host->output(static_cast<int>(i), *dims).status());
  }
  return absl::OkStatus();
}

uint32_t unknown_outputs(const ChooseCtx& ctx) {
  uint32_t mask = 0;
  for (size_t i = 0; i < ctx.outputs.size() && i < 32; ++i)
    if (ctx.outputs[i].present && !ctx.outputs[i].known) mask |= 1u << i;
  return mask;
}

Status set_moved(InferCtx& c, int out, SymShape shape) {
  if (!c.wants_out(out)) return absl::OkStatus();
  if (const auto numbers = shape.numbers()) {
    for (int64_t d : *numbers)
      if (d < 0)
        return invalid(
            absl::StrCat("the output would have the shape ", to_string(shape), ", with a negative dimension"));
    const auto n = element_count(*numbers);
    if (!n || *n > (int64_t{1} << 58))
      return invalid(absl::StrCat("the output would have the shape ", to_string(shape),
                                  ", with more elements than can be counted"));
  }
  c.set(out, c.dtype(0), std::move(shape));
  return absl::OkStatus();
}

void keep_value(InferCtx& c) {
  if (const SymValue* v = c.value(0)) c.set_value(0, *v);
}

std::optional<int64_t> length_of(InferCtx& c, int i) {
  const SymShape& s = c.shape(i);
  if (!s.has_rank) return std::nullopt;
  return s.elements().known();
}

Status normalise_axes(std::span<const int64_t> axes, int rank, Axes* out) {
  for (int64_t a : axes) {
    if (a < -rank || a >= rank)
      return invalid(absl::StrCat("axis ", a, " is outside [", -rank, ", ", rank - 1, "] of rank ", rank));
    const int n = static_cast<int>(a < 0 ? a + rank : a);
    if (std::find(out->begin(), out->end(), n) != out->end())
      return invalid(absl::StrCat("axis ", n, " is named twice"));
    out->push_back(n);
  }
  return absl::OkStatus();
}

}  // namespace forethought::movement
