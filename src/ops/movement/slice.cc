// Slice: of each named axis the elements from start to end by a step, which may be negative.
#include <algorithm>
#include <limits>

#include "ops/movement/moves.h"

namespace forethought {
namespace {

using Numbers = absl::InlinedVector<int64_t, 8>;

// The elements that start, end and step select of an axis: the first one and how many.
struct Range {
  int64_t first = 0, count = 0;
};
Range range_of(int64_t dim, int64_t start, int64_t end, int64_t step) {
  const auto clamped = [dim](int64_t i, int64_t low, int64_t high) {
    return std::clamp(i < 0 ? i + dim : i, low, high);
  };
  if (step > 0) {
    const int64_t s = clamped(start, 0, dim), e = clamped(end, 0, dim);
    return {s, e > s ? (e - s - 1) / step + 1 : 0};
  }
  if (dim == 0) return {};
  const int64_t s = clamped(start, 0, dim - 1), e = clamped(end, -1, dim - 1);
  // -step may not fit; s - e is small, so the division is done with both negative.
  return {s, s > e ? (e - s + 1) / step + 1 : 0};
}

constexpr int64_t kFar = std::numeric_limits<int32_t>::max();  // what exporters write for "to the end"

// True if d is not negative for whatever values of its symbols (judged by a small and a large one).
bool not_negative(const Dim& d) {
  for (int64_t sample : {d.depends_on_data() ? 0 : 1, 100000}) {
    const Dim v = d.substitute([sample](std::string_view) -> std::optional<int64_t> { return sample; });
    if (!v.is_known() || v.value() < 0) return false;
  }
  return true;
}

// The extent of the slice of a symbolic axis; unknown where the clamping cannot be decided.
Dim symbolic_extent(const Dim& dim, const Dim& start, const Dim& end, int64_t step) {
  if (dim.is_unknown()) return Dim();
  if (step < 0) {
    const bool from_last = start.is_known() && (start == -1 || start.value() >= kFar);
    const bool to_first = end.is_known() && end.value() <= -kFar;
    return from_last && to_first ? ceil_div(dim, Dim(step == std::numeric_limits<int64_t>::min() ? 1 - kFar : -step))
                                 : Dim();
  }
  const bool to_end = end.is_known() && end.value() >= kFar;
  const auto clamped = [&](const Dim& i) {
    if (i.is_known()) return i.value() < 0 ? max(dim + i, Dim(0)) : i.value() >= kFar ? dim : min(i, dim);
    if (i.same(dim)) return dim;
    return i.is_symbolic() && not_negative(i) ? min(i, dim) : Dim();
  };
  if (to_end && start.is_known() && start.value() < 0 && start.value() > -kFar)
    return ceil_div(min(Dim(0) - start, dim), Dim(step));
  const Dim first = start == 0 ? Dim(0) : clamped(start), last = to_end ? dim : clamped(end);
  if (start == 0) return ceil_div(last, Dim(step));
  const Dim length = (to_end || end.same(dim)) && not_negative(start) ? dim - start : last - first;
  return ceil_div(max(length, Dim(0)), Dim(step));
}

Status check_lengths(size_t starts, size_t ends, size_t axes, size_t steps) {
  if (starts == ends && starts == axes && starts == steps) return absl::OkStatus();
  return invalid(absl::StrCat("starts, ends, axes and steps have ", starts, ", ", ends, ", ", axes, " and ", steps,
                              " elements; they must have as many"));
}

}  // namespace

struct Slice : movement::PicksFromView {
  static constexpr OpName name{"Slice"};
  static constexpr auto attrs = std::tuple{};
  static constexpr Traits traits{.min_inputs = 3,
                                 .max_inputs = 5,
                                 .in = {movement::kMoved, kIndices, kIndices, kIndices, kIndices},
                                 .contents = 0b11110};
  static constexpr uint32_t kContents = traits.contents;

