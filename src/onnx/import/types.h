// Element types followed through a graph by the schemas' type constraints alone, for rules that need one at import.
#pragma once

#include "graph/graph.h"

namespace forethought {

// Sets the type of the node's outputs where its inputs' types, its attributes and its schema decide it; leaves the
// others.
void derive_output_types(Graph& graph, NodeId node);

}  // namespace forethought
