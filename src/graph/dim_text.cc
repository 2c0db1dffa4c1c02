// Dims and shapes as text, and back.
#include <algorithm>
#include <cctype>
#include <charconv>

#include "absl/strings/str_cat.h"
#include "graph/dim_terms.h"

namespace forethought {
namespace {

// Other names are written in back quotes.
bool is_word(std::string_view s) {
  return !s.empty() && !(s[0] >= '0' && s[0] <= '9') && std::all_of(s.begin(), s.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '_' || c == '.' || c == '/' || c == ':' || c >= 0x80;
  });
}

std::string print(const DimPolynomial& p);
std::string print(const DimAtom& a) {
  const std::string name = is_word(a.name) ? a.name : absl::StrCat("`", a.name, "`");
  if (a.kind == AtomKind::symbol) return name;
  const char* const function = kAtomNames[static_cast<int>(a.kind)];
  if (a.kind == AtomKind::data) return absl::StrCat(function, "(", name, ",", print(*a.a), ")");
  return absl::StrCat(function, "(", print(*a.a), ",", print(*a.b), ")");
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

}  // namespace

std::string to_string(const Dim& d) {
  if (d.is_known()) return absl::StrCat(d.value());
  if (d.is_unknown()) return "?";
  return print(DimPolynomial::of(d));
}

namespace {

// expression := term (('+'|'-') term)* ; term := factor ('*' factor)* ;
// factor := number | name | function '(' e ',' e ')' | upto '(' name ',' e ')' | '-' factor
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
    const bool quoted = s_.substr(p_).starts_with('`');
    const auto word = name();
    if (!word) return std::nullopt;
    if (quoted || !eat('(')) return Dim::symbol(*word);
    if (*word == kAtomNames[static_cast<int>(AtomKind::data)]) {
      const auto called = name();
      if (!called || !eat(',')) return std::nullopt;
      const auto most = expression(depth + 1);
      return most && eat(')') ? std::optional(Dim::data(*called, 0, *most)) : std::nullopt;
    }
    auto a = expression(depth + 1);
    if (!a || !eat(',')) return std::nullopt;
    auto b = expression(depth + 1);
    if (!b || !eat(')')) return std::nullopt;
    if (*word == "floor_div") return floor_div(*a, *b);
    if (*word == "mod") return mod(*a, *b);
    if (*word == "min") return min(*a, *b);
    if (*word == "max") return max(*a, *b);
    return std::nullopt;
  }
  // A word, or what stands in back quotes.
  std::optional<std::string_view> name() {
    skip();
    if (eat('`')) {
      const size_t end = s_.find('`', p_);
      if (end == std::string_view::npos) return std::nullopt;
      const std::string_view quoted = s_.substr(p_, end - p_);
      p_ = end + 1;
      return quoted;
    }
    const size_t begin = p_;
    while (p_ < s_.size() && std::string_view(" +-*(),").find(s_[p_]) == std::string_view::npos) ++p_;
    return p_ > begin ? std::optional(s_.substr(begin, p_ - begin)) : std::nullopt;
  }
  std::string_view s_;
  size_t p_ = 0;
};

}  // namespace

std::optional<Dim> dim_from_text(std::string_view text) { return DimParser(text).parse(); }

std::string to_string(const SymShape& s) {
  if (!s.has_rank) return "?";
  std::string r = "[";
  for (size_t i = 0; i < s.dims.size(); ++i) absl::StrAppend(&r, i ? "," : "", to_string(s.dims[i]));
  return r + "]";
}

}  // namespace forethought
