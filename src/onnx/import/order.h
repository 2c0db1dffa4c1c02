// Names in a graph of the wire: which outer values its bodies read, and an order in which its nodes can be built.
#pragma once

#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "onnx/wire/wire.h"

namespace forethought {

// For each graph within attributes the names that it reads and does not define, each graph looked at once.
class FreeNames {
 public:
  using Names = std::vector<std::string_view>;
  const Names& of(const wire::Graph& graph);
  // Of all bodies of a node together, without repeats, in the order of first use.
  Names of_bodies(const wire::Node& node);

 private:
  std::unordered_map<const wire::Graph*, std::unique_ptr<Names>> known_;
};

// Indices of `nodes` so that each comes after the producers of what it and its bodies read; ties by index. Names that
// no node makes are taken as given. Errors: two nodes make one name, or the nodes form a cycle.
StatusOr<std::vector<size_t>> topological_order(const std::vector<wire::Node>& nodes, FreeNames& free_names);

// "node 3 'conv1' (Conv)" for messages.
std::string describe(const wire::Node& node, size_t index);

}  // namespace forethought
