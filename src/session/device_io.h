// Inputs and outputs of a run that the caller has on a device.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "device/account.h"
#include "device/device.h"
#include "graph/graph.h"
#include "session/compile.h"
#include "session/pipeline.h"
#include "tensor/value.h"

namespace forethought {

// One run's values as the program takes them.
struct DeviceRun {
  absl::InlinedVector<Value, 8> inputs, outputs;
  Bindings bound;
  std::vector<std::pair<size_t, int32_t>> to_make;  // outputs that are to get memory, and on which device
  // Outputs that are made on the host and copied to the caller's memory afterwards.
  std::vector<std::pair<size_t, Tensor>> staged;
};

// An input that only one device reads, or an output that one device makes and only the caller reads, stays on that
// device when it is bound there. Any other that the caller has on a device is copied to or from the host around the
// run.
class DeviceIo {
 public:
  DeviceIo(const Graph& graph, const DeviceSet& devices);

  // Whether some tensor is said to lie in a device's own memory.
  static bool any(std::span<const Value> inputs, std::span<const Value> outputs);

  // Where the copy of input or output `i` would be left out: a place in the devices, or -1.
  int32_t input_home(size_t i) const { return input_home_[i]; }
  int32_t output_home(size_t i) const { return output_home_[i]; }

  // A device that the session does not have is an error.
  StatusOr<DeviceRun> begin(const std::vector<NodeArg>& input_args, std::span<const Value> inputs,
                            const std::vector<NodeArg>& output_args, std::span<const Value> outputs) const;
  // Gives memory to outputs that came in as tensors with a device but no memory.
  Status take_outputs(const std::vector<NodeArg>& output_args, DeviceRun* run) const;
  // Brings the outputs to where the caller wants them.
  Status end(const std::vector<NodeArg>& output_args, DeviceRun& run, std::span<Value> outputs) const;

 private:
  StatusOr<int32_t> place_of(const Tensor& tensor, const NodeArg& arg, std::string_view what) const;

  const DeviceSet& devices_;
  std::vector<int32_t> input_home_, output_home_;
};

// Memory of a device, filled with the tensor's bytes. Given back with the last copy of the result, which keeps the
// device and the account.
StatusOr<Tensor> copy_to_device(const Tensor& from, const DeviceUse& device, MemoryRole role, std::string_view who);
// The same without contents.
StatusOr<Tensor> make_on_device(DType dtype, Layout layout, std::span<const int64_t> dims, const DeviceUse& device,
                                MemoryRole role, std::string_view who);
// A tensor of the host with the bytes of one on a device.
StatusOr<Tensor> copy_to_host(const Tensor& from, const DeviceSet& devices);

}  // namespace forethought
