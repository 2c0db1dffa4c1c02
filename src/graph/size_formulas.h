// The sizes of all values of a graph as formulas of its inputs' dims: inferred once, evaluated for each set of shapes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "graph/facts.h"

namespace forethought {

// Formulas alone do not tell whether a rule would refuse the numbers. So they are believed only where the rules
// themselves have once said the same for numbers of which no more were equal, and just the same ones 0 or 1
// (InferCtx::by_formula() has the contract). Thread safe.
class SizeFormulas {
 public:
  // Infers the graph with a symbol for each dim of an input that is no number. The graph must outlive this.
  explicit SizeFormulas(const Graph& graph);

  // Why each set of shapes is inferred anew; empty: formulas serve.
  std::string refusal() const;
  // How many different formulas there are.
  size_t size() const { return formulas_.size(); }

  using Numbers = std::vector<Dim>;  // by formula; no number only where data decide
  // For the inputs of `facts`. Nothing: there are no formulas for them, or not yet.
  std::optional<Numbers> numbers_for(const FactTable& facts) const;
  // Fills `facts`, of which those of the inputs are given, with the types and shapes that infer_facts() would find; the
  // elements of values and the tables of bodies are left as they are. `numbers` are those for these inputs.
  void fill(FactTable& facts, const Numbers& numbers) const;
  // Dims of values that are formulas; all others but those of inputs are the same whatever the inputs are. In the order
  // of values and axes.
  struct Place {
    uint32_t value, axis, formula;
  };
  std::span<const Place> places() const { return places_; }
  // Takes from a table that infer_facts() has filled that the formulas hold for numbers like these.
  void believe(const FactTable& inferred);

 private:
  struct Symbol {
    std::string name;
    uint32_t input, axis;  // where a run gives it: a place among the graph's inputs
  };
  // What the rules have said yes to.
  struct Pattern {
    std::vector<uint32_t> same_as;  // by formula: the first of constants_ and formulas that was the same; itself: none
    std::vector<uint8_t> special;   // by formula: whether it was 0 or 1
    bool operator==(const Pattern&) const = default;
  };

  void add(const Dim& d);
  std::optional<Numbers> evaluate(const FactTable& facts) const;
  Pattern pattern_of(const Numbers& numbers) const;
  bool fits(const Pattern& pattern, const Numbers& numbers) const;
  // The first value of which the rules say something else; nothing: there is none.
  std::optional<uint32_t> contradicted(const Numbers& numbers, const FactTable& inferred) const;

  const Graph& graph_;
  FactTable table_;                 // as inferred with symbols
  std::vector<Symbol> symbols_;     // sorted by nothing: there are few
  std::vector<Dim> formulas_;       // those of shapes and of followed elements, each once
  std::vector<int64_t> constants_;  // all numbers among them, and -1, 0 and 1; sorted
  std::vector<uint32_t> values_;    // those whose shape or type is filled in
  std::vector<Place> places_;       // in the order of values_

  static constexpr size_t kMostPatterns = 16;
  static constexpr int kMostContradictions = 4;
  mutable Mutex mutex_;
  std::string refusal_;
  int contradictions_ = 0;
  std::vector<Pattern> believed_;
};

}  // namespace forethought
