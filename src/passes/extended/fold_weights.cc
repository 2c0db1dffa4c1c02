// fold_weights: DequantizeLinear of a constant becomes the float weights; no kernel here takes the quantised ones.
#include "passes/basic/evaluate.h"
#include "passes/engine/rule.h"

namespace forethought::passes {
namespace {

Outcome attempt(const RuleCtx& c) {
  for (size_t i = 0; i < c.node().inputs.size(); ++i)
    if (c.node().inputs[i].valid() && !c.constant(static_cast<int>(i))) return no_match();
  auto outputs = evaluate(c.graph, c.root, c.options.isa, c.fold_budget);
  if (!outputs.ok()) return decline(outputs.status().message());
  Rewrite r;
  r.spends((*outputs)[0].bytes() - c.constant(0)->bytes());
  r.result(0, r.constant(std::move((*outputs)[0]), c.node().inputs[0]));
  return r;
}

}  // namespace

DEFINE_RULE(fold_weights, attempt, "DequantizeLinear")

}  // namespace forethought::passes
