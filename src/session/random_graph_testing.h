// Random graphs for tests of sessions: views, in-place chains, control flow, sizes that only the data tells.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "tensor/value.h"

namespace forethought {

struct RandomGraph {
  std::string text;
  std::vector<Value> inputs;
};

// Arithmetic, products, joins, splits, reshapes (by computed shapes, too) and softmaxes of small matrices; If on what
// the data says, Loop and Scan with captured values, nested up to two deep; NonZero and what follows from it, in bodies
// too. All nodes are named. A wide one has more of them, and more that need nothing of each other. The same graph and
// inputs for the same seed.
RandomGraph random_graph(uint64_t seed, bool wide = false);

// Takes about `percent` of the nodes, by name: for the claims of a device's provider.
std::function<bool(const Graph&, const GraphNode&)> some_nodes(uint64_t seed, int percent);

// The bytes of each value; empty ones for what is no tensor.
std::vector<std::string> bytes_of(const std::vector<Value>& values);

}  // namespace forethought
