#include "graph/dim.h"

#include <algorithm>

#include "base/checked.h"
#include "graph/dim_terms.h"

namespace forethought {
namespace {

constexpr size_t kMaxTerms = 64;  // larger expressions become unknown: they would compare slowly and help nobody

int compare(const std::vector<DimAtom>& x, const std::vector<DimAtom>& y) {
  for (size_t i = 0; i < std::min(x.size(), y.size()); ++i)
    if (int c = forethought::compare(x[i], y[i])) return c;
  return x.size() < y.size() ? -1 : x.size() > y.size();
}

int compare(const DimPolynomial& x, const DimPolynomial& y) {
  for (size_t i = 0; i < std::min(x.terms.size(), y.terms.size()); ++i) {
    if (int c = compare(x.terms[i].atoms, y.terms[i].atoms)) return c;
    if (x.terms[i].coefficient != y.terms[i].coefficient)
      return x.terms[i].coefficient < y.terms[i].coefficient ? -1 : 1;
  }
  return x.terms.size() < y.terms.size() ? -1 : x.terms.size() > y.terms.size();
}

// Adds `t` into `p`, keeping the canonical order. False on overflow or too many terms.
bool add_term(DimPolynomial& p, DimTerm t) {
  auto it = std::lower_bound(p.terms.begin(), p.terms.end(), t,
                             [](const DimTerm& a, const DimTerm& b) { return compare(a.atoms, b.atoms) < 0; });
  if (it != p.terms.end() && compare(it->atoms, t.atoms) == 0) {
    const auto sum = checked_add(it->coefficient, t.coefficient);
    if (!sum) return false;
    it->coefficient = *sum;
    if (*sum == 0) p.terms.erase(it);
    return true;
  }
  if (t.coefficient == 0) return true;
  if (p.terms.size() >= kMaxTerms) return false;
  p.terms.insert(it, std::move(t));
  return true;
}

Dim atom(AtomKind kind, const Dim& a, const Dim& b) {
  DimAtom x;
  x.kind = kind;
  x.a = std::make_shared<const DimPolynomial>(DimPolynomial::of(a));
  x.b = std::make_shared<const DimPolynomial>(DimPolynomial::of(b));
  if ((kind == AtomKind::min || kind == AtomKind::max) && compare(*x.b, *x.a) < 0) std::swap(x.a, x.b);
  return DimPolynomial::wrap_atom(std::move(x));
}

// Which of `a` and `b` holds the other by absorption, as in max(a, min(a, c)) = a and max(a, max(a, c)) = max(a, c);
// null: neither. `kind` is min or max.
const Dim* absorbing(AtomKind kind, const Dim& a, const Dim& b) {
  for (const auto& [whole, part] : {std::pair(&a, &b), std::pair(&b, &a)}) {
    const DimPolynomial p = DimPolynomial::of(*whole);
    if (p.terms.size() != 1 || p.terms[0].coefficient != 1 || p.terms[0].atoms.size() != 1) continue;
    const DimAtom& x = p.terms[0].atoms[0];
    if (x.kind != AtomKind::min && x.kind != AtomKind::max) continue;
    const DimPolynomial other = DimPolynomial::of(*part);
    if (compare(*x.a, other) == 0 || compare(*x.b, other) == 0) return x.kind == kind ? whole : part;
  }
  return nullptr;
}

int64_t floor_div_number(int64_t a, int64_t b) {
  const int64_t q = a / b;
  return (a % b != 0 && (a < 0) != (b < 0)) ? q - 1 : q;
}

Dim evaluate(const DimPolynomial& p, FunctionRef<std::optional<int64_t>(std::string_view)> lookup) {
  Dim sum = 0;
  for (const DimTerm& t : p.terms) {
    Dim product = t.coefficient;
    for (const DimAtom& a : t.atoms) {
      Dim factor;
      if (a.kind == AtomKind::symbol || a.kind == AtomKind::data) {
        const auto v = lookup(a.name);
        factor = v                            ? Dim(*v)
                 : a.kind == AtomKind::symbol ? Dim::symbol(a.name)
                                              : Dim::data(a.name, a.id, evaluate(*a.a, lookup));
      } else {
        const Dim x = evaluate(*a.a, lookup), y = evaluate(*a.b, lookup);
        switch (a.kind) {
          case AtomKind::floor_div:
            factor = floor_div(x, y);
            break;
          case AtomKind::mod:
            factor = mod(x, y);
            break;
          case AtomKind::min:
            factor = min(x, y);
            break;
          default:
            factor = max(x, y);
            break;
        }
      }
      product = product * factor;
    }
    sum = sum + product;
  }
  return sum;
}

void collect(const DimPolynomial& p, std::vector<std::string>* out) {
  for (const DimTerm& t : p.terms)
    for (const DimAtom& a : t.atoms) {
      if (a.kind == AtomKind::symbol && std::find(out->begin(), out->end(), a.name) == out->end())
        out->push_back(a.name);
      if (a.a) collect(*a.a, out);
      if (a.b) collect(*a.b, out);
    }
}

}  // namespace

int compare(const DimAtom& x, const DimAtom& y) {
  if (x.kind != y.kind) return x.kind < y.kind ? -1 : 1;
  if (x.kind == AtomKind::symbol || x.kind == AtomKind::data) {
    if (int c = x.name.compare(y.name)) return c;
    if (x.kind == AtomKind::symbol) return 0;
    if (x.id != y.id) return x.id < y.id ? -1 : 1;
    return compare(*x.a, *y.a);
  }
  if (int c = compare(*x.a, *y.a)) return c;
  return compare(*x.b, *y.b);
}

bool depends_on_data(const DimPolynomial& p) {
  const auto atom = [](const DimAtom& a) {
    return a.kind == AtomKind::data || (a.a && depends_on_data(*a.a)) || (a.b && depends_on_data(*a.b));
  };
  return std::ranges::any_of(p.terms, [&](const DimTerm& t) { return std::ranges::any_of(t.atoms, atom); });
}

Dim DimPolynomial::wrap_atom(DimAtom atom) {
  DimPolynomial p;
  p.terms.push_back({1, {std::move(atom)}});
  return wrap(std::move(p));
}

Dim Dim::from(DimPolynomial p) {
  if (p.terms.empty()) return Dim(0);
  if (p.terms.size() == 1 && p.terms[0].atoms.empty()) return Dim(p.terms[0].coefficient);
  Dim d;
  d.poly_ = std::make_shared<const DimPolynomial>(std::move(p));
  return d;
}

const DimPolynomial Dim::polynomial() const {
  if (poly_) return *poly_;
  DimPolynomial p;
  if (known_ && value_ != 0) p.terms.push_back({value_, {}});
  return p;
}

Dim Dim::symbol(std::string_view name) {
  DimAtom a;
  a.name = std::string(name);
  return DimPolynomial::wrap_atom(std::move(a));
}

Dim Dim::data(std::string_view name, uint64_t id, const Dim& most) {
  const Dim bound = upper_bound(most);
  if (bound.is_unknown() || bound == 0) return bound;
  DimAtom a;
  a.kind = AtomKind::data;
  a.name = std::string(name);
  a.id = id;
  a.a = std::make_shared<const DimPolynomial>(bound.polynomial());
  return DimPolynomial::wrap_atom(std::move(a));
}

bool Dim::depends_on_data() const { return poly_ && forethought::depends_on_data(*poly_); }

bool Dim::same(const Dim& o) const {
  if (known_ || o.known_) return known_ && o.known_ && value_ == o.value_;
  if (!poly_ || !o.poly_) return false;
  return poly_ == o.poly_ || compare(*poly_, *o.poly_) == 0;
}

Dim Dim::substitute(FunctionRef<std::optional<int64_t>(std::string_view)> lookup) const {
  return poly_ ? evaluate(*poly_, lookup) : *this;
}

void Dim::symbols(std::vector<std::string>* out) const {
  if (poly_) collect(*poly_, out);
}

Dim operator+(const Dim& a, const Dim& b) {
  if (a.known_ && b.known_) {
    const auto r = checked_add(a.value_, b.value_);
    return r ? Dim(*r) : Dim();
  }
  if (a.is_unknown() || b.is_unknown()) return Dim();
  DimPolynomial p = a.polynomial();
  for (DimTerm& t : DimPolynomial(b.polynomial()).terms)
    if (!add_term(p, std::move(t))) return Dim();
  return Dim::from(std::move(p));
}

Dim operator-(const Dim& a, const Dim& b) { return a + Dim(-1) * b; }

Dim operator*(const Dim& a, const Dim& b) {
  if (a.known_ && b.known_) {
    const auto r = checked_mul(a.value_, b.value_);
    return r ? Dim(*r) : Dim();
  }
  if (a.is_unknown() || b.is_unknown()) return Dim();
  const DimPolynomial x = a.polynomial(), y = b.polynomial();
  DimPolynomial p;
  for (const DimTerm& s : x.terms)
    for (const DimTerm& t : y.terms) {
      const auto c = checked_mul(s.coefficient, t.coefficient);
      if (!c || s.atoms.size() + t.atoms.size() > 16) return Dim();
      DimTerm r{*c, s.atoms};
      r.atoms.insert(r.atoms.end(), t.atoms.begin(), t.atoms.end());
      std::sort(r.atoms.begin(), r.atoms.end(), [](const DimAtom& u, const DimAtom& v) { return compare(u, v) < 0; });
      if (!add_term(p, std::move(r))) return Dim();
    }
  return Dim::from(std::move(p));
}

Dim floor_div(const Dim& a, const Dim& b) {
  if (b == 0 || a.is_unknown() || b.is_unknown()) return Dim();
  if (b == 1) return a;
  if (a.known_ && b.known_) {
    if (b.value_ == -1) return Dim(0) - a;
    return Dim(floor_div_number(a.value_, b.value_));
  }
  if (a.same(b)) return Dim(1);  // dims are not negative; a zero dim divided by itself is no use to anybody
  if (b.known_) {                // whole terms divide exactly: ⌊(b·q + r)/b⌋ = q + ⌊r/b⌋
    DimPolynomial q, r;
    for (const DimTerm& t : a.polynomial().terms) {
      if (t.coefficient % b.value_ == 0) {
        q.terms.push_back({t.coefficient / b.value_, t.atoms});
      } else {
        r.terms.push_back(t);
      }
    }
    if (!q.terms.empty()) return Dim::from(std::move(q)) + floor_div(Dim::from(std::move(r)), b);
  } else {  // exact division by a symbolic monomial, as in (N·C)/C
    const DimPolynomial d = b.polynomial();
    if (d.terms.size() == 1) {
      DimPolynomial q;
      bool exact = true;
      for (const DimTerm& t : a.polynomial().terms) {
        DimTerm u = t;
        exact = exact && u.coefficient % d.terms[0].coefficient == 0;
        if (!exact) break;
        u.coefficient /= d.terms[0].coefficient;
        for (const DimAtom& f : d.terms[0].atoms) {
          auto it = std::find_if(u.atoms.begin(), u.atoms.end(), [&](const DimAtom& x) { return compare(x, f) == 0; });
          exact = exact && it != u.atoms.end();
          if (!exact) break;
          u.atoms.erase(it);
        }
        if (!exact || !add_term(q, std::move(u))) {
          exact = false;
          break;
        }
      }
      if (exact) return Dim::from(std::move(q));
    }
  }
  return atom(AtomKind::floor_div, a, b);
}

Dim mod(const Dim& a, const Dim& b) {
  if (b == 0 || a.is_unknown() || b.is_unknown()) return Dim();
  if (b == 1 || a.same(b)) return Dim(0);
  if (a.known_ && b.known_) return b.value_ == -1 ? Dim(0) : a - b * Dim(floor_div_number(a.value_, b.value_));
  if ((a - b * floor_div(a, b)).known_) return a - b * floor_div(a, b);
  return atom(AtomKind::mod, a, b);
}

Dim min(const Dim& a, const Dim& b) {
  if (a.known_ && b.known_) return Dim(std::min(a.value_, b.value_));
  if (a.is_unknown() || b.is_unknown()) return Dim();
  if (const Dim d = a - b; d.known_) return d.value_ <= 0 ? a : b;
  if (const Dim* const d = absorbing(AtomKind::min, a, b)) return *d;
  return atom(AtomKind::min, a, b);
}

Dim max(const Dim& a, const Dim& b) {
  if (a.known_ && b.known_) return Dim(std::max(a.value_, b.value_));
  if (a.is_unknown() || b.is_unknown()) return Dim();
  if (const Dim d = a - b; d.known_) return d.value_ >= 0 ? a : b;
  if (const Dim* const d = absorbing(AtomKind::max, a, b)) return *d;
  return atom(AtomKind::max, a, b);
}

Dim ceil_div(const Dim& a, const Dim& b) { return floor_div(a + b - Dim(1), b); }

SymShape SymShape::of(std::span<const int64_t> numbers) {
  return SymShape(true, absl::InlinedVector<Dim, 6>(numbers.begin(), numbers.end()));
}

bool SymShape::is_known() const {
  return has_rank && std::all_of(dims.begin(), dims.end(), [](const Dim& d) { return d.is_known(); });
}

bool SymShape::same(const SymShape& o) const {
  return has_rank && o.has_rank && dims.size() == o.dims.size() &&
         std::equal(dims.begin(), dims.end(), o.dims.begin(), [](const Dim& a, const Dim& b) { return a.same(b); });
}

Dim SymShape::elements() const {
  if (!has_rank) return Dim();
  Dim n = 1;
  for (const Dim& d : dims) n = n * d;
  return n;
}

std::optional<absl::InlinedVector<int64_t, 8>> SymShape::numbers() const {
  if (!is_known()) return std::nullopt;
  absl::InlinedVector<int64_t, 8> r;
  for (const Dim& d : dims) r.push_back(d.value());
  return r;
}

std::optional<Dim> broadcast(const Dim& a, const Dim& b) {
  if (a == 1) return b;
  if (b == 1 || a.same(b)) return a;
  if (a.is_known() && b.is_known()) return std::nullopt;
  if (a.is_known()) return a;
  if (b.is_known()) return b;
  return Dim();
}

std::optional<SymShape> broadcast(const SymShape& a, const SymShape& b) {
  if (!a.has_rank || !b.has_rank) return SymShape();
  const SymShape& longer = a.rank() >= b.rank() ? a : b;
  const SymShape& shorter = a.rank() >= b.rank() ? b : a;
  SymShape r = longer;
  const int shift = longer.rank() - shorter.rank();
  for (int i = 0; i < shorter.rank(); ++i) {
    auto d = broadcast(longer.dims[i + shift], shorter.dims[i]);
    if (!d) return std::nullopt;
    r.dims[i + shift] = *d;
  }
  return r;
}

}  // namespace forethought
