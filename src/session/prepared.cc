#include "session/prepared.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>
#include <unordered_set>

#include "absl/strings/str_cat.h"
#include "base/cpu.h"
#include "graph/operator.h"
#include "graph/text.h"
#include "memory/mapped_file.h"
#include "memory/system.h"
#include "session/device_io.h"
#include "session/strided_views.h"

namespace forethought {
namespace {

// Smaller constants are not streamed: a page for each, and two calls of the system a step, cost more than a copy.
constexpr int64_t kLeastStreamed = 4096;

// Forgets the contents of a constant that no step reads. A mapped file costs nothing, and may have other readers.
void let_go(Graph& g, ValueId v, const PreparedGraph& p) {
  std::optional<Tensor>& t = g.value(v).constant;
  if (!t || p.values[v.index].weight >= 0 || !t->owner || lies_in_mapped_file(t->data, t->bytes())) return;
  t->data = nullptr;
  t->owner.reset();
}

// Of a mapped file: who reads them again has them read again.
void let_pages_go(const Tensor& t) {
  drop_pages(pages_of({static_cast<const std::byte*>(t.data), static_cast<size_t>(t.bytes())}));
}

class Preparer {
 public:
  Preparer(const PrepareOptions& options, PreparedGraph* root, WeightTotals* totals)
      : options_(options), root_(root), totals_(totals) {}

  Status prepare(Graph& g, PreparedGraph* p);
  void forget_what_is_packed() const;

 private:
  bool lies_in_model(const Tensor& t) const;
  bool stays(const Tensor& t) const;
  bool is_streamed(const Tensor& t) const;
  bool stays_resident(const Tensor& t, bool for_good) const;
  void count_streamed(const Tensor& t) {
    if (streamed_.insert(t.data).second) totals_->streamed += t.bytes();
  }
  bool leaves_out(const PackSpec& spec, bool unpacked) const;
  // `for_good`: it is read at other times than by steps.
  Status settle(Tensor& constant, std::string_view name, bool for_good = false);
  StatusOr<Tensor> in_store(const Tensor& constant, bool copy, std::string_view name);
  Status count_in_store(const Tensor& constant, bool copy, std::string_view name);
  void note_pack(const PackSpec& spec, const PackedBlock& block, const std::string& value) const;
  // `unpacked`, by value: whether packed forms of the constant are left out.
  Status prepare_node(const Graph& g, NodeId id, const std::vector<bool>& unpacked, PreparedNode* out,
                      std::vector<bool>* reads_original);
  Status prepare_inputs(Graph& g, NodeId id, const std::vector<bool>& unpacked, PreparedGraph* p,
                        std::vector<int32_t>* readers_left);
  Status take_weight(Graph& g, ValueId v, PreparedGraph* p);
  void drop_pages_of(const Graph& g) const;
  void has_looked_at(const Tensor& constant) const;

  // Null: it is not to be kept in a file, or cannot be.
  StatusOr<std::shared_ptr<const PackedBlock>> pack_in_file(const Tensor& constant, const PackSpec& spec);
  StatusOr<std::shared_ptr<const PackedBlock>> pack(const Tensor& constant, const PackSpec& spec,
                                                    std::string_view name);
  StatusOr<std::shared_ptr<const PackedBlock>> dry_pack(const Tensor& constant, const PackSpec& spec);

