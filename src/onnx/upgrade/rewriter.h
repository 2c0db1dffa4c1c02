// What a rule that rewrites an old form sees: the node, and ways to add constants and helper nodes beside it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "graph/graph.h"

namespace forethought {

// A node that is not in the graph (yet, or any more). Its outputs are values of the graph without a producer.
struct NodeForm {
  std::string domain, type;
  int version = 0;  // the since_version of the form that it follows
  std::string name;
  std::vector<ValueId> inputs, outputs;  // invalid: skipped
  Attributes attributes;

  bool has_input(size_t i) const { return i < inputs.size() && inputs[i].valid(); }
  bool has_output(size_t i) const { return i < outputs.size() && outputs[i].valid(); }
  void set_input(size_t i, ValueId v);  // grows the list with skipped ones
  void trim_inputs();                   // drops trailing skipped ones
};

class Rewriter {
 public:
  // `name` is the node's, a base for names of helpers; `hint` tells what the file says of a value's element type.
  Rewriter(Graph& graph, std::string name, FunctionRef<DType(ValueId)> hint)
      : graph_(graph), name_(std::move(name)), hint_(hint) {}

  ValueId constant(Tensor t) { return graph_.add_constant(name_ + "/constant", std::move(t)); }
  ValueId ints(const std::vector<int64_t>& values);  // int64, 1-D
  ValueId scalar(DType dtype, double value);         // rank 0; of a numeric type
  // A helper node in its newest form; returns its only output.
  ValueId node(std::string_view type, std::vector<ValueId> inputs, Attributes attributes = {});
  void node_into(std::string_view type, std::vector<ValueId> inputs, ValueId output, Attributes attributes = {});
  ValueId like(ValueId model);  // a fresh value of the same type

  const Graph& graph() const { return graph_; }
  const Tensor* contents(ValueId v) const;                            // of a constant, else null
  std::optional<std::vector<int64_t>> int_contents(ValueId v) const;  // of an int64 or int32 constant
  std::optional<int> rank(ValueId v) const;  // of constants and declared inputs; of others it is not known yet
  DType dtype(ValueId v) const;              // followed, else hinted, else float

  const std::vector<NodeId>& made() const { return made_; }

 private:
  Graph& graph_;
  std::string name_;
  FunctionRef<DType(ValueId)> hint_;
  std::vector<NodeId> made_;
};

// The elements of an int64 or int32 tensor, at any alignment; nullopt for other types.
std::optional<std::vector<int64_t>> int_elements(const Tensor& t);
// Element 0 of a tensor of a numeric type as a double; nullopt if it is empty or of another type.
std::optional<double> first_element(const Tensor& t);

}  // namespace forethought
