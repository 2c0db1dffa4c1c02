// The rewrites of a graph, by stage: basic (any provider can run the result), extended (fusions into what our kernels
// take) and layout (blocked channels through convolution regions).
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/cpu.h"
#include "base/status.h"
#include "graph/graph.h"
#include "graph/operator.h"
#include "passes/journal.h"

namespace forethought {

inline constexpr int64_t kDefaultFoldBudget = int64_t{1} << 30;

enum class PassStage { basic, extended, layout };

struct PassOptions {
  const OperatorLibrary* library = nullptr;
  Isa isa = Isa::scalar;
  int64_t fold_budget = kDefaultFoldBudget;  // bytes that folding may add in all
  std::span<const std::string> disabled;     // names of rules that are not tried
};

// Runs the rules of one stage to a fixed point. The graph is bound and inferred before and after; bodies too. Only
// nodes of the CPU provider are rewritten in the extended and layout stages.
Status run_passes(Graph& graph, PassStage stage, const PassOptions& options, Journal& journal);

}  // namespace forethought
