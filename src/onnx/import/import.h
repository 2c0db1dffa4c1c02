// From a .onnx file to a Graph: every node in the newest form of its operator, local functions inlined, weights in
// place.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "graph/graph.h"
#include "onnx/file/mapping.h"

namespace forethought {

struct ImportOptions {
  // Whether an operator can be run. Where it cannot, its function body from the schema is inlined; what has none is
  // reported, all of it at once. Empty: every operator is taken as it is.
  std::function<bool(std::string_view domain, std::string_view type)> has_kernel;
  // Whether a kernel takes a node's types, or why not. Asked only where operators are missing, so that the error names
  // all that is in the way; else it is for providers to say. Empty: not asked.
  std::function<Status(const Graph& graph, const GraphNode& node)> takes_types;
  // Where a model given as bytes may find its external data; empty: nowhere.
  std::string folder;
  // The account of the files that are mapped; may be null.
  std::shared_ptr<MemoryBudget> budget;
  // A budget for what functions blow up to.
  int64_t max_nodes = 1'000'000;
};

// Maps the file; the graph's constants point into the mapping and keep it.
StatusOr<std::unique_ptr<Graph>> load_model(const std::string& path, const ImportOptions& options = {});

// The graph's constants point into `model.bytes` and share `model.owner`; without an owner the caller keeps the bytes.
StatusOr<std::unique_ptr<Graph>> import_model(const ByteSource& model, const ImportOptions& options = {});

}  // namespace forethought