  Status infer(InferCtx& c) const;
  StatusOr<movement::Moves> moves(const movement::View& v) const;
  std::optional<ViewUnit> gives_view(const PrepareCtx&, int, ViewUnit unit, int) const;
  StatusOr<KernelFacts> choose(const ChooseCtx& ctx) const { return movement::choose_moves(*this, ctx); }
  Refit refit(const ChooseCtx& ctx, const Runnable& earlier) const {
    return movement::refit_moves(*this, ctx, earlier);
  }
  Status run(RunCtx& ctx) const { return movement::move_now(*this, ctx); }
};
DEFINE_OP(Slice)

// The unit stays where its axis is surely stepped through by ones or twos: what is left out then lies in the same lines
// of the cache.
std::optional<ViewUnit> Slice::gives_view(const PrepareCtx& ctx, int, ViewUnit unit, int rank) const {
  const auto at = [&](size_t input, int64_t i) -> std::optional<int64_t> {
    const Tensor* t = input < ctx.constants.size() ? ctx.constants[input] : nullptr;
    if (!t || !t->data || i >= t->elements()) return std::nullopt;
    return t->dtype == DType::kInt32 ? kernels::load_element<int32_t>(t->data, i)
                                     : kernels::load_element<int64_t>(t->data, i);
  };
  if (ctx.constants.size() < 5) return unit;
  if (!at(4, 0) || !at(3, 0) || rank < 0) return kNoUnit;
  for (int64_t i = 0; at(4, i); ++i) {
    const int64_t axis = at(3, i).value_or(-1);
    const bool far_apart = *at(4, i) < -2 || *at(4, i) > 2;
    if (far_apart && (axis < 0 ? -1 - axis : rank - 1 - axis) == unit) return kNoUnit;
  }
  return unit;
}

StatusOr<movement::Moves> Slice::moves(const movement::View& v) const {
  const std::span<const int64_t> dims = v.in[0].dims;
  const Numbers starts = v.ints(1), ends = v.ints(2);
  Numbers axes, steps;
  if (v.has(3))
    axes = v.ints(3);
  else
    for (size_t i = 0; i < starts.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  if (v.has(4))
    steps = v.ints(4);
  else
    steps.assign(starts.size(), 1);
  RETURN_IF_ERROR(check_lengths(starts.size(), ends.size(), axes.size(), steps.size()));
  movement::Axes where;
  RETURN_IF_ERROR(movement::normalise_axes(axes, static_cast<int>(dims.size()), &where));
  Numbers first(dims.size(), 0), step(dims.size(), 1), count(dims.begin(), dims.end());
  for (size_t i = 0; i < where.size(); ++i) {
    if (steps[i] == 0) return invalid(absl::StrCat("the step of axis ", where[i], " is 0"));
    const Range r = range_of(dims[where[i]], starts[i], ends[i], steps[i]);
    first[where[i]] = r.first, step[where[i]] = steps[i], count[where[i]] = r.count;
  }
  if (!std::equal(count.begin(), count.end(), v.out[0].dims.begin(), v.out[0].dims.end()))
    return invalid(absl::StrCat("the slice is ", to_string(count), ", not ", to_string(v.out[0].dims), " as planned"));
  Dims apart = v.steps(0);
  int64_t at = 0;
  for (size_t d = 0; d < apart.size(); ++d) {
    at += first[d] * apart[d];
    apart[d] *= count[d] > 1 ? step[d] : 0;  // a single element is read without a step, which may be any number
  }
  return movement::Moves{movement::pick(v, 0, 0, at, apart)};
}

Status Slice::infer(InferCtx& c) const {
  RETURN_IF_ERROR(c.require(1, kIndices, "starts"));
  RETURN_IF_ERROR(c.require(2, kIndices, "ends"));
  const SymShape& in = c.shape(0);
  if (!in.has_rank) return movement::set_moved(c, 0, {});
  SymShape out(true, absl::InlinedVector<Dim, 6>(in.dims.size()));
  std::optional<std::vector<int64_t>> axes, steps;
  const auto count = movement::length_of(c, 1);
  if (c.has_in(3)) {
    axes = c.ints(3);
  } else if (count && *count <= in.rank()) {
    axes.emplace();
    for (int64_t i = 0; i < *count; ++i) axes->push_back(i);
  } else if (count) {
    return invalid(absl::StrCat("there are ", *count, " starts, but the input is ", to_string(in)));
  }
  if (c.has_in(4))
    steps = c.ints(4);
  else if (axes)
    steps.emplace(axes->size(), 1);
  const auto at_most = [&](int axis) { return c.data_dim(0, axis, in.dims[static_cast<size_t>(axis)]); };
  if (!axes) {
    for (int d = 0; d < in.rank(); ++d) out.dims[d] = at_most(d);
    return movement::set_moved(c, 0, std::move(out));
  }
  movement::Axes where;
  RETURN_IF_ERROR(movement::normalise_axes(*axes, in.rank(), &where));
  out = in;
  const SymValue* starts = c.value(1);
  const SymValue* ends = c.value(2);
  if (starts && starts->is_float) starts = nullptr;
  if (ends && ends->is_float) ends = nullptr;
  const size_t n = axes->size();
  RETURN_IF_ERROR(check_lengths(starts ? starts->size() : n, ends ? ends->size() : n, n, steps ? steps->size() : n));
  bool all_known = true;
  Range only;  // of the first axis, for following elements
  for (size_t i = 0; i < n; ++i) {
    Dim& d = out.dims[where[i]];
    const Dim s = starts ? starts->ints[i] : Dim(), e = ends ? ends->ints[i] : Dim();
    if (steps && (*steps)[i] == 0) return invalid(absl::StrCat("the step of axis ", where[i], " is 0"));
    if (steps && d.is_known() && s.is_known() && e.is_known()) {
      only = range_of(d.value(), s.value(), e.value(), (*steps)[i]);
      d = only.count;
    } else {
      all_known = false;
      d = steps ? symbolic_extent(d, s, e, (*steps)[i]) : Dim();
      if (d.is_unknown()) d = at_most(where[i]);
    }
  }
  if (const SymValue* v = c.value(0);
      v && all_known && in.rank() == 1 && n <= 1 && in.dims[0] == static_cast<int64_t>(v->size())) {
    SymValue r;
    r.is_float = v->is_float;
    if (n == 0) only = {0, static_cast<int64_t>(v->size())};
    const int64_t stride = n == 0 ? 1 : (*steps)[0];
    for (int64_t k = 0; k < only.count; ++k) {
      const auto at = static_cast<size_t>(k == 0 ? only.first : only.first + k * stride);
      if (v->is_float)
        r.floats.push_back(v->floats[at]);
      else
        r.ints.push_back(v->ints[at]);
    }
    c.set_value(0, std::move(r));
  }
  c.by_formula();
  return movement::set_moved(c, 0, std::move(out));
}

}  // namespace forethought
