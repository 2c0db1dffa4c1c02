// The inference driver: runs the shape rules over a graph and keeps what they say of every value in a table of its own,
// so that one graph can be inferred for many shapes at the same time.
#pragma once

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "graph/infer.h"

namespace forethought {

struct ValueFact {
  ValueType type;
  SymShape shape;
  bool has_value = false;  // `value` holds its elements
  SymValue value;
};

// One entry a value id. Tables of bodies hang below, one for each (node, body) that was inferred.
struct FactTable {
  std::vector<ValueFact> values;
  std::map<std::pair<uint32_t, int>, std::unique_ptr<FactTable>> bodies;

  const ValueFact& operator[](ValueId id) const { return values[id.index]; }
  ValueFact& operator[](ValueId id) { return values[id.index]; }
};

// A table of the graph's size with the facts of its constants and, from the graph's declarations, of its inputs.
FactTable seed_facts(const Graph& graph);

// Runs every rule in order, from what the table says of inputs and constants. Needs bound operators. Errors name the
// node.
Status infer_facts(const Graph& graph, FactTable& table);

// One node, from what the caller knows of its inputs (at run: shapes as numbers, contents in memory). `bounded`: dims
// that data decide come with a bound where there is one, else they are unknown.
StatusOr<std::vector<InferOutput>> infer_outputs(const Graph& graph, NodeId node, std::span<const InferInput> inputs,
                                                 bool bounded = false);

// Infers with the declared inputs and writes type, shape and known elements into the graph's values, bodies included.
Status infer_shapes(Graph& graph);
// One node again after an edit: infers from its inputs' values in the graph and writes its outputs.
Status infer_node(Graph& graph, NodeId node);

}  // namespace forethought
