// The graph: values and nodes with typed ids, edited only through functions that keep both sides of every edge.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "base/status.h"
#include "graph/attribute.h"
#include "graph/dim.h"
#include "tensor/value.h"

namespace forethought {

class Graph;
class Operator;

template <typename Tag>
struct Id {
  static constexpr uint32_t kNone = 0xffffffffu;
  uint32_t index = kNone;
  constexpr bool valid() const { return index != kNone; }
  constexpr auto operator<=>(const Id&) const = default;
};
using ValueId = Id<struct ValueTag>;
using NodeId = Id<struct NodeTag>;

// Which operator a node asks for. Import has normalised it to the newest form; `version` is the since_version of the
// form that the attributes and inputs follow.
struct OpId {
  std::string domain;  // "" is ai.onnx; "forethought" are our internal operators
  std::string type;
  int version = 1;
  bool operator==(const OpId&) const = default;
  bool is(std::string_view t) const { return domain.empty() && type == t; }
};
std::string to_string(const OpId& op);  // "Conv", "forethought.Reorder"
inline constexpr std::string_view kInternalDomain = "forethought";

struct Use {
  NodeId node;
  int slot = 0;
  bool operator==(const Use&) const = default;
};

struct GraphValue {
  std::string name;
  ValueType type;
  SymShape shape;  // logical, as inferred; of inputs: as declared
  std::optional<SymShape>
      declared;     // what the file says of an inner value or output: a hint for reports, never trusted
  Layout layout;    // how its elements lie; set by the layout pass
  Device device;    // where it lives; set by placement
  NodeId producer;  // invalid: a graph input, or a constant
  int producer_slot = 0;
  absl::InlinedVector<Use, 2> uses;
  bool is_input = false;
  bool is_output = false;
  bool removed = false;
  std::optional<Tensor> constant;       // an initializer or folded value: contents known for good
  std::optional<Tensor> default_value;  // an input that the caller may leave out (IR 4 and later)
  std::optional<SymValue> known;        // elements followed through shape arithmetic
};

struct GraphNode {
  OpId op;
  std::string name;
  absl::InlinedVector<ValueId, 4> inputs;   // invalid id: skipped optional. Captures of bodies come after the formals
  absl::InlinedVector<ValueId, 2> outputs;  // invalid id: skipped optional
  int captures = 0;                         // how many trailing inputs are captured outer values
  Attributes attributes;
  // Graph attributes in the order of the operator's declaration (If: then_branch, else_branch). A body is closed: its
  // inputs are the formals and then one for each capture of the node, in the same order.
  std::vector<std::pair<std::string, std::unique_ptr<Graph>>> bodies;
  std::vector<std::string> origin;       // names of the file's nodes that this one stands for
  std::shared_ptr<const Operator> impl;  // the operator bound to this node (bind_operators)
  std::string provider = "CPUExecutionProvider";
  bool removed = false;

  int formal_inputs() const { return static_cast<int>(inputs.size()) - captures; }
  const Graph* body(std::string_view attribute) const;
};

struct OpsetImport {
  std::string domain;
  int version = 0;
};

// What the file says about itself.
struct ModelInfo {
  int64_t ir_version = 0;
  std::vector<OpsetImport> opsets;
  std::string producer_name, producer_version, domain, doc_string, graph_name;
  int64_t model_version = 0;
  std::vector<std::pair<std::string, std::string>> metadata;  // metadata_props
  int64_t copied_bytes = 0;                                   // of constants that could not be used in place
};

class Graph {
 public:
  Graph() = default;
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  std::unique_ptr<Graph> clone() const;  // shares constants' bytes and bound operators

  // --- Reading
  const GraphValue& value(ValueId id) const { return values_[id.index]; }
  GraphValue& value(ValueId id) { return values_[id.index]; }
  const GraphNode& node(NodeId id) const { return nodes_[id.index]; }
  GraphNode& node(NodeId id) { return nodes_[id.index]; }
  size_t value_capacity() const { return values_.size(); }  // ids are below this; some are removed
  size_t node_capacity() const { return nodes_.size(); }
  size_t node_count() const;       // live ones, bodies not counted
  size_t node_count_deep() const;  // with bodies
  const std::vector<ValueId>& inputs() const { return inputs_; }
  const std::vector<ValueId>& outputs() const { return outputs_; }
  // Live nodes so that each comes after what it reads; ties by id. The graph must have no cycle (see validate()).
  std::vector<NodeId> order() const;
  ValueId find_value(std::string_view name) const;  // invalid if there is none
  bool is_constant(ValueId id) const { return id.valid() && values_[id.index].constant.has_value(); }
  NodeId producer(ValueId id) const { return id.valid() ? values_[id.index].producer : NodeId{}; }

  // --- Building and editing. Names are made unique when taken ("x", "x_1"); an empty name gets a fresh one.
  ValueId add_value(std::string_view name, ValueType type = {}, SymShape shape = {});
  ValueId add_input(std::string_view name, ValueType type, SymShape shape);
  ValueId add_constant(std::string_view name, Tensor contents);
  void add_output(ValueId id);
  // Makes a node that reads `inputs` and writes `outputs` (values without producer). `after` orders nothing: edges do.
  NodeId add_node(OpId op, std::string_view name, std::vector<ValueId> inputs, std::vector<ValueId> outputs,
                  Attributes attributes = {});
  void set_input(NodeId node, int slot, ValueId value);  // grows the list if needed
  void add_capture(NodeId node, ValueId outer);          // as the last input
  void set_output(NodeId node, int slot, ValueId value);
  // Every reader of `from` reads `to` instead, graph outputs included: an output keeps its name (the name moves to `to`
  // unless `to` is itself an input, output or constant with a name that must stay; then an Identity is put between).
  void replace_uses(ValueId from, ValueId to);
  void remove_node(NodeId node);     // its outputs lose their producer; the caller has replaced their uses
  void remove_value(ValueId value);  // no uses, no producer, no output
  void make_constant(ValueId value, Tensor contents);  // detaches it from its producer
  size_t
  remove_dead();  // nodes none of whose outputs is used or an output, then unused constants; returns nodes removed
  std::string unique_name(std::string_view wanted);
  void rename(ValueId value, std::string_view name);

  ModelInfo info;
  std::string name;

 private:
  void drop_use(ValueId value, NodeId node, int slot);
  std::vector<GraphValue> values_;
  std::vector<GraphNode> nodes_;
  std::vector<ValueId> inputs_, outputs_;
  std::map<std::string, ValueId, std::less<>> names_;
  std::map<std::string, int, std::less<>> suffix_;
};

// Every broken rule of a graph as an error that names the place: edges agree on both sides, no cycle, no dangling or
// removed value is read, names unique, outputs produced, bodies closed with the right inputs. Bodies are checked too.
Status validate(const Graph& graph);

}  // namespace forethought
