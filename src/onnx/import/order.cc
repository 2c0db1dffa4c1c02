#include "onnx/import/order.h"

#include <fmt/format.h>

#include <functional>
#include <queue>

namespace forethought {

std::string describe(const wire::Node& node, size_t index) {
  return fmt::format("node {} '{}' ({}{}{})", index, node.name, node.domain, node.domain.empty() ? "" : ".",
                     node.op_type);
}

const FreeNames::Names& FreeNames::of(const wire::Graph& graph) {
  if (const auto it = known_.find(&graph); it != known_.end()) return *it->second;
  std::unordered_set<std::string_view> defined{""}, seen;
  for (const wire::ValueInfo& v : graph.inputs) defined.insert(v.name);
  for (const wire::Tensor& t : graph.initializers) defined.insert(t.name);
  for (const wire::SparseTensor& t : graph.sparse_initializers) defined.insert(t.values.name);
  for (const wire::Node& n : graph.nodes) defined.insert(n.outputs.begin(), n.outputs.end());
  auto names = std::make_unique<Names>();
  const auto read = [&](std::string_view name) {
    if (!defined.contains(name) && seen.insert(name).second) names->push_back(name);
  };
  for (const wire::Node& n : graph.nodes) {
    for (const std::string_view name : n.inputs) read(name);
    for (const std::string_view name : of_bodies(n)) read(name);
  }
  for (const wire::ValueInfo& v : graph.outputs) read(v.name);
  return *known_.emplace(&graph, std::move(names)).first->second;
}

FreeNames::Names FreeNames::of_bodies(const wire::Node& node) {
  Names names;
  std::unordered_set<std::string_view> seen;
  for (const wire::Attribute& a : node.attributes) {
    for (const wire::Graph& g : a.graphs) {
      for (const std::string_view name : of(g)) {
        if (seen.insert(name).second) names.push_back(name);
      }
    }
  }
  return names;
}

StatusOr<std::vector<size_t>> topological_order(const std::vector<wire::Node>& nodes, FreeNames& free_names) {
  std::unordered_map<std::string_view, size_t> producer;
  producer.reserve(nodes.size());
  for (size_t i = 0; i < nodes.size(); ++i) {
    for (const std::string_view name : nodes[i].outputs) {
      if (name.empty()) continue;
      const auto [it, fresh] = producer.emplace(name, i);
      if (!fresh) {
        return invalid(fmt::format("the value '{}' is made twice: by {} and by {}", name,
                                   describe(nodes[it->second], it->second), describe(nodes[i], i)));
      }
    }
  }
  std::vector<std::vector<size_t>> readers(nodes.size());
  std::vector<size_t> waiting(nodes.size(), 0);
  const auto read = [&](size_t node, std::string_view name) {
    const auto it = producer.find(name);
    if (it == producer.end()) return;
    readers[it->second].push_back(node);
    ++waiting[node];
  };
  for (size_t i = 0; i < nodes.size(); ++i) {
    for (const std::string_view name : nodes[i].inputs) read(i, name);
    for (const std::string_view name : free_names.of_bodies(nodes[i])) read(i, name);
  }
  std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (waiting[i] == 0) ready.push(i);
  }
  std::vector<size_t> order;
  order.reserve(nodes.size());
  while (!ready.empty()) {
    const size_t i = ready.top();
    ready.pop();
    order.push_back(i);
    for (const size_t reader : readers[i]) {
      if (--waiting[reader] == 0) ready.push(reader);
    }
  }
  if (order.size() == nodes.size()) return order;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (waiting[i] > 0) {
      return invalid(fmt::format("the graph has a cycle: {} nodes wait for each other, among them {}",
                                 nodes.size() - order.size(), describe(nodes[i], i)));
    }
  }
  return internal("the order of nodes is broken");
}

}  // namespace forethought
