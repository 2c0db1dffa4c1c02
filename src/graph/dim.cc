#include "graph/dim.h"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "absl/strings/str_cat.h"
#include "base/checked.h"

namespace forethought {
namespace {

enum class AtomKind : uint8_t { symbol, floor_div, mod, min, max };
constexpr const char* kAtomNames[] = {"", "floor_div", "mod", "min", "max"};
constexpr size_t kMaxTerms = 64;  // larger expressions become unknown: they would compare slowly and help nobody

}  // namespace

// An indivisible factor. Ordered by kind, name, then operands, so that polynomials have one form.
struct DimAtom {
  AtomKind kind = AtomKind::symbol;
  std::string symbol;
  std::shared_ptr<const DimPolynomial> a, b;
};
int compare(const DimAtom& x, const DimAtom& y);

struct DimTerm {
  int64_t coefficient = 0;
  std::vector<DimAtom> atoms;  // sorted
};

struct DimPolynomial {
  std::vector<DimTerm> terms;  // sorted by atoms, no zero coefficients; the constant term (no atoms) comes first
  static Dim wrap(DimPolynomial p) { return Dim::from(std::move(p)); }
  static DimPolynomial of(const Dim& d) { return d.polynomial(); }
};

namespace {

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
  DimPolynomial p;
  p.terms.push_back({1, {std::move(x)}});
  return DimPolynomial::wrap(std::move(p));
}

int64_t floor_div_number(int64_t a, int64_t b) {
  const int64_t q = a / b;
  return (a % b != 0 && (a < 0) != (b < 0)) ? q - 1 : q;
}

// Other names are written in back quotes.
bool is_word(std::string_view s) {
  return !s.empty() && !(s[0] >= '0' && s[0] <= '9') && std::all_of(s.begin(), s.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '_' || c == '.' || c == '/' || c == ':' || c >= 0x80;
  });
}

std::string print(const DimPolynomial& p);
std::string print(const DimAtom& a) {
  if (a.kind == AtomKind::symbol) return is_word(a.symbol) ? a.symbol : absl::StrCat("`", a.symbol, "`");
  return absl::StrCat(kAtomNames[static_cast<int>(a.kind)], "(", print(*a.a), ",", print(*a.b), ")");
}
std::string print(const DimPolynomial& p) {
  if (p.terms.empty()) return "0";
  std::string s;
  // Symbols first, the constant last, as people write it.
  auto put = [&](const DimTerm& t) {
    const bool minus = t.coefficient < 0;
    if (!s.empty())
      absl::StrAppend(&s, minus ? " - " : " + ");
    else if (minus)
      s = "-";
    const uint64_t c = minus ? 0 - static_cast<uint64_t>(t.coefficient) : static_cast<uint64_t>(t.coefficient);
    bool first = true;
    if (c != 1 || t.atoms.empty()) absl::StrAppend(&s, c), first = false;
    for (const DimAtom& a : t.atoms) absl::StrAppend(&s, first ? "" : "*", print(a)), first = false;
  };
  for (const DimTerm& t : p.terms)
    if (!t.atoms.empty()) put(t);
  if (p.terms.front().atoms.empty()) put(p.terms.front());
  return s;
}

Dim evaluate(const DimPolynomial& p, FunctionRef<std::optional<int64_t>(std::string_view)> lookup) {
  Dim sum = 0;
  for (const DimTerm& t : p.terms) {
    Dim product = t.coefficient;
    for (const DimAtom& a : t.atoms) {
      Dim factor;
      if (a.kind == AtomKind::symbol) {
        const auto v = lookup(a.symbol);
        factor = v ? Dim(*v) : Dim::symbol(a.symbol);
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
      if (a.kind == AtomKind::symbol) {
        if (std::find(out->begin(), out->end(), a.symbol) == out->end()) out->push_back(a.symbol);
      } else {
        collect(*a.a, out);
        collect(*a.b, out);
      }
    }
}

}  // namespace

int compare(const DimAtom& x, const DimAtom& y) {
  if (x.kind != y.kind) return x.kind < y.kind ? -1 : 1;
  if (x.kind == AtomKind::symbol) return x.symbol.compare(y.symbol);
  if (int c = compare(*x.a, *y.a)) return c;
  return compare(*x.b, *y.b);
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
  a.symbol = std::string(name);
  DimPolynomial p;
  p.terms.push_back({1, {std::move(a)}});
  return from(std::move(p));
}

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
  return atom(AtomKind::min, a, b);
}

