// A rule of the optimiser: where it can start, and what it answers there.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "passes/engine/pattern.h"
#include "passes/engine/rewrite.h"
#include "passes/passes.h"

namespace forethought::passes {

// What a rule may look at.
struct RuleCtx {
  const Graph& graph;
  NodeId root;
  const PassOptions& options;
  int64_t fold_budget = 0;  // bytes that folding may still add

  const GraphNode& node() const { return graph.node(root); }
  const GraphValue& in(int i) const { return graph.value(node().inputs[i]); }
  const GraphValue& out(int i = 0) const { return graph.value(node().outputs[i]); }
  bool has_in(int i) const { return i < node().formal_inputs() && node().inputs[i].valid(); }
  const Tensor* constant(int i) const { return has_in(i) && in(i).constant ? &*in(i).constant : nullptr; }
};

struct Rule {
  std::string name;
  std::vector<std::string> roots;  // names of operators ("Conv", "forethought.FusedConv"); empty: any
  Outcome (*attempt)(const RuleCtx& ctx) = nullptr;
  int depth = 1;  // how many nodes it looks upwards, the root included
};

// Matches the pattern at the context's root and hands a match to `rewrite`; the nodes matched besides the root are
// taken.
Outcome attempt_pattern(const Pattern& pattern, const RuleCtx& ctx, Outcome (*rewrite)(const Match&));

}  // namespace forethought::passes

// DEFINE_FUSION(name, pattern, rewrite): `Pattern pattern()` says what to look for, `Outcome rewrite(const Match&)`
// what becomes of it. DEFINE_RULE(name, attempt, roots...): for what no pattern says. Each needs its line in
// pipeline.inc.
#define DEFINE_FUSION(NAME, PATTERN, REWRITE)                                                                        \
  const Rule& rule_##NAME() {                                                                                        \
    static const Pattern* made = new Pattern(PATTERN());                                                             \
    static const Rule* rule =                                                                                        \
        new Rule{#NAME, made->root_operators(), [](const RuleCtx& c) { return attempt_pattern(*made, c, REWRITE); }, \
                 made->depth()};                                                                                     \
    return *rule;                                                                                                    \
  }
#define DEFINE_RULE(NAME, ATTEMPT, ...)                                   \
  const Rule& rule_##NAME() {                                             \
    static const Rule* rule = new Rule{#NAME, {__VA_ARGS__}, ATTEMPT, 2}; \
    return *rule;                                                         \
  }
