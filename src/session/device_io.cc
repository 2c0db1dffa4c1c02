#include "session/device_io.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace forethought {
namespace {

bool on_device(const Value& v) {
  return v.is_tensor() && !v.tensor().device.is_host() && v.tensor().device.memory == MemoryKind::device;
}

bool is_copy(const Graph& graph, NodeId id) {
  return id.valid() && graph.node(id).op.domain == kInternalDomain && graph.node(id).op.type == "Copy";
}

int32_t index_of(const DeviceSet& devices, Device device) {
  const auto drivers = devices.drivers();
  const auto found = std::ranges::find_if(drivers, [&](const auto& d) { return d->device() == device; });
  return found == drivers.end() ? -1 : static_cast<int32_t>(found - drivers.begin());
}

}  // namespace

StatusOr<Tensor> make_on_device(DType dtype, Layout layout, std::span<const int64_t> dims, const DeviceUse& device,
                                MemoryRole role, std::string_view who) {
  const auto bytes = storage_bytes(dtype, layout, dims);
  if (!bytes || dtype == DType::kString)
    return invalid(absl::StrCat("'", std::string(who), "' cannot be made on ", to_string(device.driver->device()),
                                " as ", name(dtype), to_string(dims),
                                ": give a type of fixed width, and dims of 0 or more whose bytes 64 bits can count"));
  ASSIGN_OR_RETURN(DeviceBlock block, DeviceBlock::take(device, role, std::max<int64_t>(*bytes, 1), who));
  Tensor t;
  t.dtype = dtype;
  t.layout = layout;
  t.dims.assign(dims.begin(), dims.end());
  t.device = device.driver->device();
  t.data = block.data();
  t.owner = hold(std::move(block));
  return t;
}

StatusOr<Tensor> copy_to_device(const Tensor& from, const DeviceUse& device, MemoryRole role, std::string_view who) {
  ASSIGN_OR_RETURN(Tensor to, make_on_device(from.dtype, from.layout, from.dims, device, role, who));
  RETURN_IF_ERROR(device.driver->copy({from.data, Device{}, to.data, to.device, from.bytes()}));
  return to;
}

StatusOr<Tensor> copy_to_host(const Tensor& from, const DeviceSet& devices) {
  ASSIGN_OR_RETURN(Tensor to, make_tensor(from.dtype, from.dims));
  RETURN_IF_ERROR(devices.copy({from.data, from.device, to.data, Device{}, from.bytes()}));
  return to;
}

DeviceIo::DeviceIo(const Graph& graph, const DeviceSet& devices) : devices_(devices) {
  for (const ValueId v : graph.inputs()) {
    const auto& uses = graph.value(v).uses;
    const bool alone = uses.size() == 1 && !graph.value(v).is_output && is_copy(graph, uses[0].node);
    input_home_.push_back(alone ? index_of(devices, graph.value(graph.node(uses[0].node).outputs[0]).device) : -1);
  }
  for (const ValueId v : graph.outputs()) {
    const NodeId producer = graph.value(v).producer;
    const bool alone =
        is_copy(graph, producer) && graph.value(v).uses.empty() && std::ranges::count(graph.outputs(), v) == 1;
    output_home_.push_back(alone ? index_of(devices, graph.value(graph.node(producer).inputs[0]).device) : -1);
  }
}

bool DeviceIo::any(std::span<const Value> inputs, std::span<const Value> outputs) {
  return std::ranges::any_of(inputs, on_device) || std::ranges::any_of(outputs, on_device);
}

StatusOr<int32_t> DeviceIo::place_of(const Tensor& tensor, const NodeArg& arg, std::string_view what) const {
  const int32_t place = index_of(devices_, tensor.device);
  if (place >= 0) return place;
  const std::string have = absl::StrJoin(
      devices_.drivers(), ", ", [](std::string* out, const auto& d) { absl::StrAppend(out, to_string(d->device())); });
  return invalid(absl::StrCat(std::string(what), " '", arg.name, "' lies on ", to_string(tensor.device),
                              ", which no provider of this session has (",
                              have.empty() ? "they all work in the host's memory" : have,
                              "): copy it to the host, or add the device's provider"));
}

StatusOr<DeviceRun> DeviceIo::begin(const std::vector<NodeArg>& input_args, std::span<const Value> inputs,
                                    const std::vector<NodeArg>& output_args, std::span<const Value> outputs) const {
  DeviceRun run;
  run.inputs.assign(inputs.begin(), inputs.end());
  run.outputs.assign(outputs.begin(), outputs.end());
  run.bound.inputs.assign(inputs.size(), -1);
  run.bound.outputs.assign(outputs.size(), -1);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!on_device(inputs[i])) continue;
    const Tensor& given = inputs[i].tensor();
    ASSIGN_OR_RETURN(const int32_t place, place_of(given, input_args[i], "input"));
    if (place == input_home_[i]) {
      run.bound.inputs[i] = place;
    } else {
      ASSIGN_OR_RETURN(run.inputs[i], copy_to_host(given, devices_));
    }
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!on_device(outputs[i])) continue;
    const Tensor& given = outputs[i].tensor();
    ASSIGN_OR_RETURN(const int32_t place, place_of(given, output_args[i], "output"));
    if (!given.data) run.to_make.emplace_back(i, place);
    if (place == output_home_[i]) {
      run.bound.outputs[i] = place;
    } else {
      run.staged.push_back({i, given});
      run.outputs[i] = Value();  // the host makes it, then it goes there
    }
  }
  return run;
}

Status DeviceIo::take_outputs(const std::vector<NodeArg>& output_args, DeviceRun* run) const {
  for (const auto& [i, place] : run->to_make) {
    const auto staged = std::ranges::find(run->staged, i, &std::pair<size_t, Tensor>::first);
    Tensor& t = staged != run->staged.end() ? staged->second : run->outputs[i].tensor();
    if (t.data) continue;
    const auto p = static_cast<size_t>(place);
    ASSIGN_OR_RETURN(
        t, make_on_device(t.dtype, t.layout, t.dims, devices_.use(p), MemoryRole::leased, output_args[i].name));
  }
  return absl::OkStatus();
}

Status DeviceIo::end(const std::vector<NodeArg>& output_args, DeviceRun& run, std::span<Value> outputs) const {
  for (auto& [i, given] : run.staged) {
    const bool fits = run.outputs[i].is_tensor() && run.outputs[i].tensor().dtype == given.dtype &&
                      std::ranges::equal(run.outputs[i].tensor().dims, given.dims);
    if (!fits)
      return invalid(
          absl::StrCat("output '", output_args[i].name, "' turned out as ",
                       run.outputs[i].is_tensor() ? to_string(run.outputs[i].tensor().dims) : std::string("no tensor"),
                       ", which does not fill the memory that was given for it on ", to_string(given.device)));
    const Tensor& made = run.outputs[i].tensor();
    RETURN_IF_ERROR(devices_.copy({made.data, Device{}, given.data, given.device, made.bytes()}));
    run.outputs[i] = std::move(given);
  }
  std::ranges::move(run.outputs, outputs.begin());
  return absl::OkStatus();
}

}  // namespace forethought
