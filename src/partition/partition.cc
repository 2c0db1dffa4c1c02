#include "partition/partition.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "base/one_line.h"
#include "graph/facts.h"
#include "partition/fuse.h"
#include "partition/shape_arithmetic.h"

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
        std::string text =
            one_line(absl::StrCat(prefix_, node_label(graph_, id), " (", to_string(graph_.node(id).op), ")"));
        for (const auto& [provider, reason] : refused_[id])
          absl::StrAppend(&text, "\n    ", one_line(absl::StrCat(provider, ": ", reason)));
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
    for (NodeId id : graph_.order()) {
      if (owner_[id.index]) continue;
      if (const char* why = p.driver() ? stays_on_host(id) : nullptr) {
        refused_[id].emplace_back(p.name(), why);
      } else {
        free.push_back(id);
      }
    }
    if (free.empty()) return absl::OkStatus();
    const Capability can = p.capability(graph_, free);
    for (const NodeRefusal& r : can.refusals) refused_[r.node].emplace_back(p.name(), r.reason);
    for (const Claim& c : can.claims)
      RETURN_IF_ERROR(with_context(take(p, c), absl::StrCat("provider ", std::string(p.name()))));
    return absl::OkStatus();
  }

  // Why a device with memory of its own is not offered the node; null if it is.
  const char* stays_on_host(NodeId id) const {
    if (!prefix_.empty()) return "bodies of control flow stay on the host";
    if (is_shape_arithmetic(graph_, graph_.node(id))) return "shape arithmetic stays on the host";
    return nullptr;
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

Status partition_at(Graph& graph, std::span<const std::unique_ptr<Provider>> providers, const OperatorLibrary& library,
                    const std::string& prefix, PartitionReport* report, std::vector<std::string>* orphans) {
  Splitter split(graph, providers, prefix);
  RETURN_IF_ERROR(split.run(report, orphans));
  if (orphans->empty()) {
    RETURN_IF_ERROR(insert_copies(
        graph, providers, [&](NodeId id) { return split.owner(id); }, library, report));
  }
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
    return Status(absl::StatusCode::kUnimplemented, text);
  }
  RETURN_IF_ERROR(with_context(validate(graph), "after partition"));
  return report;
}

}  // namespace forethought