Dim max(const Dim& a, const Dim& b) {
  if (a.known_ && b.known_) return Dim(std::max(a.value_, b.value_));
  if (a.is_unknown() || b.is_unknown()) return Dim();
  if (const Dim d = a - b; d.known_) return d.value_ >= 0 ? a : b;
  return atom(AtomKind::max, a, b);
}

Dim ceil_div(const Dim& a, const Dim& b) { return floor_div(a + b - Dim(1), b); }

std::string to_string(const Dim& d) {
  if (d.is_known()) return absl::StrCat(d.value());
  if (d.is_unknown()) return "?";
  return print(DimPolynomial::of(d));
}

namespace {

// expression := term (('+'|'-') term)* ; term := factor ('*' factor)* ; factor := number | name['(' e ',' e ')'] | '-'
// factor
class DimParser {
 public:
  explicit DimParser(std::string_view s) : s_(s) {}
  std::optional<Dim> parse() {
    auto d = expression(0);
    skip();
    return d && p_ == s_.size() ? d : std::nullopt;
  }

 private:
  void skip() {
    while (p_ < s_.size() && s_[p_] == ' ') ++p_;
  }
  bool eat(char c) {
    skip();
    if (p_ < s_.size() && s_[p_] == c) return ++p_, true;
    return false;
  }
  std::optional<Dim> expression(int depth) {
    if (depth > 32) return std::nullopt;
    auto d = term(depth);
    while (d) {
      if (eat('+')) {
        auto r = term(depth);
        d = r ? std::optional(*d + *r) : std::nullopt;
      } else if (eat('-')) {
        auto r = term(depth);
        d = r ? std::optional(*d - *r) : std::nullopt;
      } else {
        break;
      }
    }
    return d;
  }
  std::optional<Dim> term(int depth) {
    auto d = factor(depth);
    while (d && eat('*')) {
      auto r = factor(depth);
      d = r ? std::optional(*d * *r) : std::nullopt;
    }
    return d;
  }
  std::optional<Dim> factor(int depth) {
    if (depth > 32) return std::nullopt;
    if (eat('-')) {
      auto d = factor(depth + 1);
      return d ? std::optional(Dim(0) - *d) : std::nullopt;
    }
    skip();
    if (eat('?')) return Dim::unknown();
    if (p_ < s_.size() && s_[p_] >= '0' && s_[p_] <= '9') {
      int64_t v = 0;
      const auto [end, error] = std::from_chars(s_.data() + p_, s_.data() + s_.size(), v);
      if (error != std::errc()) return std::nullopt;
      p_ = end - s_.data();
      return Dim(v);
    }
    if (eat('`')) {
      const size_t end = s_.find('`', p_);
      if (end == std::string_view::npos) return std::nullopt;
      const std::string_view quoted = s_.substr(p_, end - p_);
      p_ = end + 1;
      return Dim::symbol(quoted);
    }
    const size_t begin = p_;
    while (p_ < s_.size() && std::string_view(" +-*(),").find(s_[p_]) == std::string_view::npos) ++p_;
    const std::string_view word = s_.substr(begin, p_ - begin);
    if (word.empty()) return std::nullopt;
    if (!eat('(')) return Dim::symbol(word);
    auto a = expression(depth + 1);
    if (!a || !eat(',')) return std::nullopt;
    auto b = expression(depth + 1);
    if (!b || !eat(')')) return std::nullopt;
    if (word == "floor_div") return floor_div(*a, *b);
    if (word == "mod") return mod(*a, *b);
    if (word == "min") return min(*a, *b);
    if (word == "max") return max(*a, *b);
    return std::nullopt;
  }
  std::string_view s_;
  size_t p_ = 0;
};

}  // namespace

std::optional<Dim> dim_from_text(std::string_view text) { return DimParser(text).parse(); }

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

std::string to_string(const SymShape& s) {
  if (!s.has_rank) return "?";
  std::string r = "[";
  for (size_t i = 0; i < s.dims.size(); ++i) absl::StrAppend(&r, i ? "," : "", to_string(s.dims[i]));
  return r + "]";
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
