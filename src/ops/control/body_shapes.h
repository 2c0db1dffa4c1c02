// Shapes around a body that runs again and again: what its states keep from trip to trip.
#pragma once

#include <vector>

#include "base/function_ref.h"
#include "graph/graph.h"
#include "graph/infer.h"

namespace forethought {

// Types and shapes of states: at first of their initial values; afterwards of all trips.
struct StateFacts {
  std::vector<ValueType> types;
  std::vector<SymShape> shapes;
};

// Runs the rule `infer` of the body until the states keep their types and shapes; what some trip changes is forgotten.
// The states are outputs [first, first + states) of the body. Returns what the body gives in the end.
StatusOr<std::vector<InferOutput>> settle_states(StateFacts& states, int first,
                                                 FunctionRef<StatusOr<std::vector<InferOutput>>()> infer);

// Says of output `s` what state `s` is after any number of trips; `made`: what a trip gives. Of an optional that every
// trip fills the result is what it holds.
void set_state(InferCtx& c, int s, const StateFacts& states, const InferOutput& made);

// Says of output `out` of the node what slices like `slice` give when `trips` of them are stacked along `axis`.
Status set_stacked(InferCtx& c, int out, const InferOutput& slice, const Dim& trips, int64_t axis);

// The dims of a slice that no trip made: as output `value` of the body declares them, 0 where it does not say.
Dims slice_never_made(const GraphValue& value);

}  // namespace forethought
