// Builds the wire form of a graph; text that it makes lives in the exporter, all else is viewed where it lies.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "graph/graph.h"
#include "onnx/upgrade/rewriter.h"
#include "onnx/wire/wire.h"

namespace forethought {

class Exporter {
 public:
  // Where the bytes of a large tensor go: returns the external_data entries, or none to keep them in the model.
  class ExternalSink {
   public:
    virtual ~ExternalSink() = default;
    virtual StatusOr<std::vector<std::pair<std::string, std::string>>> put(std::string_view bytes) = 0;
  };

  Exporter(const Graph& graph, ExternalSink* sink) : graph_(&graph), sink_(sink) {}

  // The result views the graph and this exporter.
  StatusOr<wire::Model> model();

 private:
  using ConstantKey = std::pair<const void*, std::string>;  // where the bytes lie, and their type and dims
  struct Names {
    std::unordered_set<std::string_view> taken;
    std::unordered_map<std::string_view, int> suffixes;
  };
  struct Scope {
    const Graph* graph = nullptr;
    Scope* outer = nullptr;
    std::vector<std::string_view> names;                // by value id; empty until needed
    std::unordered_set<std::string_view> read;          // names that nodes and outputs read
    std::map<ConstantKey, std::string_view> constants;  // of this graph
    std::vector<ValueId> own;                           // constants that this graph writes, if they are read
  };

  Status choose_opsets();
  Status raise_opsets(const Graph& graph);
  Graph& rewritable();  // a copy of the graph, which is written in its stead
  int opset(std::string_view domain) const;

  StatusOr<wire::Graph> graph(Scope& scope, size_t formals);
  void name_constants(Scope& scope);
  std::string_view name_of(Scope& scope, ValueId id);
  std::string_view read_name(Scope& scope, ValueId id);
  std::string_view fresh(std::string_view wanted, Names& used);
  std::string_view keep(std::string text);

  StatusOr<wire::Node> node(Scope& scope, NodeId id);
  StatusOr<wire::Attribute> attribute(std::string_view name, const AttributeValue& value);
  StatusOr<wire::Tensor> tensor(std::string_view name, const Tensor& t);
  wire::Type type(const ValueType& t, const SymShape* shape);
  wire::ValueInfo value_info(Scope& scope, ValueId id);

  const Graph* graph_;
  ExternalSink* sink_;
  std::unique_ptr<Graph> rewritten_;
  std::map<std::string, int, std::less<>> opsets_;
  std::deque<std::string> texts_;
  Names used_names_, used_node_names_;
  int newest_ir_ = 4;
};

}  // namespace forethought
