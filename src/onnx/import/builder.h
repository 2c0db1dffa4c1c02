// Builds a Graph out of a wire model: scopes of names, bodies with their captures, calls of functions.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "graph/schema/schema.h"
#include "onnx/import/convert.h"
#include "onnx/import/import.h"
#include "onnx/import/order.h"
#include "onnx/upgrade/rewriter.h"

namespace forethought {

class Builder {
 public:
  Builder(const wire::Model& model, Converter converter, const ImportOptions& options)
      : model_(model), converter_(std::move(converter)), options_(options) {}

  StatusOr<std::unique_ptr<Graph>> build();

 private:
  // Whose operator versions and attribute values count: the model's, or those of one call of a function.
  struct Frame {
    const std::vector<wire::OpsetId>* opsets = nullptr;
    const wire::Function* function = nullptr;  // null: the model's own nodes
    const Attributes* bound = nullptr;         // what attribute references stand for
    const Frame* caller = nullptr;
    std::string origin;  // the file's node that the call stands for
    std::string prefix;  // of names of inner values and nodes
  };
  // The names of one graph of the file, or of one call.
  struct Scope {
    Graph* graph = nullptr;
    const Frame* frame = nullptr;
    std::unordered_map<std::string_view, ValueId> names;    // an invalid id: an input that the call leaves out
    std::unordered_map<std::string_view, ValueId> presets;  // outputs whose value exists before their node
    std::unordered_map<std::string_view, const wire::Type*> hints;
  };
  using FunctionKey = std::tuple<std::string_view, std::string_view, std::string_view>;

  Status index_functions();
  Status check_opsets() const;
  Status add_inputs(Scope& scope);
  Status add_initializers(Scope& scope, const wire::Graph& graph);
  Status add_outputs(Scope& scope);

  StatusOr<int> opset_of(const Frame& frame, std::string_view domain) const;
  StatusOr<ValueId> resolve(const Scope& scope, std::string_view name) const;
  StatusOr<ValueId> define(Scope& scope, std::string_view name);
  DType hinted(const Graph& graph, ValueId v) const;

  Status add_nodes(Scope& scope, const std::vector<wire::Node>& nodes);
  Status add_node(Scope& scope, const wire::Node& node);
  StatusOr<Attributes> attributes(const Scope& scope, const wire::Node& node, const OpSchema* schema);
  // Nodes with an operator: upgraded, then run by a kernel or replaced by the schema's body.
  Status add_operator(Scope& scope, const wire::Node& node, NodeForm form, const OpSchema* schema, int opset);
  Status place(Scope& scope, const wire::Node& node, NodeForm form);
  Status add_constant(Scope& scope, const wire::Node& node, const NodeForm& form);
  Status add_bodies(Scope& scope, const wire::Node& node, NodeId id);
  StatusOr<std::unique_ptr<Graph>> body(const Scope& outer, const wire::Graph& graph,
                                        const std::vector<std::pair<std::string_view, ValueId>>& constants,
                                        const std::vector<std::pair<std::string_view, ValueId>>& captures);

  Status call_function(Scope& scope, const wire::Function& function, const NodeForm& form);
  // The body of a schema for this form, or null.
  StatusOr<const wire::Function*> schema_body(const OpSchema* schema, int opset);
  bool has_kernel(const NodeForm& form) const;
  // Notes an operator that nobody runs. Its node stays in the graph, so that its readers have types and its bodies are
  // looked at, too.
  Status missing(Scope& scope, const wire::Node& node, NodeForm form, std::string why);
  // If something is missing: all of it, and the operators whose types have no kernel.
  Status report_missing(const Graph& graph);
  void add_refused_types(const Graph& graph);
  Status count_node();
  Status too_many_nodes() const;
  // How many nodes these become once the local functions are inlined, or just more than allowed: found in time
  // proportional to the file, before any of them is made. `known` holds the functions counted so far.
  int64_t inlined_nodes(const std::vector<wire::Node>& nodes, int calls,
                        std::map<const wire::Function*, int64_t>& known) const;
  std::string origin(const Scope& scope, const wire::Node& node) const;

  const wire::Model& model_;
  Converter converter_;
  const ImportOptions& options_;
  FreeNames free_names_;
  std::unordered_map<const std::vector<wire::Node>*, std::vector<size_t>> orders_;
  std::map<FunctionKey, const wire::Function*> functions_;
  std::map<const FunctionBody*, std::unique_ptr<wire::Function>> bodies_;
  std::map<std::pair<const Graph*, uint32_t>, DType> hinted_types_;
  struct Missing {
    int count = 0;
    std::string first;  // node
  };
  std::map<std::pair<std::string, std::string>, Missing> missing_;  // by operator and reason
  int64_t nodes_ = 0;
  int depth_ = 0;
};

}  // namespace forethought
