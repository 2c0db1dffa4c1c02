#include "session/prepared.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/cpu.h"
#include "graph/operator.h"
#include "session/device_io.h"

namespace forethought {
namespace {

// The constant where a kernel can read it: itself if its address suits its element type, else an aligned copy.
StatusOr<Tensor> aligned(const Tensor& constant, WeightTotals* totals) {
  const size_t width = std::max(1, bit_width(constant.dtype) / 8);
  if (constant.dtype == DType::kString || reinterpret_cast<uintptr_t>(constant.data) % std::min<size_t>(width, 8) == 0)
    return constant;
  ASSIGN_OR_RETURN(Tensor copy, make_tensor(constant.dtype, constant.dims));
  std::memcpy(copy.data, constant.data, static_cast<size_t>(constant.bytes()));
  copy.layout = constant.layout;
  totals->copied += constant.bytes();
  return copy;
}

Status prepare_node(const Graph& g, NodeId id, PreparedNode* out, std::vector<bool>* reads_original,
                    WeightTotals* totals) {
  const GraphNode& n = g.node(id);
  out->kernel = n.impl->kernel();
  std::vector<const Tensor*> constants;
  std::vector<Layout> in_layouts, out_layouts;
  for (ValueId v : n.inputs) {
    constants.push_back(g.is_constant(v) ? &*g.value(v).constant : nullptr);
    in_layouts.push_back(v.valid() ? g.value(v).layout : Layout());
  }
  for (ValueId v : n.outputs) out_layouts.push_back(v.valid() ? g.value(v).layout : Layout());
  ASSIGN_OR_RETURN(const std::vector<PackSpec> specs,
                   out->kernel->prepare({active_isa(), constants, in_layouts, out_layouts}));
  out->packed.resize(n.inputs.size());
  out->packed_bytes.resize(n.inputs.size());
  reads_original->assign(n.inputs.size(), true);
  for (const PackSpec& s : specs) {
    if (s.input < 0 || s.input >= static_cast<int>(n.inputs.size()) || !constants[s.input])
      return internal("the kernel wants to pack an input that is no constant");
    ASSIGN_OR_RETURN(std::shared_ptr<const PackedBlock> block, PackStore::global().get(*constants[s.input], s));
    totals->packed += block->bytes.elements();
    out->packed[s.input] = {block->span(), block->format};
    out->packed_bytes[s.input] = block->span();
    out->keep.push_back(std::move(block));
    if (!s.keeps_original) (*reads_original)[s.input] = false;
  }
  return absl::OkStatus();
}

StatusOr<std::unique_ptr<PreparedGraph>> prepare_view(const Graph& g, WeightTotals* totals, const DeviceSet* devices) {
  auto p = std::make_unique<PreparedGraph>();
  p->view = &g;
  p->order = g.order();
  p->nodes.resize(g.node_capacity());
  p->weight_of.assign(g.value_capacity(), -1);
  auto take_weight = [&](ValueId v) -> Status {
    if (p->weight_of[v.index] >= 0) return absl::OkStatus();
    DeviceDriver* device = devices ? devices->find(g.value(v).device) : nullptr;
    Tensor t;
    if (device) {
      ASSIGN_OR_RETURN(t, copy_to_device(*g.value(v).constant, *device, absl::StrCat("constant ", g.value(v).name)));
      totals->on_devices += t.bytes();
    } else {
      ASSIGN_OR_RETURN(t, aligned(*g.value(v).constant, totals));
      totals->constants += t.bytes();
    }
    p->weight_of[v.index] = static_cast<int32_t>(p->weights.size());
    p->weights.push_back(std::move(t));
    return absl::OkStatus();
  };
  for (NodeId id : p->order) {
    const GraphNode& n = g.node(id);
    std::vector<bool> reads_original;
    RETURN_IF_ERROR(with_context(prepare_node(g, id, &p->nodes[id.index], &reads_original, totals),
                                 absl::StrCat("node ", n.name, " (", to_string(n.op), ")")));
    for (size_t i = 0; i < n.inputs.size(); ++i)
      if (g.is_constant(n.inputs[i]) && reads_original[i]) RETURN_IF_ERROR(take_weight(n.inputs[i]));
    for (size_t b = 0; b < n.bodies.size(); ++b) {
      ASSIGN_OR_RETURN(auto body, prepare_view(*n.bodies[b].second, totals, devices));
      p->bodies[{id.index, static_cast<int>(b)}] = std::move(body);
    }
  }
  for (ValueId v : g.outputs())
    if (g.is_constant(v)) RETURN_IF_ERROR(take_weight(v));
  return p;
}

}  // namespace

StatusOr<std::unique_ptr<PreparedGraph>> prepare_graph(std::unique_ptr<Graph> graph, WeightTotals* totals,
                                                       const DeviceSet* devices) {
  ASSIGN_OR_RETURN(std::unique_ptr<PreparedGraph> p, prepare_view(*graph, totals, devices));
  p->graph = std::move(graph);
  return p;
}

}  // namespace forethought
