// Runs one node at load, on constants, with the kernel that would run it later.
#pragma once

#include <vector>

#include "base/cpu.h"
#include "graph/graph.h"

namespace forethought::passes {

// All formal inputs must be constants; outputs must be tensors of at most `limit` bytes together, sizes known only at
// run included. Prepares, packs, chooses and runs as a session does, so the bits are those of a run.
StatusOr<std::vector<Tensor>> evaluate(const Graph& graph, NodeId node, Isa isa, int64_t limit);

}  // namespace forethought::passes