  const PrepareOptions& options_;
  PreparedGraph* const root_;
  WeightTotals* const totals_;
  std::unordered_set<uint64_t> dry_constants_;
  std::unordered_map<uint64_t, std::shared_ptr<const PackedBlock>> dry_packs_;
  std::vector<const Tensor*> packed_;  // constants of which some node reads the packed form alone
  std::unordered_set<const void*> streamed_;
  std::unordered_set<const void*> read_;  // data of constants that some node reads as they are
};

bool Preparer::lies_in_model(const Tensor& t) const {
  const std::string_view model = options_.model_bytes;
  const auto* data = static_cast<const char*>(t.data);
  return !model.empty() && data >= model.data() && data < model.data() + model.size();
}

// Whether the constant lies where it takes no memory that could be shared or given back.
bool Preparer::stays(const Tensor& t) const {
  if (!t.owner) return true;
  return lies_in_model(t) ? !options_.model_goes : lies_in_mapped_file(t.data, t.bytes());
}

// Whether its pages come and go with the steps that read it, if its address suits them.
bool Preparer::is_streamed(const Tensor& t) const {
  return options_.streamed && t.bytes() > 0 && lies_in_mapped_file(t.data, t.bytes());
}

// Whether it is to be copied for being read at other times than by steps, or for being small.
bool Preparer::stays_resident(const Tensor& t, bool for_good) const {
  return is_streamed(t) && (for_good || t.bytes() < kLeastStreamed);
}

bool Preparer::leaves_out(const PackSpec& spec, bool unpacked) const {
  return !spec.needed && (!options_.prepack || unpacked);
}

// Moves a constant that is to be read to where it can be read from, for good.
Status Preparer::settle(Tensor& constant, std::string_view name, bool for_good) {
  if (constant.bytes() == 0) constant.owner.reset();  // there is nothing to read
  const bool place_stays = stays(constant), resident = stays_resident(constant, for_good);
  if (!ConstantStore::is_aligned(constant) && place_stays && !resident) {
    const auto bytes = static_cast<size_t>(constant.bytes());
    const PackSpec as_it_is{0, "plain", bytes, [bytes](const Tensor& from, std::span<std::byte> to) {
                              std::memcpy(to.data(), from.data, bytes);
                              return absl::OkStatus();
                            }};
    ASSIGN_OR_RETURN(const auto in_file, pack_in_file(constant, as_it_is));
    if (in_file) {
      constant.data = in_file->bytes.data;
      constant.owner = in_file->bytes.owner;
    }
  }
  const bool aligned = ConstantStore::is_aligned(constant);
  if (aligned && place_stays && !resident) return absl::OkStatus();
  const bool copy = !aligned || resident || lies_in_model(constant);
  if (copy) totals_->copied += constant.bytes();
  if (options_.dry) {
    RETURN_IF_ERROR(count_in_store(constant, copy, name));
    if (!place_stays && copy) constant.owner.reset();
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(constant, in_store(constant, copy, name));
  return absl::OkStatus();
}

// As with packs: the session's share is taken before a block is made.
StatusOr<Tensor> Preparer::in_store(const Tensor& constant, bool copy, std::string_view name) {
  ConstantStore& store = ConstantStore::global();
  const uint64_t key = ConstantStore::key(constant);
  std::shared_ptr<const SharedConstant> known = store.find(key, constant);
  MemoryShare share;
  if (!known || !root_->constant_shares.contains(known)) {
    const int64_t padding = known ? known->padding : ConstantStore::padding_of(constant, copy);
    ASSIGN_OR_RETURN(share, MemoryShare::take(options_.budget, MemoryRole::weights, constant.bytes(), padding, name));
  }
  if (!known) {
    ASSIGN_OR_RETURN(known, store.get(key, constant, copy, name));
  }
  if (share) root_->constant_shares[known] = std::move(share);
  Tensor t = constant;
  t.data = known->tensor.data;
  t.owner = known->tensor.owner;
  return t;
}

Status Preparer::count_in_store(const Tensor& constant, bool copy, std::string_view name) {
  const uint64_t key = ConstantStore::key(constant);
  if (!dry_constants_.insert(key).second) return absl::OkStatus();
  const auto known = ConstantStore::global().find(key, constant);
  const int64_t padding = known ? known->padding : ConstantStore::padding_of(constant, copy);
  has_looked_at(constant);
  if (known) options_.budget->note_in_process(constant.bytes() + padding);
  ASSIGN_OR_RETURN(root_->dry_shares.emplace_back(),
                   MemoryShare::take(options_.budget, MemoryRole::weights, constant.bytes(), padding, name));
  return absl::OkStatus();
}

// The session's share is taken before a block is made; one that the session has already costs it nothing.
StatusOr<std::shared_ptr<const PackedBlock>> Preparer::pack(const Tensor& constant, const PackSpec& spec,
                                                            std::string_view name) {
  ASSIGN_OR_RETURN(std::shared_ptr<const PackedBlock> in_file, pack_in_file(constant, spec));
  if (in_file) return in_file;
  const auto bytes = static_cast<int64_t>(spec.bytes);
  const auto take_share = [&] {
    return MemoryShare::take(options_.budget, MemoryRole::packed, bytes, counted_block_bytes(bytes) - bytes, name);
  };
  std::shared_ptr<const PackedBlock> block;
  MemoryShare share;
  if (options_.dry) {
    ASSIGN_OR_RETURN(block, dry_pack(constant, spec));
  } else if (options_.budget->is_limited()) {
    ASSIGN_OR_RETURN(block, PackStore::global().find(constant, spec));
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

StatusOr<std::shared_ptr<const PackedBlock>> Preparer::pack_in_file(const Tensor& constant, const PackSpec& spec) {
  if (!options_.pack_folder || static_cast<int64_t>(spec.bytes) < PackFolder::kLeastBytes)
    return std::shared_ptr<const PackedBlock>();
  ASSIGN_OR_RETURN(auto block, options_.pack_folder->get(constant, spec, options_.budget));
  if (is_streamed(constant)) let_pages_go(constant);
  if (block && is_streamed(block->bytes)) drop_pages(pages_of(block->span()));
  return block;
}

StatusOr<std::shared_ptr<const PackedBlock>> Preparer::dry_pack(const Tensor& constant, const PackSpec& spec) {
  std::shared_ptr<const PackedBlock>& known = dry_packs_[PackStore::key(constant, spec)];
  if (known) return known;
  ASSIGN_OR_RETURN(known, PackStore::global().find(constant, spec));
  has_looked_at(constant);
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

Status Preparer::prepare_node(const Graph& g, NodeId id, const std::vector<bool>& unpacked, PreparedNode* out,
                              std::vector<bool>* reads_original) {
  const GraphNode& n = g.node(id);
  out->kernel = n.impl->kernel();
  out->contents = out->kernel->contents();
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
    const std::string& value = g.value(n.inputs[s.input]).name;
    std::shared_ptr<const PackedBlock> block;
    if (leaves_out(s, unpacked[n.inputs[s.input].index])) {
      if (options_.prepack) {
        ASSIGN_OR_RETURN(block, pack_in_file(*constants[s.input], s));
      }
      if (!block) {
        ++totals_->packs_left_out;
        totals_->packs_left_out_bytes += static_cast<int64_t>(s.bytes);
        continue;
      }
    } else {
      ASSIGN_OR_RETURN(block, pack(*constants[s.input], s, value));
    }
    if (!options_.prepack || !options_.keep_packs) note_pack(s, *block, value);
    if (is_streamed(block->bytes)) {
      out->streamed.push_back(block->span());
      count_streamed(block->bytes);
    }
    totals_->packed += block->bytes.elements();
    out->packed[s.input] = {block->span(), block->format};
    out->packed_bytes[s.input] = block->span();
    if (s.input < 32 && !block->span().empty()) out->packs |= 1u << s.input;
    out->keep.push_back(std::move(block));
    if (!s.keeps_original) (*reads_original)[s.input] = false;
  }
  return absl::OkStatus();
}

// Tells of a packed form that was made although packed forms are to be left out.
void Preparer::note_pack(const PackSpec& spec, const PackedBlock& block, const std::string& value) const {
  if (is_streamed(block.bytes)) return;
  totals_->needed.push_back({value,
                             spec.needed ? absl::StrCat("the kernel has no other way than ", spec.format)
                                         : "it is read in packed form, as it would have to be copied otherwise",
                             static_cast<int64_t>(spec.bytes)});
}

Status Preparer::take_weight(Graph& g, ValueId v, PreparedGraph* p) {
  if (p->values[v.index].weight >= 0) return absl::OkStatus();
  Tensor& constant = *g.value(v).constant;
  read_.insert(constant.data);
  const bool was_streamed = is_streamed(constant), is_output = std::ranges::find(g.outputs(), v) != g.outputs().end();
  const std::optional<DeviceUse> device = options_.devices ? options_.devices->use(g.value(v).device) : std::nullopt;
  const std::string who = absl::StrCat("constant ", g.value(v).name);
  // The host's bytes stay beside those of the device: choices may depend on them.
  if (!device || !stays(constant)) RETURN_IF_ERROR(settle(constant, g.value(v).name, is_output));
  Tensor t = constant;
  if (device && !options_.dry) {
    ASSIGN_OR_RETURN(t, copy_to_device(constant, *device, MemoryRole::weights, who));
    totals_->on_devices += t.bytes();
  } else if (device) {
    ASSIGN_OR_RETURN(root_->dry_shares.emplace_back(),
                     MemoryShare::take(device->account, MemoryRole::weights, std::max<int64_t>(t.bytes(), 1), 0, who));
  } else {
    totals_->constants += t.bytes();
  }
  const bool streams = !device && is_streamed(t) && ConstantStore::is_aligned(t) && !stays_resident(t, is_output);
  if (streams) {
    count_streamed(t);
  } else if (options_.streamed && !device && t.bytes() > 0) {
    const char* const why = t.bytes() < kLeastStreamed  ? "it is small"
                            : was_streamed && is_output ? "it is an output of the graph"
                            : was_streamed              ? "its place in the file does not suit its type"
                            : lies_in_model(constant)   ? "the model came as bytes"
                                                        : "it was made at load";
    totals_->kept.push_back({g.value(v).name, why, t.bytes()});
  }
  p->streams.push_back(streams);
  p->values[v.index].weight = static_cast<int32_t>(p->weights.size());
  p->weights.push_back(std::move(t));
  return absl::OkStatus();
}

// Packs what the node wants packed, takes what it reads as it is, and lets go of what nobody will read again.
Status Preparer::prepare_inputs(Graph& g, NodeId id, const std::vector<bool>& unpacked, PreparedGraph* p,
                                std::vector<int32_t>* readers_left) {
  const GraphNode& n = g.node(id);
  std::vector<bool> reads_original;
  RETURN_IF_ERROR(with_context(prepare_node(g, id, unpacked, &p->nodes[id.index], &reads_original),
                               absl::StrCat("node ", described(n))));
  for (size_t i = 0; i < n.inputs.size(); ++i) {
    const ValueId v = n.inputs[i];
    if (!g.is_constant(v)) continue;
    if (reads_original[i]) {
      RETURN_IF_ERROR(take_weight(g, v, p));
    } else {
      packed_.push_back(&*g.value(v).constant);
    }
    if (--(*readers_left)[v.index] == 0) let_go(g, v, *p);
  }
  return absl::OkStatus();
}

Status Preparer::prepare(Graph& g, PreparedGraph* p) {
  p->view = &g;
  p->streamed = options_.streamed;
  p->order = g.order();
  p->nodes.resize(g.node_capacity());
  p->values.reserve(g.value_capacity());
  for (uint32_t i = 0; i < g.value_capacity(); ++i) {
    const GraphValue& v = g.value(ValueId{i});
    p->values.push_back({v.layout, v.device, v.removed, false, 0, -1, v.constant ? &*v.constant : nullptr});
  }
  std::vector<int32_t> readers_left(g.value_capacity(), 0);
  for (NodeId id : p->order)
    for (ValueId v : g.node(id).inputs)
      if (g.is_constant(v)) ++readers_left[v.index];
  for (ValueId v : g.outputs())
    if (v.valid()) ++readers_left[v.index];
  for (uint32_t i = 0; i < g.value_capacity(); ++i)
    if (readers_left[i] == 0) let_go(g, ValueId{i}, *p);
  std::vector<bool> unpacked(g.value_capacity());  // now: its first reader may have a constant moved
  for (uint32_t i = 0; i < g.value_capacity(); ++i) {
    const std::optional<Tensor>& t = g.value(ValueId{i}).constant;
    unpacked[i] = t && !options_.keep_packs && is_streamed(*t) && ConstantStore::is_aligned(*t);
  }
  for (NodeId id : p->order) {
    RETURN_IF_ERROR(prepare_inputs(g, id, unpacked, p, &readers_left));
    GraphNode& n = g.node(id);
    for (size_t b = 0; b < n.bodies.size(); ++b) {
      auto body = std::make_unique<PreparedGraph>();
      RETURN_IF_ERROR(prepare(*n.bodies[b].second, body.get()));
      p->bodies[{id.index, static_cast<int>(b)}] = std::move(body);
    }
  }
  if (options_.strided_views) decide_views(g, p);
  for (ValueId v : g.outputs())
    if (g.is_constant(v)) RETURN_IF_ERROR(take_weight(g, v, p));
  for (ValueId v : g.inputs())
    if (g.value(v).default_value) RETURN_IF_ERROR(settle(*g.value(v).default_value, g.value(v).name, true));
  if (options_.streamed) drop_pages_of(g);
  return absl::OkStatus();
}

// Loading has read them; steps ask for them again.
void Preparer::drop_pages_of(const Graph& g) const {
  for (uint32_t i = 0; i < g.value_capacity(); ++i) {
    const std::optional<Tensor>& t = g.value(ValueId{i}).constant;
    if (t && t->data && t->dtype != DType::kString && is_streamed(*t)) let_pages_go(*t);
  }
}

// A load that only counts may find that the limit does not hold what it looks at.
void Preparer::has_looked_at(const Tensor& constant) const {
  if (options_.dry && lies_in_mapped_file(constant.data, constant.bytes())) let_pages_go(constant);
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
  RETURN_IF_ERROR(preparer.prepare(*graph, p.get()));
  if (!options.dry) preparer.forget_what_is_packed();
  p->graph = std::move(graph);
  return p;
}

}  // namespace forethought
