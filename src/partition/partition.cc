#include "partition/partition.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "graph/facts.h"
#include "partition/fuse.h"

namespace forethought {
namespace {

std::string node_label(const Graph& g, NodeId id) {
  const std::string& n = g.node(id).name;
  return n.empty() ? absl::StrCat("#", id.index) : n;
}

// One graph's split; bodies are split by themselves, all of a body's node's provider's choice being the CPU's.
class Splitter {
 public:
  Splitter(Graph& graph, std::span<const std::unique_ptr<Provider>> providers, std::string prefix)
      : graph_(graph), providers_(providers), prefix_(std::move(prefix)), owner_(graph.node_capacity(), nullptr) {}

  // Nodes that nobody takes go into `orphans`, with what each provider said.
  Status run(PartitionReport* report, std::vector<std::string>* orphans) {
    for (const auto& p : providers_) RETURN_IF_ERROR(offer(*p));
    for (NodeId id : graph_.order()) {
      if (!owner_[id.index]) {
        std::string text = absl::StrCat(prefix_, node_label(graph_, id), " (", to_string(graph_.node(id).op), ")");
        for (const auto& [provider, reason] : refused_[id]) absl::StrAppend(&text, "\n    ", provider, ": ", reason);
        orphans->push_back(std::move(text));
        continue;
      }
      report->placements.push_back({prefix_ + node_label(graph_, id), to_string(graph_.node(id).op),
                                    graph_.node(id).provider, reason_[id], refused_[id], fused_[id] ? fused_[id] : 1});
    }
    return absl::OkStatus();
  }

  const Provider* owner(NodeId id) const { return owner_[id.index]; }

 private:
  Status offer(const Provider& p) {
    std::vector<NodeId> free;
    for (NodeId id : graph_.order())
      if (!owner_[id.index]) free.push_back(id);
    if (free.empty()) return absl::OkStatus();
    const Capability can = p.capability(graph_, free);
    for (const NodeRefusal& r : can.refusals) refused_[r.node].emplace_back(p.name(), r.reason);
    for (const Claim& c : can.claims)
      RETURN_IF_ERROR(with_context(take(p, c), absl::StrCat("provider ", std::string(p.name()))));
    return absl::OkStatus();
  }

  Status take(const Provider& p, const Claim& c) {
    for (NodeId id : c.nodes) {
      if (!id.valid() || id.index >= owner_.size() || graph_.node(id).removed)
        return invalid("claims a node that does not exist");
      if (owner_[id.index]) return invalid(absl::StrCat("claims node ", node_label(graph_, id), ", which is taken"));
    }
    if (!c.fused) {
      for (NodeId id : c.nodes) {
        ASSIGN_OR_RETURN(graph_.node(id).impl, p.bind(graph_.node(id)));
        own(p, id, c.reason);
      }
      return absl::OkStatus();
    }
    if (c.nodes.empty()) return absl::OkStatus();
    if (!is_convex(graph_, c.nodes)) {
      for (NodeId id : c.nodes) refused_[id].emplace_back(p.name(), "its subgraph would close a cycle");
      return absl::OkStatus();
    }
    Extracted cut = extract(graph_, c.nodes);
    ASSIGN_OR_RETURN(std::shared_ptr<const Operator> compiled, p.compile(std::move(cut.graph)));
    const NodeId fused =
        replace_by_one(graph_, c.nodes, cut, {std::string(p.name()), c.name.empty() ? "Subgraph" : c.name, 1}, c.name);
    graph_.node(fused).impl = std::move(compiled);
    owner_.resize(graph_.node_capacity(), nullptr);
    fused_[fused] = static_cast<int>(c.nodes.size());
    own(p, fused, c.reason);
    return absl::OkStatus();
  }

  void own(const Provider& p, NodeId id, const std::string& reason) {
    owner_[id.index] = &p;
    graph_.node(id).provider = std::string(p.name());
    reason_[id] = reason;
    for (ValueId v : graph_.node(id).outputs)
      if (v.valid()) graph_.value(v).device = p.device();
  }

