// From a Graph back to a .onnx file, in the model's own opset or the lowest one that can say every node.
#pragma once

#include <cstdint>
#include <string>

#include "graph/graph.h"

namespace forethought {

struct SaveOptions {
  // Tensors of at least this many bytes go to a file beside the model; negative: none do.
  int64_t external_from = int64_t{1} << 20;
  std::string external_name;  // of that file, in the model's folder; empty: the model's name and ".data"
};

// Internal operators are written under the domain "forethought". Layouts, devices, reorders and copies are left out:
// whoever loads the file chooses them anew; only a constant in another layout is refused. Files are replaced as a
// whole, so the graph may point into the old ones; they keep their mode, and links to them stay links. A device or FIFO
// gets the bytes itself, with all tensors inside; a FIFO is waited for until somebody reads it.
Status save_model(const Graph& graph, const std::string& path, const SaveOptions& options = {});

// The same as bytes, with everything inside.
StatusOr<std::string> model_bytes(const Graph& graph);

}  // namespace forethought
