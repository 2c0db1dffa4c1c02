#include "graph/size_formulas.h"

#include <algorithm>
#include <mutex>

#include "absl/strings/str_cat.h"

namespace forethought {
namespace {

constexpr size_t kMostFormulas = 512;  // more cost as much as the rules do
constexpr int64_t kTooLarge = int64_t{1} << 31;

// The name if it is one symbol and nothing else.
std::optional<std::string> plain_symbol(const Dim& d) {
  std::vector<std::string> names;
  d.symbols(&names);
  if (names.size() != 1 || !d.same(Dim::symbol(names[0]))) return std::nullopt;
  return std::move(names[0]);
}

}  // namespace

SizeFormulas::SizeFormulas(const Graph& graph) : graph_(graph), table_(seed_facts(graph)) {
  const auto text = [&](NodeId id) {
    return absl::StrCat("node ", graph.node(id).name, " (", to_string(graph.node(id).op), ")");
  };
  for (const NodeId id : table_.order)
    if (!graph.node(id).bodies.empty()) {
      refusal_ = absl::StrCat(text(id), " holds graphs");
      return;
    }
  for (uint32_t i = 0; i < graph.inputs().size(); ++i) {
    SymShape& shape = table_[graph.inputs()[i]].shape;
    for (uint32_t axis = 0; axis < static_cast<uint32_t>(shape.rank()); ++axis) {
      Dim& d = shape.dims[axis];
      if (d.is_known()) continue;
      std::string name = plain_symbol(d).value_or(absl::StrCat("input ", i, " axis ", axis));
      d = Dim::symbol(name);
      symbols_.push_back({std::move(name), i, axis});
    }
  }
  if (symbols_.empty()) {
    refusal_ = "no input has open dims";
    return;
  }
  table_.wants_formulas = true;
  if (const Status inferred = infer_facts(graph, table_); !inferred.ok()) {
    refusal_ = std::string(inferred.message());
    return;
  }
  if (table_.not_by_formula.valid()) {
    refusal_ = absl::StrCat("what ", text(table_.not_by_formula), " makes of open dims is no formula");
    return;
  }
  constants_ = {-1, 0, 1};
  for (uint32_t v = 0; v < table_.values.size(); ++v) {
    ValueFact& f = table_.values[v];
    for (const Dim& d : f.shape.dims) add(d);
    if (f.value)
      for (const Dim& d : f.value->ints) add(d);
    if (graph.value(ValueId{v}).removed || f.constant || graph.value(ValueId{v}).is_input) continue;
    values_.push_back(v);
    for (uint32_t axis = 0; axis < static_cast<uint32_t>(f.shape.rank()); ++axis) {
      const auto same = [&](const Dim& d) { return d.same(f.shape.dims[axis]); };
      const auto at = std::ranges::find_if(formulas_, same);
      if (at != formulas_.end()) places_.push_back({v, axis, static_cast<uint32_t>(at - formulas_.begin())});
    }
  }
  std::ranges::sort(constants_);
  constants_.erase(std::ranges::unique(constants_).begin(), constants_.end());
  if (formulas_.size() > kMostFormulas) refusal_ = absl::StrCat("there are more than ", kMostFormulas, " formulas");
}

void SizeFormulas::add(const Dim& d) {
  if (d.is_known()) {
    constants_.push_back(d.value());
  } else if (d.is_symbolic() && formulas_.size() <= kMostFormulas &&
             std::ranges::none_of(formulas_, [&](const Dim& f) { return f.same(d); })) {
    formulas_.push_back(d);
  }
}

std::optional<SizeFormulas::Numbers> SizeFormulas::evaluate(const FactTable& facts) const {
  absl::InlinedVector<int64_t, 8> numbers;
  const auto inputs = graph_.inputs();
  for (const Symbol& s : symbols_) {
    const ValueFact& f = facts[inputs[s.input]];
    if (f.value || f.shape.dims.size() <= s.axis || !f.shape.dims[s.axis].is_known()) return std::nullopt;
    numbers.push_back(f.shape.dims[s.axis].value());
  }
  const auto lookup = [&](std::string_view name) -> std::optional<int64_t> {
    for (size_t i = 0; i < symbols_.size(); ++i)
      if (symbols_[i].name == name) return numbers[i];
    return std::nullopt;
  };
  // One name in several places is one number; what was declared otherwise is so here too.
  for (size_t i = 0; i < symbols_.size(); ++i)
    if (lookup(symbols_[i].name) != numbers[i]) return std::nullopt;
  for (const ValueId id : inputs) {
    const ValueFact &given = facts[id], &declared = table_[id];
    if (!(given.type == declared.type) || given.value || given.shape.has_rank != declared.shape.has_rank ||
        given.shape.rank() != declared.shape.rank())
      return std::nullopt;
    for (int d = 0; d < given.shape.rank(); ++d)
      if (declared.shape.dims[d].is_known() && !given.shape.dims[d].same(declared.shape.dims[d])) return std::nullopt;
  }

  Numbers result;
  result.reserve(formulas_.size());
  for (const Dim& formula : formulas_) {
    Dim d = formula.substitute(lookup);
    if (d.is_known() ? d.value() < 0 || d.value() >= kTooLarge : !d.depends_on_data()) return std::nullopt;
    result.push_back(std::move(d));
  }
  return result;
}

SizeFormulas::Pattern SizeFormulas::pattern_of(const Numbers& numbers) const {
  Pattern p;
  for (uint32_t i = 0; i < numbers.size(); ++i) {
    const Dim& d = numbers[i];
    const auto constant = std::ranges::find_if(constants_, [&](int64_t c) { return d == c; });
    const auto before = std::find_if(numbers.begin(), numbers.begin() + i, [&](const Dim& o) { return o.same(d); });
    p.same_as.push_back(static_cast<uint32_t>(constant != constants_.end()
                                                  ? constant - constants_.begin()
                                                  : std::ssize(constants_) + (before - numbers.begin())));
    p.special.push_back(d == 0 || d == 1);
  }
  return p;
}

bool SizeFormulas::fits(const Pattern& pattern, const Numbers& numbers) const {
  for (uint32_t i = 0; i < numbers.size(); ++i) {
    const Dim& d = numbers[i];
    const uint32_t other = pattern.same_as[i];
    if ((d == 0 || d == 1) != (pattern.special[i] != 0)) return false;
    if (other < constants_.size() ? !(d == constants_[other]) : !d.same(numbers[other - constants_.size()]))
      return false;
  }
  return true;
}

std::string SizeFormulas::refusal() const {
  const std::lock_guard lock(mutex_);
  return refusal_;
}

std::optional<SizeFormulas::Numbers> SizeFormulas::numbers_for(const FactTable& facts) const {
  if (!refusal().empty()) return std::nullopt;
  std::optional<Numbers> numbers = evaluate(facts);
  if (!numbers) return std::nullopt;
  const std::lock_guard lock(mutex_);
  const auto fit = [&](const Pattern& p) { return fits(p, *numbers); };
  if (!refusal_.empty() || std::ranges::none_of(believed_, fit)) return std::nullopt;
  return numbers;
}

void SizeFormulas::fill(FactTable& facts, const Numbers& numbers) const {
  if (facts.filled_by != this) {
    for (const uint32_t v : values_) {
      facts.values[v].type = table_.values[v].type;
      facts.values[v].shape = table_.values[v].shape;
    }
    facts.filled_by = this;
  }
  for (const Place& p : places_) facts.values[p.value].shape.dims[p.axis] = numbers[p.formula];
}

std::optional<uint32_t> SizeFormulas::contradicted(const Numbers& numbers, const FactTable& inferred) const {
  size_t place = 0;
  for (const uint32_t v : values_) {
    const ValueFact &formula = table_.values[v], &fact = inferred.values[v];
    const SymShape &a = formula.shape, &b = fact.shape;
    if (!(formula.type == fact.type) || a.has_rank != b.has_rank || a.rank() != b.rank()) return v;
    for (uint32_t axis = 0; axis < static_cast<uint32_t>(a.rank()); ++axis) {
      const bool placed = place < places_.size() && places_[place].value == v && places_[place].axis == axis;
      const Dim& d = placed ? numbers[places_[place++].formula] : a.dims[axis];
      if (!d.same(b.dims[axis]) && !(d.is_unknown() && b.dims[axis].is_unknown())) return v;
    }
  }
  return std::nullopt;
}

void SizeFormulas::believe(const FactTable& inferred) {
  if (!refusal().empty()) return;
  const std::optional<Numbers> numbers = evaluate(inferred);
  if (!numbers) return;
  const std::optional<uint32_t> wrong = contradicted(*numbers, inferred);
  const std::lock_guard lock(mutex_);
  const auto fit = [&](const Pattern& p) { return fits(p, *numbers); };
  if (!refusal_.empty() || std::ranges::any_of(believed_, fit)) return;
  if (wrong) {
    // A dim of 0 that broadcasts with 1, say. Where that is the rule, nothing is to be had.
    if (++contradictions_ == kMostContradictions && believed_.empty())
      refusal_ = absl::StrCat("numbers tell more of value '", graph_.value(ValueId{*wrong}).name, "' than formulas do");
    return;
  }
  if (believed_.size() == kMostPatterns) believed_.erase(believed_.begin());
  believed_.push_back(pattern_of(*numbers));
}

}  // namespace forethought
