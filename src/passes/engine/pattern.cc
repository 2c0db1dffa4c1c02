#include "passes/engine/pattern.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "passes/engine/constants.h"

namespace forethought::passes {

struct PatternNode {
  enum class Kind { any, constant, number, op, either, optional };
  Kind kind = Kind::any;
  std::string name;
  double number = 0;
  std::string type;  // of op
  std::vector<Pattern> inputs;
};

namespace {

using Kind = PatternNode::Kind;

Pattern make(PatternNode n) { return Pattern(std::make_shared<const PatternNode>(std::move(n))); }

bool is_commutative(std::string_view type) {
  return type == "Add" || type == "Mul" || type == "Max" || type == "Min" || type == "And" || type == "Or";
}
bool is_associative(std::string_view type) { return type == "Add" || type == "Mul"; }

bool is_op(const GraphNode& n, std::string_view type) {
  if (n.op.domain.empty()) return n.op.type == type;
  return type.size() == n.op.domain.size() + 1 + n.op.type.size() &&
         type.substr(0, n.op.domain.size()) == n.op.domain && type[n.op.domain.size()] == '.' &&
         type.substr(n.op.domain.size() + 1) == n.op.type;
}

// The terms of a nested chain of one associative operator: x * (a * b) and (x * a) * b have three.
void collect_terms(const Pattern& p, std::string_view type, std::vector<Pattern>* terms) {
  const PatternNode& n = *p.node();
  if (n.kind == Kind::op && n.type == type && n.name.empty()) {
    for (const Pattern& in : n.inputs) collect_terms(in, type, terms);
  } else {
    terms->push_back(p);
  }
}

}  // namespace

Pattern::Pattern(double value)
    : node_(std::make_shared<const PatternNode>(PatternNode{Kind::number, "", value, "", {}})) {}

Pattern Pattern::as(std::string_view name) const {
  PatternNode n = *node_;
  n.name = std::string(name);
  return make(std::move(n));
}

std::vector<std::string> Pattern::root_operators() const {
  std::vector<std::string> all;
  if (node_->kind == Kind::op) all.push_back(node_->type);
  if (node_->kind == Kind::either)
    for (const Pattern& p : node_->inputs)
      for (std::string& name : p.root_operators())
        if (std::find(all.begin(), all.end(), name) == all.end()) all.push_back(std::move(name));
  return all;
}

int Pattern::depth() const {
  int deepest = 0;
  for (const Pattern& p : node_->inputs) deepest = std::max(deepest, p.depth());
  return deepest + (node_->kind == Kind::op ? 1 : 0);
}

Pattern any(std::string_view name) { return make({Kind::any, std::string(name), 0, "", {}}); }
Pattern constant(std::string_view name) { return make({Kind::constant, std::string(name), 0, "", {}}); }
Pattern optional(const Pattern& p) { return make({Kind::optional, "", 0, "", {p}}); }
Pattern op(std::string_view type, std::vector<Pattern> inputs) {
  return make({Kind::op, "", 0, std::string(type), std::move(inputs)});
}
Pattern operator|(const Pattern& a, const Pattern& b) {
  PatternNode n{Kind::either, "", 0, "", {}};
  for (const Pattern& p : {a, b}) {
    if (p.node()->kind == Kind::either && p.node()->name.empty())
      n.inputs.insert(n.inputs.end(), p.node()->inputs.begin(), p.node()->inputs.end());
    else
      n.inputs.push_back(p);
  }
  return make(std::move(n));
}
Pattern operator+(const Pattern& a, const Pattern& b) { return op("Add", {a, b}); }
Pattern operator-(const Pattern& a, const Pattern& b) { return op("Sub", {a, b}); }
Pattern operator*(const Pattern& a, const Pattern& b) { return op("Mul", {a, b}); }
Pattern operator/(const Pattern& a, const Pattern& b) { return op("Div", {a, b}); }

const Match::Binding* Match::find(std::string_view name) const {
  for (const Binding& b : bindings_)
    if (b.name == name) return &b;
  return nullptr;
}
ValueId Match::id(std::string_view name) const {
  const Binding* b = find(name);
  return b ? b->value : ValueId{};
}
const GraphValue& Match::operator[](std::string_view name) const { return graph_->value(find(name)->value); }
const Tensor* Match::constant(std::string_view name) const {
  const ValueId v = id(name);
  return graph_->is_constant(v) ? &*graph_->value(v).constant : nullptr;
}
const GraphNode& Match::node(std::string_view name) const { return graph_->node(find(name)->node); }

// Backtracks over alternatives, orders and bracketings. A state is what was bound so far; a step that fails puts it
// back.
class Matcher {
 public:
  Matcher(const Graph& graph, NodeId root) : graph_(graph), m_(graph, root) {}

