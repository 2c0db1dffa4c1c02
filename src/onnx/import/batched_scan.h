// The oldest form of Scan in terms of the newest.
#pragma once

#include "graph/graph.h"

namespace forethought {

// Replaces a Scan that carries the mark "_batched" (form 8: lengths first, a batch as the first dim of everything) by a
// Scan over the batch, without states, whose body is the Scan over one sequence. Lengths cut its inputs, and its
// outputs are filled up with zeroes.
Status spell_out_batched_scan(Graph& graph, NodeId node);

}  // namespace forethought
