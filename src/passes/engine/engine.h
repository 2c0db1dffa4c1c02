// Runs rules over a graph and its bodies until none applies: the one place that edits.
#pragma once

#include <span>

#include "passes/engine/rule.h"

namespace forethought::passes {

// Every node is tried once, and again when something near it changed; rules in the order given. What a rewrite must
// keep is checked here for all rules: inner values that others read, types and shapes of what is replaced, that the new
// nodes bind, infer and have a kernel. A rewrite that does not pass is taken back and declined in the journal.
// `fold_budget` goes down by what applied rewrites spend. `cpu_only`: leaves nodes of other providers alone.
Status run_rules(Graph& graph, std::span<const Rule* const> rules, const PassOptions& options, bool cpu_only,
                 Journal& journal, int64_t& fold_budget);

}  // namespace forethought::passes
