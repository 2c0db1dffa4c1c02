// The text form of a graph: written for people, read back exactly.
//
//   graph main(%x: f32[N,5]) {
//     const %w: f32[5,2] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
//     %a: f32[N,2] = MatMul(%x, %w) "/l0/MatMul"
//     %s: f32[N,1], _ = Split<axis=1, num_outputs=2>(%a)
//     %y: f32[N,1] = If(%c; %s) { then_branch: graph(%s2: f32[N,1]) { … } else_branch: graph(…) { … } }
//     return %y
//   }
//
// Operators of other domains carry them: forethought.Reorder. Captures stand after the semicolon. A literal in place of
// an input ("Add(%x, 1.5)", "[1, 2]", "i64 [1]") makes a constant: f32 for numbers with a point, else i64.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "graph/graph.h"

namespace forethought {

struct TextOptions {
  bool types = true;          // types of inner values
  bool names = true;          // names of nodes
  int64_t max_elements = 64;  // longer constants are written as base64, or as "…" with elide
  bool elide = false;         // "…" for long constants: shorter, but cannot be read back
};
std::string to_text(const Graph& graph, const TextOptions& options = {});

// A node as reports and errors name it: "/l0/MatMul (MatMul)".
std::string described(const GraphNode& node);

// The graph of a text; an error names line and column. Nodes are not bound. `info.opsets` is empty.
StatusOr<std::unique_ptr<Graph>> graph_from_text(std::string_view text);

}  // namespace forethought
