// What stays on the host whatever device a graph runs on: shapes, and the small integers that they are computed from.
#pragma once

#include <cstdint>

#include "graph/graph.h"

namespace forethought {

// Inputs (a bit each) that say a shape, axes or counts, by the names that ONNX gives them: shape, axes, starts, repeats
// …
uint32_t shape_inputs(const GraphNode& node);

// Nodes that compute shapes: they read nothing but dims, or inference has followed the elements of all they make.
bool is_shape_arithmetic(const Graph& graph, const GraphNode& node);

// Whether the node reads only the dims of its input, never its elements.
bool reads_only_dims(const GraphNode& node);

}  // namespace forethought
