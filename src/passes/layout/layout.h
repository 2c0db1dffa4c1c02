// The layout stage: carries blocked channels from convolution to convolution through what takes them.
#pragma once

#include <cstdint>

#include "graph/graph.h"
#include "graph/operator.h"
#include "passes/journal.h"

namespace forethought::passes {

// Chooses for each node of the CPU provider whether it runs on plain or blocked channels (`block` channels a block), so
// that the estimated traffic of reorders, of copies inside convolutions and of padded channels is least; then puts a
// Reorder where a value is read in another layout than it is made in. Symbolic dims are estimated. Each connected
// region is one entry of the journal. Bodies are graphs of their own.
Status choose_layouts(Graph& graph, const OperatorLibrary& library, uint8_t block, Journal& journal);

}  // namespace forethought::passes
