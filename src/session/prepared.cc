#include "session/prepared.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>
#include <unordered_set>

#include "absl/strings/str_cat.h"
#include "base/cpu.h"
#include "graph/operator.h"
#include "memory/mapped_file.h"
#include "memory/system.h"
#include "session/device_io.h"

namespace forethought {
namespace {

class Preparer {
 public:
  Preparer(const PrepareOptions& options, PreparedGraph* root, WeightTotals* totals)
      : options_(options), root_(root), totals_(totals) {}

  Status adopt_constants(Graph& g);
  Status prepare(const Graph& g, PreparedGraph* p);
  void forget_what_is_packed() const;

 private:
  Status adopt(Tensor& t, std::string_view name);
  StatusOr<Tensor> aligned(const Tensor& constant, std::string_view name);
  Status prepare_node(const Graph& g, NodeId id, PreparedNode* out, std::vector<bool>* reads_original);
  Status take_weight(const Graph& g, ValueId v, PreparedGraph* p);

  StatusOr<std::shared_ptr<const PackedBlock>> pack(const Tensor& constant, const PackSpec& spec,
                                                    std::string_view name);
  StatusOr<std::shared_ptr<const PackedBlock>> dry_pack(const Tensor& constant, const PackSpec& spec);

  const PrepareOptions& options_;
  PreparedGraph* const root_;
  WeightTotals* const totals_;
  std::unordered_map<const BufferHeader*, BufferRef> adopted_;  // by the block's own header
  std::unordered_map<uint64_t, std::shared_ptr<const PackedBlock>> dry_packs_;
  std::vector<const Tensor*> packed_;     // constants of which some node reads the packed form alone
  std::unordered_set<const void*> read_;  // data of constants that some node reads as they are
};

Status Preparer::adopt(Tensor& t, std::string_view name) {
  const std::string_view model = options_.model_bytes;
  const auto* data = static_cast<const char*>(t.data);
  const bool in_model = !model.empty() && data >= model.data() && data < model.data() + model.size();
  if (!t.owner || t.bytes() == 0 || in_model || lies_in_mapped_file(t.data, t.bytes())) return absl::OkStatus();
  BufferRef& known = adopted_[t.owner.header()];
  if (!known) {
    ASSIGN_OR_RETURN(known, adopt_block(options_.budget, MemoryRole::weights, t.owner, t.bytes(), name));
  }
  t.owner = known;
  return absl::OkStatus();
}

// What passes computed and texts gave lies on the heap: from here on the account holds it.
Status Preparer::adopt_constants(Graph& g) {
  for (uint32_t i = 0; i < g.value_capacity(); ++i) {
    GraphValue& v = g.value(ValueId{i});
    if (v.removed) continue;
    if (v.constant) RETURN_IF_ERROR(adopt(*v.constant, v.name));
    if (v.default_value) RETURN_IF_ERROR(adopt(*v.default_value, v.name));
  }
  for (NodeId id : g.order()) {
    for (auto& [name, body] : g.node(id).bodies) RETURN_IF_ERROR(adopt_constants(*body));
  }
  return absl::OkStatus();
}

// The constant where a kernel can read it: itself if its address suits its element type, else an aligned copy.
StatusOr<Tensor> Preparer::aligned(const Tensor& constant, std::string_view name) {
  const size_t width = std::max(1, bit_width(constant.dtype) / 8);
  if (constant.dtype == DType::kString || reinterpret_cast<uintptr_t>(constant.data) % std::min<size_t>(width, 8) == 0)
    return constant;
  totals_->copied += constant.bytes();
  if (options_.dry) {
    const int64_t padding = counted_block_bytes(constant.bytes()) - constant.bytes();
    ASSIGN_OR_RETURN(root_->dry_shares.emplace_back(),
                     MemoryShare::take(options_.budget, MemoryRole::weights, constant.bytes(), padding, name));
    return constant;
  }
  ASSIGN_OR_RETURN(CountedBlock block, counted_block(options_.budget, MemoryRole::weights, constant.bytes(), name));
  std::memcpy(block.data, constant.data, static_cast<size_t>(constant.bytes()));
  Tensor copy = constant;
  copy.data = block.data;
  copy.owner = std::move(block.owner);
  return copy;
}

// The session's share is taken before a block is made; one that the session has already costs it nothing.
StatusOr<std::shared_ptr<const PackedBlock>> Preparer::pack(const Tensor& constant, const PackSpec& spec,
                                                            std::string_view name) {
  const auto bytes = static_cast<int64_t>(spec.bytes);
  const auto take_share = [&] {
    return MemoryShare::take(options_.budget, MemoryRole::packed, bytes, counted_block_bytes(bytes) - bytes, name);
  };
  std::shared_ptr<const PackedBlock> block;
  MemoryShare share;
  if (options_.dry) {
    ASSIGN_OR_RETURN(block, dry_pack(constant, spec));
  } else if (options_.budget->is_limited()) {
    block = PackStore::global().find(constant, spec);
    if (!block || !root_->pack_shares.contains(block.get())) {
      ASSIGN_OR_RETURN(share, take_share());
    }
  }
  if (!block) {
    ASSIGN_OR_RETURN(block, PackStore::global().get(constant, spec));
  }
  MemoryShare& mine = root_->pack_shares[block.get()];
  if (mine) return block;
  if (!share) {
    ASSIGN_OR_RETURN(share, take_share());
  }
  mine = std::move(share);
  return block;
}

StatusOr<std::shared_ptr<const PackedBlock>> Preparer::dry_pack(const Tensor& constant, const PackSpec& spec) {
  std::shared_ptr<const PackedBlock>& known = dry_packs_[PackStore::key(constant, spec)];
  if (known) return known;
  known = PackStore::global().find(constant, spec);
  const auto bytes = static_cast<int64_t>(spec.bytes);
  if (known) {
    options_.budget->note_in_process(counted_block_bytes(bytes));
    return known;
  }
  CountedBlock space = zeros(bytes);
  if (!space.data) return exhausted("the system has no addresses left");
  auto made = std::make_shared<PackedBlock>();
  made->format = spec.format;
  made->bytes.dtype = DType::kUint8;
  made->bytes.dims = {bytes};
  made->bytes.data = space.data;
  made->bytes.owner = std::move(space.owner);
  known = std::move(made);
  return known;
}

Status Preparer::prepare_node(const Graph& g, NodeId id, PreparedNode* out, std::vector<bool>* reads_original) {
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
    ASSIGN_OR_RETURN(std::shared_ptr<const PackedBlock> block,
                     pack(*constants[s.input], s, g.value(n.inputs[s.input]).name));
    totals_->packed += block->bytes.elements();
    out->packed[s.input] = {block->span(), block->format};
    out->packed_bytes[s.input] = block->span();
    if (s.input < 32 && !block->span().empty()) out->packs |= 1u << s.input;
    out->keep.push_back(std::move(block));
    if (!s.keeps_original) (*reads_original)[s.input] = false;
  }
  return absl::OkStatus();
}

Status Preparer::take_weight(const Graph& g, ValueId v, PreparedGraph* p) {
  if (p->values[v.index].weight >= 0) return absl::OkStatus();
  read_.insert(g.value(v).constant->data);
  const Tensor& constant = *g.value(v).constant;
  const std::optional<DeviceUse> device = options_.devices ? options_.devices->use(g.value(v).device) : std::nullopt;
  const std::string who = absl::StrCat("constant ", g.value(v).name);
  Tensor t;
  if (device && !options_.dry) {
    ASSIGN_OR_RETURN(t, copy_to_device(constant, *device, MemoryRole::weights, who));
    totals_->on_devices += t.bytes();
  } else if (device) {
    t = constant;
    ASSIGN_OR_RETURN(root_->dry_shares.emplace_back(),
                     MemoryShare::take(device->account, MemoryRole::weights, std::max<int64_t>(t.bytes(), 1), 0, who));
  } else {
    ASSIGN_OR_RETURN(t, aligned(constant, g.value(v).name));
    totals_->constants += t.bytes();
  }
  p->values[v.index].weight = static_cast<int32_t>(p->weights.size());
  p->weights.push_back(std::move(t));
  return absl::OkStatus();
}

Status Preparer::prepare(const Graph& g, PreparedGraph* p) {
  p->view = &g;
  p->order = g.order();
  p->nodes.resize(g.node_capacity());
  p->values.reserve(g.value_capacity());
  for (uint32_t i = 0; i < g.value_capacity(); ++i) {
    const GraphValue& v = g.value(ValueId{i});
    p->values.push_back({v.layout, v.device, v.removed, -1, v.constant ? &*v.constant : nullptr});
  }
  for (NodeId id : p->order) {
    const GraphNode& n = g.node(id);
    std::vector<bool> reads_original;
    RETURN_IF_ERROR(with_context(prepare_node(g, id, &p->nodes[id.index], &reads_original),
                                 absl::StrCat("node ", n.name, " (", to_string(n.op), ")")));
    for (size_t i = 0; i < n.inputs.size(); ++i)
      if (!g.is_constant(n.inputs[i])) {
        continue;
      } else if (reads_original[i]) {
        RETURN_IF_ERROR(take_weight(g, n.inputs[i], p));
      } else {
        packed_.push_back(&*g.value(n.inputs[i]).constant);
      }
    for (size_t b = 0; b < n.bodies.size(); ++b) {
      auto body = std::make_unique<PreparedGraph>();
      RETURN_IF_ERROR(prepare(*n.bodies[b].second, body.get()));
      p->bodies[{id.index, static_cast<int>(b)}] = std::move(body);
    }
  }
  for (ValueId v : g.outputs())
    if (g.is_constant(v)) RETURN_IF_ERROR(take_weight(g, v, p));
  return absl::OkStatus();
}

// Nobody reads these any more, unless another session packs the same: the system may have their pages for others.
void Preparer::forget_what_is_packed() const {
  for (const Tensor* t : packed_)
    if (!read_.contains(t->data)) forget_mapped_bytes(t->data, t->bytes());
}

}  // namespace

StatusOr<std::unique_ptr<PreparedGraph>> prepare_graph(std::unique_ptr<Graph> graph, const PrepareOptions& options,
                                                       WeightTotals* totals) {
  auto p = std::make_unique<PreparedGraph>();
  Preparer preparer(options, p.get(), totals);
  RETURN_IF_ERROR(preparer.adopt_constants(*graph));
  RETURN_IF_ERROR(preparer.prepare(*graph, p.get()));
  if (!options.dry) preparer.forget_what_is_packed();
  p->graph = std::move(graph);
  return p;
}

}  // namespace forethought
