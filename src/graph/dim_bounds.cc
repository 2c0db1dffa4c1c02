// Bounds of dims that only data decide, by interval arithmetic over canonical expressions.
#include <algorithm>

#include "graph/dim_terms.h"

namespace forethought {
namespace {

// Between which expressions, free of dims that data decide, a value lies; unknown: no such end is known.
struct Interval {
  Dim low, high;
};

Interval interval_of(const DimPolynomial& p);

// Certain for any numbers in the place of symbols, which are dims and so not negative.
bool never_negative(const DimPolynomial& p);
bool never_negative(const DimAtom& a) {
  switch (a.kind) {
    case AtomKind::symbol:
    case AtomKind::data:
      return true;
    case AtomKind::mod:  // has the sign of the divisor
      return never_negative(*a.b);
    case AtomKind::max:
      return never_negative(*a.a) || never_negative(*a.b);
    default:
      return never_negative(*a.a) && never_negative(*a.b);
  }
}
bool never_negative(const DimPolynomial& p) {
  return std::ranges::all_of(p.terms, [](const DimTerm& t) {
    return t.coefficient >= 0 && std::ranges::all_of(t.atoms, [](const DimAtom& a) { return never_negative(a); });
  });
}
bool never_negative(const Dim& d) { return !d.is_unknown() && never_negative(DimPolynomial::of(d)); }

// The smaller of two upper ends of which one may be missing.
Dim tighter(const Dim& a, const Dim& b) { return a.is_unknown() ? b : b.is_unknown() ? a : min(a, b); }

// Of an atom that mentions a dim that data decide. Divisors are taken not to be 0, which no dim survives.
Interval interval_of(const DimAtom& atom) {
  if (atom.kind == AtomKind::data) return {Dim(0), DimPolynomial::wrap(*atom.a)};
  const Interval a = interval_of(*atom.a), b = interval_of(*atom.b);
  switch (atom.kind) {
    case AtomKind::floor_div:
      if (!never_negative(*atom.b)) return {};
      if (!depends_on_data(*atom.b)) return {floor_div(a.low, b.high), floor_div(a.high, b.high)};
      return never_negative(*atom.a) ? Interval{Dim(0), a.high} : Interval{};
    case AtomKind::mod:
      if (!never_negative(*atom.b)) return {};
      return {Dim(0), tighter(b.high - Dim(1), never_negative(*atom.a) ? a.high : Dim())};
    case AtomKind::min:
      return {min(a.low, b.low), tighter(a.high, b.high)};
    default:
      return {a.low.is_unknown() ? b.low : b.low.is_unknown() ? a.low : max(a.low, b.low), max(a.high, b.high)};
  }
}

Interval interval_of(const DimTerm& t) {
  DimPolynomial alone;
  alone.terms.push_back(t);
  if (!depends_on_data(alone)) {
    const Dim exact = DimPolynomial::wrap(std::move(alone));
    return {exact, exact};
  }
  Interval product{Dim(1), Dim(1)};
  for (const DimAtom& a : t.atoms) {
    if (t.atoms.size() > 1 && !never_negative(a)) return {};
    const Dim exact = DimPolynomial::wrap_atom(a);
    Interval factor = exact.depends_on_data() ? interval_of(a) : Interval{exact, exact};
    if (never_negative(a) && !never_negative(factor.low)) factor.low = Dim(0);
    product = {product.low * factor.low, product.high * factor.high};
  }
  product = {product.low * Dim(t.coefficient), product.high * Dim(t.coefficient)};
  return t.coefficient < 0 ? Interval{product.high, product.low} : product;
}

Interval interval_of(const DimPolynomial& p) {
  Interval sum{Dim(0), Dim(0)};
  for (const DimTerm& t : p.terms) {
    const Interval term = interval_of(t);
    sum = {sum.low + term.low, sum.high + term.high};
  }
  return sum;
}

}  // namespace

Dim upper_bound(const Dim& d) {
  if (!d.depends_on_data()) return d.is_known() ? max(d, Dim(0)) : d;
  const Dim high = interval_of(DimPolynomial::of(d)).high;
  return never_negative(high) ? high : max(high, Dim(0));
}

}  // namespace forethought
