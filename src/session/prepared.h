// A graph that is ready to be planned: bound, placed, its constants aligned or packed. Immutable; shared by all plans.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "device/device.h"
#include "graph/facts.h"
#include "graph/graph.h"
#include "kernel_api/kernel.h"
#include "session/packs.h"

namespace forethought {

struct PreparedNode {
  const Kernel* kernel = nullptr;
  std::vector<Packed> packed;                            // one an input; empty bytes: not packed
  std::vector<std::span<const std::byte>> packed_bytes;  // the same, as steps take them
  std::vector<std::shared_ptr<const PackedBlock>> keep;
};

struct WeightTotals {
  int64_t constants = 0;   // bytes of constants that steps read in place
  int64_t packed = 0;      // bytes of packed forms
  int64_t on_devices = 0;  // bytes of constants that devices hold
  int64_t copied = 0;      // bytes copied because they lay unaligned
};

struct PreparedGraph {
  std::unique_ptr<Graph> graph;  // null in bodies: the outer graph owns them
  const Graph* view = nullptr;   // the graph
  std::vector<NodeId> order;
  std::vector<PreparedNode> nodes;  // by NodeId
  std::vector<Tensor> weights;      // constants that steps read, aligned
  std::vector<int32_t> weight_of;   // by ValueId; -1: none
  std::map<std::pair<uint32_t, int>, std::unique_ptr<PreparedGraph>> bodies;
};

// Asks every kernel what it packs, packs it, and aligns the constants that kernels read as they are.
// Constants that live on one of `devices` (may be null) are copied there.
StatusOr<std::unique_ptr<PreparedGraph>> prepare_graph(std::unique_ptr<Graph> graph, WeightTotals* totals,
                                                       const DeviceSet* devices = nullptr);

}  // namespace forethought
