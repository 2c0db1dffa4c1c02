// Which layouts a node can run in, and what a value costs in each.
#pragma once

#include <vector>

#include "absl/container/inlined_vector.h"
#include "graph/operator.h"

namespace forethought::passes {

// One way to run a node: the layouts that it reads and writes, and its own cost beside reorders (elements moved).
struct Form {
  absl::InlinedVector<Layout, 4> inputs;
  absl::InlinedVector<Layout, 2> outputs;
  double cost = 0;
  bool blocked = false;
};

// All forms of a node; [0] is plain throughout.
std::vector<Form> forms_of(const Graph& graph, NodeId id, uint8_t block);

// Estimated elements of a tensor; channels padded to whole blocks where `block` is above 1.
double elements_of(const GraphValue& v, uint8_t block = 1);
// What a Reorder of the value costs.
double reorder_cost(const GraphValue& v, uint8_t block);
// Whether a value can be blocked: f32 of three dims or more with a known number of channels.
bool can_be_blocked(const GraphValue& v);

}  // namespace forethought::passes
