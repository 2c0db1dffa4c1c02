// inline_if: an If whose condition is constant becomes the nodes of the branch that is taken.
#include <map>

#include "passes/engine/constants.h"
#include "passes/engine/rule.h"

namespace forethought::passes {
namespace {

class Inliner {
 public:
  Inliner(const RuleCtx& c, const Graph& body) : c_(c), body_(body) {
    const GraphNode& n = c.node();
    for (int i = 0; i < n.captures; ++i) map_[body.inputs()[i]] = Ref(n.inputs[n.formal_inputs() + i]);
  }

  Outcome run() {
    for (NodeId id : body_.order()) copy(id);
    const GraphNode& n = c_.node();
    for (size_t i = 0; i < n.outputs.size(); ++i)
      if (n.outputs[i].valid()) rewrite_.result(static_cast<int>(i), ref(body_.outputs()[i]));
    return std::move(rewrite_);
  }

 private:
  Ref ref(ValueId v) {
    if (!v.valid()) return {};
    const auto it = map_.find(v);
    if (it != map_.end()) return it->second;
    return map_[v] = rewrite_.constant(*body_.value(v).constant);  // all else a body reads is made in it
  }

  void copy(NodeId id) {
    const GraphNode& from = body_.node(id);
    Rewrite::NewNode n;
    n.op = from.op;
    n.name = from.name;
    n.attributes = from.attributes;
    n.captures = from.captures;
    n.outputs = static_cast<int>(from.outputs.size());
    n.origin = from.origin.empty() ? std::vector<std::string>{from.name} : from.origin;
    for (ValueId v : from.inputs) n.inputs.push_back(ref(v));
    for (const auto& [attribute, body] : from.bodies) n.bodies.emplace_back(attribute, body->clone());
    for (ValueId v : from.outputs) n.output_names.push_back(v.valid() ? body_.value(v).name : "");
    const Ref made = rewrite_.node(std::move(n));
    for (size_t i = 0; i < from.outputs.size(); ++i)
      if (from.outputs[i].valid()) map_[from.outputs[i]] = made.output(static_cast<int>(i));
  }

  const RuleCtx& c_;
  const Graph& body_;
  std::map<ValueId, Ref> map_;
  Rewrite rewrite_;
};

Outcome attempt(const RuleCtx& c) {
  std::optional<double> condition;
  if (const Tensor* t = c.constant(0)) condition = only_number(*t);
  if (!condition) return no_match();
  const char* branch = *condition != 0 ? "then_branch" : "else_branch";
  const Graph* body = c.node().body(branch);
  if (!body || static_cast<int>(body->inputs().size()) != c.node().captures)
    return decline("the branch does not have the inputs of the node");
  Outcome outcome = Inliner(c, *body).run();
  std::get<Rewrite>(outcome).says(branch);
  return outcome;
}

}  // namespace

DEFINE_RULE(inline_if, attempt, "If")

}  // namespace forethought::passes
