// Binding: gives every node the operator that its name asks for.
#include "absl/strings/str_cat.h"
#include "base/one_line.h"
#include "graph/operator.h"

namespace forethought {
namespace {

constexpr int kMaxDepth = 64;

void bind_all(Graph& graph, const OperatorLibrary& library, int depth, std::vector<std::string>* failures,
              Status* first) {
  for (uint32_t i = 0; i < graph.node_capacity(); ++i) {
    GraphNode& n = graph.node(NodeId{i});
    if (n.removed) continue;
    if (!n.impl) {
      auto bound = library.bind(n);
      if (bound.ok()) {
        n.impl = std::move(*bound);
      } else {
        if (first->ok()) *first = bound.status();
        failures->push_back(absl::StrCat("node ", n.name.empty() ? absl::StrCat("#", i) : n.name, " (", to_string(n.op),
                                         "): ", bound.status().message()));
      }
    }
    if (depth >= kMaxDepth && !n.bodies.empty()) {
      if (first->ok()) *first = invalid("");
      failures->push_back(absl::StrCat("node ", n.name, ": bodies are nested deeper than ", kMaxDepth));
      continue;
    }
    for (auto& [attribute, body] : n.bodies) bind_all(*body, library, depth + 1, failures, first);
  }
}

}  // namespace

Status bind_operators(Graph& graph, const OperatorLibrary& library) {
  std::vector<std::string> failures;
  Status first = absl::OkStatus();
  bind_all(graph, library, 0, &failures, &first);
  if (failures.empty()) return absl::OkStatus();
  std::string text = absl::StrCat(failures.size(), failures.size() == 1 ? " node" : " nodes", " cannot be run here:");
  for (const std::string& f : failures) absl::StrAppend(&text, "\n  ", one_line(f));
  return Status(first.code(), text);
}

}  // namespace forethought
