// sink_constants: a constant that bodies capture becomes one of their own, so that what is made of it (packed weights,
// folded nodes) is made at load. The capture stays and nobody reads it.
#include "passes/engine/rule.h"

namespace forethought::passes {
namespace {

// The body's input for capture `i` of the node.
ValueId captured(const Graph& body, const GraphNode& n, int i) {
  return body.inputs()[body.inputs().size() - static_cast<size_t>(n.captures - i)];
}

bool is_read(const Graph& body, ValueId v) { return !body.value(v).uses.empty(); }

Outcome attempt(const RuleCtx& c) {
  const GraphNode& n = c.node();
  std::vector<int> sunk;
  for (int i = 0; i < n.captures; ++i) {
    if (!c.graph.is_constant(n.inputs[n.formal_inputs() + i])) continue;
    bool read = false;
    for (const auto& [attribute, body] : n.bodies) read = read || is_read(*body, captured(*body, n, i));
    if (read) sunk.push_back(i);
  }
  if (sunk.empty()) return no_match();
  Rewrite r;
  Rewrite::NewNode made;
  made.op = n.op;
  made.attributes = n.attributes;
  made.captures = n.captures;
  made.outputs = static_cast<int>(n.outputs.size());
  made.inputs.assign(n.inputs.begin(), n.inputs.end());
  for (ValueId v : n.outputs) made.skipped.push_back(!v.valid());
  for (const auto& [attribute, body] : n.bodies) {
    std::unique_ptr<Graph> own = body->clone();
    for (const int i : sunk) {
      const ValueId from = captured(*own, n, i);
      if (!is_read(*own, from)) continue;
      const GraphValue& outer = c.graph.value(n.inputs[n.formal_inputs() + i]);
      const ValueId constant = own->add_constant(outer.name, *outer.constant);
      const auto uses = own->value(from).uses;
      for (const Use& u : uses) own->set_input(u.node, u.slot, constant);
    }
    made.bodies.emplace_back(attribute, std::move(own));
  }
  const Ref node = r.node(std::move(made));
  for (size_t i = 0; i < n.outputs.size(); ++i)
    if (n.outputs[i].valid()) r.result(static_cast<int>(i), node.output(static_cast<int>(i)));
  return r;
}

}  // namespace

DEFINE_RULE(sink_constants, attempt, "If", "Loop", "Scan", "SequenceMap")

}  // namespace forethought::passes