  std::optional<Match> run(const Pattern& pattern) {
    if (!at_node(pattern, m_.root_)) return std::nullopt;
    return std::move(m_);
  }

 private:
  struct Mark {
    size_t bindings, nodes;
  };
  Mark mark() const { return {m_.bindings_.size(), m_.nodes_.size()}; }
  bool back(const Mark& k) {
    m_.bindings_.resize(k.bindings);
    m_.nodes_.resize(k.nodes);
    return false;
  }

  bool bind(const std::string& name, ValueId v, NodeId n) {
    if (name.empty()) return true;
    if (const auto* b = m_.find(name)) return b->value == v;
    m_.bindings_.push_back({name, v, n});
    return true;
  }

  bool at_value(const Pattern& p, ValueId v) {
    const PatternNode& n = *p.node();
    if (n.kind == Kind::optional) return !v.valid() || at_value(n.inputs[0], v);
    if (!v.valid()) return false;
    const Mark k = mark();
    switch (n.kind) {
      case Kind::any:
        return bind(n.name, v, NodeId{});
      case Kind::constant:
        return graph_.is_constant(v) && bind(n.name, v, NodeId{});
      case Kind::number:
        return graph_.is_constant(v) && is_number(*graph_.value(v).constant, n.number);
      case Kind::either:
        for (const Pattern& alternative : n.inputs)
          if (at_value(alternative, v)) return bind(n.name, v, graph_.producer(v)) || back(k);
        return false;
      default:
        break;
    }
    const NodeId producer = graph_.producer(v);
    if (!producer.valid() || graph_.value(v).producer_slot != 0) return false;
    return at_node(p, producer);
  }

  bool at_node(const Pattern& p, NodeId id) {
    const PatternNode& n = *p.node();
    const Mark k = mark();
    if (n.kind == Kind::either) {
      for (const Pattern& alternative : n.inputs)
        if (at_node(alternative, id)) return true;
      return false;
    }
    const GraphNode& g = graph_.node(id);
    if (n.kind != Kind::op || !is_op(g, n.type) || g.captures > 0) return false;
    if (!g.outputs[0].valid() || !bind(n.name, g.outputs[0], id)) return back(k);
    m_.nodes_.push_back(id);
    if (is_associative(n.type)) {
      std::vector<Pattern> terms;
      for (const Pattern& in : n.inputs) collect_terms(in, n.type, &terms);
      if (terms.size() > 2) {
        std::vector<ValueId> values(g.inputs.begin(), g.inputs.end());
        return chain(n.type, terms, values) || back(k);
      }
    }
    if (g.inputs.size() > n.inputs.size()) return back(k);
    if (is_commutative(n.type) && g.inputs.size() == 2 && n.inputs.size() == 2) {
      const Mark inner = mark();
      if (at_value(n.inputs[0], g.inputs[0]) && at_value(n.inputs[1], g.inputs[1])) return true;
      back(inner);
      return (at_value(n.inputs[0], g.inputs[1]) && at_value(n.inputs[1], g.inputs[0])) || back(k);
    }
    for (size_t i = 0; i < n.inputs.size(); ++i)
      if (!at_value(n.inputs[i], i < g.inputs.size() ? g.inputs[i] : ValueId{})) return back(k);
    return true;
  }

  // Opens inner nodes of the same operator until there are as many values as terms, then tries the assignments.
  bool chain(std::string_view type, const std::vector<Pattern>& terms, std::vector<ValueId> values) {
    if (values.size() == terms.size()) {
      std::vector<bool> used(values.size(), false);
      return assign(terms, values, used, 0);
    }
    for (size_t i = 0; i < values.size(); ++i) {
      const NodeId producer = graph_.producer(values[i]);
      if (!producer.valid() || !is_op(graph_.node(producer), type) || graph_.value(values[i]).uses.size() != 1)
        continue;
      const Mark k = mark();
      std::vector<ValueId> opened = values;
      const auto& in = graph_.node(producer).inputs;
      opened[i] = in[0];
      opened.push_back(in[1]);
      m_.nodes_.push_back(producer);
      if (chain(type, terms, std::move(opened))) return true;
      back(k);
    }
    return false;
  }
  bool assign(const std::vector<Pattern>& terms, const std::vector<ValueId>& values, std::vector<bool>& used,
              size_t at) {
    if (at == terms.size()) return true;
    for (size_t i = 0; i < values.size(); ++i) {
      if (used[i]) continue;
      const Mark k = mark();
      used[i] = true;
      if (at_value(terms[at], values[i]) && assign(terms, values, used, at + 1)) return true;
      used[i] = false;
      back(k);
    }
    return false;
  }

  const Graph& graph_;
  Match m_;
};

std::optional<Match> match(const Pattern& pattern, const Graph& graph, NodeId root) {
  return Matcher(graph, root).run(pattern);
}

}  // namespace forethought::passes
