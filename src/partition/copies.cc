#include "partition/copies.h"

#include "absl/strings/str_cat.h"
#include "partition/shape_arithmetic.h"

namespace forethought {
namespace {

class Copies {
 public:
  Copies(Graph& graph, std::span<const std::unique_ptr<Provider>> providers,
         const std::function<const Provider*(NodeId)>& owner, const OperatorLibrary& library, CopyCounts* counts)
      : graph_(graph), providers_(providers), owner_(owner), library_(library), counts_(counts) {
    for (const auto& p : providers)
      if (auto driver = p->driver()) devices_.add(DeviceUse(std::move(driver)));
  }

  Status run() {
    const std::vector<NodeId> order = graph_.order();
    for (ValueId v : std::vector<ValueId>(graph_.outputs())) RETURN_IF_ERROR(bring_home(v));
    for (NodeId id : order) {
      const Provider* p = owner_(id);
      if (!p) continue;
      const uint32_t on_host = p->device().is_host() ? 0 : p->host_inputs(graph_, graph_.node(id));
      for (size_t i = 0; i < graph_.node(id).inputs.size(); ++i) {
        const ValueId v = graph_.node(id).inputs[i];
        if (!v.valid() || graph_.value(v).type.is_object()) continue;
        if (p->device().is_host() && reads_only_dims(graph_.node(id))) continue;
        const bool host = i < 32 && ((on_host >> i) & 1u) != 0;
        ASSIGN_OR_RETURN(const ValueId here, fetch(v, host ? Device{} : p->device()));
        if (here != v) graph_.set_input(id, static_cast<int>(i), here);
      }
    }
    return absl::OkStatus();
  }

 private:
  // An output that a device makes becomes the host's copy; the device keeps a value of its own, which all others read.
  Status bring_home(ValueId v) {
    const Device from = graph_.value(v).device;
    if (from.is_host() || !graph_.value(v).producer.valid() || graph_.value(v).type.is_object()) {
      return absl::OkStatus();
    }
    const NodeId producer = graph_.value(v).producer;
    const int slot = graph_.value(v).producer_slot;
    const ValueId there = twin(v, from);
    for (const Use& u : std::vector<Use>(graph_.value(v).uses.begin(), graph_.value(v).uses.end()))
      graph_.set_input(u.node, u.slot, there);
    graph_.set_output(producer, slot, there);
    graph_.value(v).device = Device{};
    made_[{there, to_string(Device{})}] = v;
    return add_copy(there, v);
  }

  StatusOr<ValueId> fetch(ValueId v, Device to) {
    const Device from = graph_.value(v).device;
    if (from == to) return v;
    const auto [it, is_new] = made_.try_emplace({v, to_string(to)});
    if (!is_new) return it->second;
    ValueId& target = it->second;  // a std::map moves nothing
    if (graph_.is_constant(v) && devices_.find(to)) {
      const Tensor contents = *graph_.value(v).constant;
      target = graph_.add_constant(absl::StrCat(graph_.value(v).name, "@", to_string(to)), contents);
      graph_.value(target).device = to;
      ++counts_->constants;
      counts_->constant_bytes += contents.bytes();
      return target;
    }
    ValueId source = v;
    if (devices_.find(from) && devices_.find(to) && !devices_.copier(from, to)) {
      ASSIGN_OR_RETURN(source, fetch(v, Device{}));
    }
    target = twin(v, to);
    RETURN_IF_ERROR(add_copy(source, target));
    return target;
  }

  ValueId twin(ValueId v, Device on) {
    const ValueId made = graph_.add_value(absl::StrCat(graph_.value(v).name, "@", to_string(on)), graph_.value(v).type,
                                          graph_.value(v).shape);
    graph_.value(made).device = on;
    graph_.value(made).layout = graph_.value(v).layout;
    graph_.value(made).known = graph_.value(v).known;
    return made;
  }

  // The copy belongs to the provider of the device that it comes from or goes to.
  Status add_copy(ValueId from, ValueId to) {
    const NodeId node = graph_.add_node({std::string(kInternalDomain), "Copy", 1}, graph_.value(to).name, {from}, {to});
    const Device end = graph_.value(to).device.is_host() ? graph_.value(from).device : graph_.value(to).device;
    for (const auto& p : providers_)
      if (p->device() == end) graph_.node(node).provider = std::string(p->name());
    ASSIGN_OR_RETURN(graph_.node(node).impl, library_.bind(graph_.node(node)));
    ++counts_->copies;
    return absl::OkStatus();
  }

  Graph& graph_;
  std::span<const std::unique_ptr<Provider>> providers_;
  const std::function<const Provider*(NodeId)>& owner_;
  const OperatorLibrary& library_;
  CopyCounts* counts_;
  DeviceSet devices_;
  std::map<std::pair<ValueId, std::string>, ValueId> made_;  // by value and target
};

}  // namespace

Status insert_copies(Graph& graph, std::span<const std::unique_ptr<Provider>> providers,
                     const std::function<const Provider*(NodeId)>& owner, const OperatorLibrary& library,
                     CopyCounts* counts) {
  return Copies(graph, providers, owner, library, counts).run();
}

}  // namespace forethought
