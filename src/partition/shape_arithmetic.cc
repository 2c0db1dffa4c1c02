#include "partition/shape_arithmetic.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>

#include "graph/schema/schema.h"
#include "partition/provider.h"

namespace forethought {
namespace {

// Formal parameters of ONNX operators that hold no data of the model's subject.
constexpr std::array<std::string_view, 25> kShapeNames = {
    "K",           "axes",  "axis",  "block_shape",  "delta",  "depth",   "dft_length", "frame_length", "frame_step",
    "image_shape", "k",     "limit", "output_shape", "pads",   "repeats", "roi",        "scales",       "shape",
    "size",        "sizes", "split", "start",        "starts", "ends",    "steps"};

bool is_shape_name(std::string_view name) { return std::ranges::find(kShapeNames, name) != kShapeNames.end(); }

}  // namespace

uint32_t shape_inputs(const GraphNode& node) {
  if (node.op.is("ConstantOfShape")) return 1;
  // Import brings every node to the newest form.
  const OpSchema* schema = find_schema(node.op.domain, node.op.type, std::numeric_limits<int>::max());
  if (!schema) return 0;
  uint32_t mask = 0;
  for (size_t i = 0; i < node.inputs.size() && i < 32; ++i) {
    const FormalParam* formal = schema->input(static_cast<int>(i));
    if (formal && is_shape_name(formal->name)) mask |= 1u << i;
  }
  return mask;
}

bool reads_only_dims(const GraphNode& node) { return node.op.is("Shape") || node.op.is("Size"); }

bool is_shape_arithmetic(const Graph& graph, const GraphNode& node) {
  if (reads_only_dims(node)) return true;
  return std::ranges::all_of(node.outputs, [&](ValueId v) { return !v.valid() || graph.value(v).known.has_value(); });
}

uint32_t Provider::host_inputs(const Graph&, const GraphNode& node) const { return shape_inputs(node); }

}  // namespace forethought
