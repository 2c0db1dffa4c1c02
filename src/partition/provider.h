// The provider interface: who runs which nodes, on which device, and why.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "device/device.h"
#include "graph/graph.h"
#include "graph/operator.h"

namespace forethought {

// Nodes that a provider wants. With `fused` they become one node, which the provider compiles; else each node stays and
// runs by the operator that bind() gives it.
struct Claim {
  std::vector<NodeId> nodes;
  bool fused = false;
  std::string name;    // of the fused node
  std::string reason;  // shown to people
};
struct NodeRefusal {
  NodeId node;
  std::string reason;
};
struct Capability {
  std::vector<Claim> claims;
  std::vector<NodeRefusal> refusals;
};

using ProviderOptions = std::map<std::string, std::string>;

class Provider {
 public:
  virtual ~Provider() = default;
  virtual std::string_view name() const = 0;  // "CPUExecutionProvider"
  virtual Device device() const = 0;
  // The memory and streams of device(). Null: the host works with its memory as with its own and runs its nodes.
  virtual std::shared_ptr<DeviceDriver> driver() const { return nullptr; }
  // The inputs (a bit each) that the node's kernel reads on the host whatever the device: by default shapes, axes,
  // counts.
  virtual uint32_t host_inputs(const Graph& graph, const GraphNode& node) const;
  // What it would run of `free`: nodes nobody before it in the order has claimed. Pure; the graph is bound and
  // inferred.
  virtual Capability capability(const Graph& graph, std::span<const NodeId> free) const = 0;
  // The operator that runs a single claimed node; by default the one it is bound to.
  virtual StatusOr<std::shared_ptr<const Operator>> bind(const GraphNode& node) const { return node.impl; }
  // The operator that runs a fused claim. The graph's inputs and outputs are the fused node's, in order.
  virtual StatusOr<std::shared_ptr<const Operator>> compile(std::unique_ptr<Graph> subgraph) const {
    return unsupported("this provider compiles no subgraphs");
  }
};

// Providers by name. The CPU is always there and always last.
class ProviderRegistry {
 public:
  using Factory = std::function<StatusOr<std::unique_ptr<Provider>>(const ProviderOptions&)>;
  // The process's registry.
  static ProviderRegistry& global();
  Status add(std::string name, Factory factory);  // an error if the name is taken
  void remove(std::string_view name);
  std::vector<std::string> names() const;  // in order of registration, the CPU last
  // Unknown names are an error with the nearest name; a factory's failure is passed on with the provider's name.
  StatusOr<std::unique_ptr<Provider>> make(std::string_view name, const ProviderOptions& options) const;

 private:
  mutable std::mutex mutex_;
  std::vector<std::pair<std::string, Factory>> factories_;
};

}  // namespace forethought