  Graph& graph_;
  std::span<const std::unique_ptr<Provider>> providers_;
  std::string prefix_;
  std::vector<const Provider*> owner_;
  std::map<NodeId, std::string> reason_;
  std::map<NodeId, std::vector<std::pair<std::string, std::string>>> refused_;
  std::map<NodeId, int> fused_;
};

// Puts one copy for each (value, device) between a producer and its readers on another device. Graph outputs go home.
Status insert_copies(Graph& graph, const Splitter& split, const OperatorLibrary& library, int* copies) {
  const std::vector<NodeId> order = graph.order();
  std::map<std::pair<ValueId, std::string>, ValueId> made;
  auto copied = [&](ValueId v, Device to, std::string_view provider) -> StatusOr<ValueId> {
    auto [it, is_new] = made.try_emplace({v, to_string(to)});
    if (!is_new) return it->second;
    const ValueId target = graph.add_value(absl::StrCat(graph.value(v).name, "@", to_string(to)), graph.value(v).type,
                                           graph.value(v).shape);
    graph.value(target).device = to;
    graph.value(target).layout = graph.value(v).layout;
    graph.value(target).known = graph.value(v).known;
    const NodeId node =
        graph.add_node({std::string(kInternalDomain), "Copy", 1}, graph.value(target).name, {v}, {target});
    graph.node(node).provider = std::string(provider);
    ASSIGN_OR_RETURN(graph.node(node).impl, library.bind(graph.node(node)));
    ++*copies;
    return it->second = target;
  };
  for (NodeId id : order) {
    const Provider* owner = split.owner(id);
    if (!owner) continue;
    for (size_t i = 0; i < graph.node(id).inputs.size(); ++i) {
      const ValueId v = graph.node(id).inputs[i];
      if (!v.valid() || graph.value(v).device == owner->device() || graph.value(v).type.is_object()) continue;
      ASSIGN_OR_RETURN(const ValueId here, copied(v, owner->device(), owner->name()));
      graph.set_input(id, static_cast<int>(i), here);
    }
  }
  for (ValueId v : std::vector<ValueId>(graph.outputs())) {
    if (graph.value(v).device.is_host() || !graph.value(v).producer.valid()) continue;
    // The output's own value becomes the host copy; the device keeps a new one.
    const NodeId producer = graph.value(v).producer;
    const int slot = graph.value(v).producer_slot;
    const ValueId on_device = graph.add_value(absl::StrCat(graph.value(v).name, "@", to_string(graph.value(v).device)),
                                              graph.value(v).type, graph.value(v).shape);
    graph.value(on_device).device = graph.value(v).device;
    graph.value(on_device).layout = graph.value(v).layout;
    for (const Use& u : std::vector<Use>(graph.value(v).uses.begin(), graph.value(v).uses.end()))
      graph.set_input(u.node, u.slot, on_device);
    graph.set_output(producer, slot, on_device);
    graph.value(v).device = Device{};
    const NodeId node =
        graph.add_node({std::string(kInternalDomain), "Copy", 1}, graph.value(v).name, {on_device}, {v});
    ASSIGN_OR_RETURN(graph.node(node).impl, library.bind(graph.node(node)));
    ++*copies;
  }
  return absl::OkStatus();
}

Status partition_at(Graph& graph, std::span<const std::unique_ptr<Provider>> providers, const OperatorLibrary& library,
                    const std::string& prefix, PartitionReport* report, std::vector<std::string>* orphans) {
  Splitter split(graph, providers, prefix);
  RETURN_IF_ERROR(split.run(report, orphans));
  if (orphans->empty()) RETURN_IF_ERROR(insert_copies(graph, split, library, &report->copies));
  for (uint32_t i = 0; i < graph.node_capacity(); ++i) {
    GraphNode& n = graph.node(NodeId{i});
    if (n.removed) continue;
    for (auto& [attribute, body] : n.bodies)
      RETURN_IF_ERROR(partition_at(*body, providers, library,
                                   absl::StrCat(prefix, node_label(graph, NodeId{i}), "/", attribute, "/"), report,
                                   orphans));
  }
  return absl::OkStatus();
}

}  // namespace

StatusOr<PartitionReport> partition(Graph& graph, std::span<const std::unique_ptr<Provider>> providers,
                                    const OperatorLibrary& library) {
  PartitionReport report;
  std::vector<std::string> orphans;
  RETURN_IF_ERROR(partition_at(graph, providers, library, "", &report, &orphans));
  if (!orphans.empty()) {
    std::string text =
        absl::StrCat(orphans.size(), " node", orphans.size() == 1 ? "" : "s", " cannot be run by any provider:");
    for (const std::string& o : orphans) absl::StrAppend(&text, "\n  ", o);
    return unsupported(text);
  }
  RETURN_IF_ERROR(with_context(validate(graph), "after partition"));
  return report;
}

}  // namespace forethought
