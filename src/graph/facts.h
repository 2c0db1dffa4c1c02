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
  std::shared_ptr<const SymValue> value;  // its elements; null: not followed
  const Tensor* constant = nullptr;       // the graph's; null: none
};

// One entry a value id. Tables of bodies hang below, one for each (node, body) that was inferred.
struct FactTable {
  std::vector<ValueFact> values;
  std::vector<NodeId> order;    // of the graph
  bool wants_formulas = false;  // see InferCtx
  // The first node that says of symbols what does not hold as formulas (InferCtx::by_formula()); invalid: none does.
  NodeId not_by_formula;
  const void* filled_by = nullptr;  // the SizeFormulas that wrote all but the inputs; null: the rules did
  std::map<std::pair<uint32_t, int>, std::unique_ptr<FactTable>> bodies;

  const ValueFact& operator[](ValueId id) const { return values[id.index]; }
  ValueFact& operator[](ValueId id) { return values[id.index]; }
};

// A table of the graph's size with the facts of its constants and, from the graph's declarations, of its inputs. It
// looks into the graph, which must not change meanwhile.
FactTable seed_facts(const Graph& graph);
// The facts of the inputs alone, in a table that has served before: what has been inferred counts no more.
void seed_again(const Graph& graph, FactTable& table);

// Runs every rule in order, from what the table says of inputs and constants. Needs bound operators. Errors name the
// node.
Status infer_facts(const Graph& graph, FactTable& table);

// One node, from what the caller knows of its inputs (at run: shapes as numbers, contents in memory). `bounded`: dims
// that data decide come with a bound where there is one, else they are unknown. Errors leave naming the node to the
// caller.
StatusOr<std::vector<InferOutput>> infer_outputs(const Graph& graph, NodeId node, std::span<const InferInput> inputs,
                                                 bool bounded = false);

// Infers with the declared inputs and writes type, shape and known elements into the graph's values, bodies included.
Status infer_shapes(Graph& graph);

}  // namespace forethought
