// An operator bound to one node, as the graph sees it: its shape rule, its layouts, its kernel.
#pragma once

#include <memory>
#include <span>

#include "graph/graph.h"
#include "graph/infer.h"

namespace forethought {

class Kernel;

// A question of the layout pass: with these input layouts, which output layouts would the operator produce?
struct LayoutQuery {
  std::span<const SymShape* const> input_shapes;
  std::span<const SymShape* const> output_shapes;
  std::span<const ValueType* const> input_types;
  std::span<const Tensor* const> constants;  // of the inputs; null where contents may change
  std::span<const Layout> inputs;
  uint8_t block = 16;         // channels a block on this machine
  std::span<Layout> outputs;  // answer, if accepted
};

class Operator {
 public:
  virtual ~Operator() = default;
  // Output types and shapes from what is known of the inputs. Errors name the input and say what is wrong with it.
  virtual Status infer(InferCtx& ctx) const = 0;
  // True if the operator runs with these input layouts; then `outputs` is filled. Plain in, plain out always works.
  virtual bool accepts(LayoutQuery& query) const { return false; }
  // Whether constant folding may evaluate it: deterministic, no bodies with effects.
  virtual bool foldable() const { return true; }
  virtual const Kernel* kernel() const = 0;  // never null; same life as this
};

// Knows operators by name. Implemented by ops/; handed to whoever needs to bind nodes.
class OperatorLibrary {
 public:
  virtual ~OperatorLibrary() = default;
  virtual bool has(std::string_view domain, std::string_view type) const = 0;
  // Parses the node's attributes; an error names the attribute. Unknown operators: unsupported() with the nearest name.
  virtual StatusOr<std::shared_ptr<const Operator>> bind(const GraphNode& node) const = 0;
  // Whether a kernel takes these types: ok, or the reason and what there is.
  virtual Status supports(const Graph& graph, const GraphNode& node) const = 0;
};

// Binds every node, bodies included. All nodes that fail are listed in one error.
Status bind_operators(Graph& graph, const OperatorLibrary& library);

}  // namespace forethought
