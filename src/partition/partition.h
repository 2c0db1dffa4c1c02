// Splits a graph among providers in order of priority, and inserts the copies where devices differ.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "partition/copies.h"
#include "partition/provider.h"

namespace forethought {

// Why a node runs where it runs.
struct NodePlacement {
  std::string node;  // its name, or "#index"
  std::string op;
  std::string provider;
  std::string reason;
  std::vector<std::pair<std::string, std::string>> refused;  // provider, reason
  int fused_nodes = 1;                                       // how many nodes of the graph it stands for
};

struct PartitionReport : CopyCounts {
  std::vector<NodePlacement> placements;  // bodies included, names prefixed by the outer node
};

// Every node of `graph` (bound, inferred) gets a provider; nodes nobody takes are all listed in one error. Fused claims
// that would close a cycle are dropped, with that as the reason. New nodes are bound through `library`.
StatusOr<PartitionReport> partition(Graph& graph, std::span<const std::unique_ptr<Provider>> providers,
                                    const OperatorLibrary& library);

}  // namespace forethought
