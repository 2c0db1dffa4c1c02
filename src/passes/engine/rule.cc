#include "passes/engine/rule.h"

namespace forethought::passes {

Outcome attempt_pattern(const Pattern& pattern, const RuleCtx& ctx, Outcome (*rewrite)(const Match&)) {
  const auto found = match(pattern, ctx.graph, ctx.root);
  if (!found) return no_match();
  Outcome outcome = rewrite(*found);
  if (auto* r = std::get_if<Rewrite>(&outcome))
    for (NodeId n : found->nodes())
      if (n != ctx.root) r->takes(n);
  return outcome;
}

}  // namespace forethought::passes
