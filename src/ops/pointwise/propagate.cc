// Follows small tensors through pointwise operators.
#include "ops/pointwise/propagate.h"

#include <cmath>
#include <limits>

#include "kernels/pointwise/broadcast.h"

namespace forethought {
namespace {
using kernels::Broadcast;
using Numbers = absl::InlinedVector<int64_t, 8>;

// Elements with their shape.
struct Followed {
  Numbers dims;
  SymValue value;
};

std::optional<Followed> follow(InferCtx& c, int i) {
  const SymValue* v = c.value(i);
  auto dims = c.shape(i).numbers();
  if (!v || !dims || element_count(*dims) != static_cast<int64_t>(v->size())) return std::nullopt;
  return Followed{*std::move(dims), *v};
}

// The value if the type holds it.
Dim fit(const Dim& d, DType dtype) {
  if (!d.is_known() || dtype == DType::kInt64) return d;
  bool fits = dtype == DType::kBool ? d.value() == 0 || d.value() == 1 : false;
  dispatch(dtype, IntTypes{}, [&]<typename T>() {
    // 64-bit unsigned values are followed up to 2^63.
    if constexpr (std::is_same_v<T, uint64_t>)
      fits = d.value() >= 0;
    else
      fits = d.value() >= std::numeric_limits<T>::min() && d.value() <= std::numeric_limits<T>::max();
  });
  return fits ? d : Dim();
}

double round_to(double v, DType dtype) {
  switch (dtype) {
    case DType::kDouble:
      return v;
    case DType::kFloat16:
      return static_cast<float>(Float16(v));
    case DType::kBFloat16:
      return static_cast<float>(BFloat16(static_cast<float>(v)));
    default:
      return static_cast<float>(v);
  }
}

std::optional<Broadcast> broadcast_of(const InferCtx& c, std::span<const std::span<const int64_t>> operands) {
  const auto out = c.out(0).shape.numbers();
  if (!out) return std::nullopt;
  auto b = Broadcast::from_shapes(*out, operands);
  if (!b || b->size() > static_cast<int64_t>(kMaxPropagated)) return std::nullopt;
  return b;
}

// True if no assignment of non-negative numbers to its symbols makes it negative: the canonical text has no minus sign.
bool surely_not_negative(const Dim& d) {
  if (d.is_known()) return d.value() >= 0;
  return d.is_symbolic() && to_string(d).find('-') == std::string::npos;
}

}  // namespace

Dim truncating_div(const Dim& a, const Dim& b) {
  if (a.is_known() && b.is_known()) {
    if (b.value() == 0) return 0;
    if (b.value() == -1) return Dim(0) - a;
    return a.value() / b.value();
  }
  // Rounding down is truncation for what is not negative.
  if (b.is_known() && b.value() > 0 && surely_not_negative(a)) return floor_div(a, b);
  return {};
}

void propagate(InferCtx& c, int inputs, DType dtype, const ElementRule& rule) {
  absl::InlinedVector<Followed, 3> in;
  absl::InlinedVector<std::span<const int64_t>, 3> shapes;
  for (int i = 0; i < inputs; ++i) {
    auto f = follow(c, i);
    if (!f || (!in.empty() && f->value.is_float != in[0].value.is_float)) return;
    in.push_back(*std::move(f));
  }
  if (in.empty()) return;
  const bool is_float = in[0].value.is_float;
  if (is_float ? rule.floats == nullptr : rule.ints == nullptr) return;
  for (const Followed& f : in) shapes.push_back(f.dims);
  const auto map = broadcast_of(c, shapes);
  if (!map) return;
  SymValue out;
  out.is_float = is_float;
  for (int64_t e = 0; e < map->size(); ++e) {
    const auto at = [&](int k) { return static_cast<size_t>(map->offset_of(k, e)); };
    if (is_float) {
      double v = in[0].value.floats[at(0)];
      if (inputs == 1) v = rule.floats(v, v);
      for (int k = 1; k < inputs; ++k) v = round_to(rule.floats(v, in[k].value.floats[at(k)]), dtype);
      out.floats.push_back(round_to(v, dtype));
    } else {
      Dim v = in[0].value.ints[at(0)];
      if (inputs == 1) v = fit(rule.ints(v, v), dtype);
      for (int k = 1; k < inputs; ++k) v = fit(rule.ints(v, in[k].value.ints[at(k)]), dtype);
      out.ints.push_back(v);
    }
  }
  c.set_value(0, std::move(out));
}

void propagate_where(InferCtx& c) {
  const auto condition = follow(c, 0), a = follow(c, 1), b = follow(c, 2);
  if (!condition || !a || !b || condition->value.is_float || a->value.is_float != b->value.is_float) return;
  const std::span<const int64_t> shapes[] = {condition->dims, a->dims, b->dims};
  const auto map = broadcast_of(c, shapes);
  if (!map) return;
  SymValue out;
  out.is_float = a->value.is_float;
  for (int64_t e = 0; e < map->size(); ++e) {
    const Dim& test = condition->value.ints[static_cast<size_t>(map->offset_of(0, e))];
    const auto ia = static_cast<size_t>(map->offset_of(1, e)), ib = static_cast<size_t>(map->offset_of(2, e));
    if (out.is_float) {
      if (!test.is_known()) return;
      out.floats.push_back(test.value() != 0 ? a->value.floats[ia] : b->value.floats[ib]);
    } else {
      const Dim &va = a->value.ints[ia], &vb = b->value.ints[ib];
      out.ints.push_back(test.is_known() ? (test.value() != 0 ? va : vb) : va.same(vb) ? va : Dim());
    }
  }
  c.set_value(0, std::move(out));
}

void propagate_cast(InferCtx& c, DType to) {
  const SymValue* v = c.value(0);
  if (!v || !kFixedWidth.contains(to)) return;
  SymValue out;
  out.is_float = is_floating(to);
  for (size_t i = 0; i < v->size(); ++i) {
    if (v->is_float && out.is_float) {
      out.floats.push_back(round_to(v->floats[i], to));
    } else if (v->is_float) {
      const double f = v->floats[i];
      if (to == DType::kBool)
        out.ints.push_back(f != 0);
      else if (std::fabs(f) < 0x1p62)
        out.ints.push_back(fit(static_cast<int64_t>(f), to));
      else
        out.ints.push_back(Dim());
    } else if (out.is_float) {
      // Floats have no symbols.
      if (!v->ints[i].is_known()) return;
      out.floats.push_back(round_to(static_cast<double>(v->ints[i].value()), to));
    } else if (to == DType::kBool) {
      out.ints.push_back(v->ints[i].is_known() ? Dim(v->ints[i].value() != 0) : Dim());
    } else {
      out.ints.push_back(fit(v->ints[i], to));
    }
  }
  c.set_value(0, std::move(out));
}

}  // namespace forethought
