// Turning a claimed set of nodes into one node.
#pragma once

#include <span>

#include "graph/graph.h"

namespace forethought {

// False if a path leaves the set and comes back: fusing it would close a cycle.
bool is_convex(const Graph& graph, std::span<const NodeId> nodes);

struct Extracted {
  std::unique_ptr<Graph> graph;  // inputs: what the set reads from outside (constants are copied in as constants)
  std::vector<ValueId> inputs;   // the outer values of those inputs
  std::vector<ValueId> outputs;  // the outer values that the set must still produce
};
Extracted extract(const Graph& graph, std::span<const NodeId> nodes);

// Replaces the set by one node that reads and writes what `extract` said.
NodeId replace_by_one(Graph& graph, std::span<const NodeId> nodes, const Extracted& cut, OpId op,
                      std::string_view name);

}  // namespace forethought
