// The pattern language: what a part of a graph looks like, seen from its last node.
//
//   const Pattern x = any("x");
//   const Pattern scaled = x / kSqrt2 | x * (1 / kSqrt2);       // alternatives
//   x * (op("Erf", {scaled}) + 1.0f) * 0.5f                     // Add and Mul match in any order and bracketing
//   op("Conv", {any("x"), any("w"), optional(any("b"))}).as("conv")
//
// Numbers match a constant of one element with that value (to the precision of its type). A name that occurs twice must
// be the same value both times.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace forethought::passes {

struct PatternNode;

class Pattern {
 public:
  Pattern(double value);  // NOLINT: a constant of one element
  explicit Pattern(std::shared_ptr<const PatternNode> node) : node_(std::move(node)) {}
  Pattern as(std::string_view name) const;  // binds the node too (or the value, of any and constant)
  const std::shared_ptr<const PatternNode>& node() const { return node_; }
  std::vector<std::string> root_operators() const;  // empty: any operator
  int depth() const;

 private:
  std::shared_ptr<const PatternNode> node_;
};

Pattern any(std::string_view name);       // any value
Pattern constant(std::string_view name);  // a constant with known contents
Pattern optional(const Pattern& p);       // as an input: may be skipped
// A node by its operator ("Conv", "forethought.FusedConv") and inputs; trailing inputs not listed must be absent.
Pattern op(std::string_view type, std::vector<Pattern> inputs);
Pattern operator|(const Pattern& a, const Pattern& b);
Pattern operator+(const Pattern& a, const Pattern& b);
Pattern operator-(const Pattern& a, const Pattern& b);
Pattern operator*(const Pattern& a, const Pattern& b);
Pattern operator/(const Pattern& a, const Pattern& b);

// What a match bound.
class Match {
 public:
  Match(const Graph& graph, NodeId root) : graph_(&graph), root_(root) {}
  const Graph& graph() const { return *graph_; }
  NodeId root() const { return root_; }
  bool has(std::string_view name) const { return find(name) != nullptr; }
  ValueId id(std::string_view name) const;                     // invalid if the optional is absent
  const GraphValue& operator[](std::string_view name) const;   // of a name that is bound
  const Tensor* constant(std::string_view name) const;         // contents, or null
  const GraphNode& node(std::string_view name) const;          // the node bound with as()
  const std::vector<NodeId>& nodes() const { return nodes_; }  // all matched, root first

 private:
  friend class Matcher;
  struct Binding {
    std::string_view name;
    ValueId value;
    NodeId node;
  };
  const Binding* find(std::string_view name) const;
  const Graph* graph_;
  NodeId root_;
  std::vector<Binding> bindings_;
  std::vector<NodeId> nodes_;
};

std::optional<Match> match(const Pattern& pattern, const Graph& graph, NodeId root);

}  // namespace forethought::passes
