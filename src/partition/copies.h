// Copies between devices: one node for each value and target, however many read it there.
#pragma once

#include <functional>

#include "device/device.h"
#include "partition/provider.h"

namespace forethought {

struct CopyCounts {
  int copies = 0;     // nodes inserted
  int constants = 0;  // constants that live on a device, put there once at load
  int64_t constant_bytes = 0;
};

// Every node finds its inputs where it runs: values of other devices are copied there once, directly where some device
// takes the pair, else through the host; constants get a twin on the device. Inputs that a kernel reads on the host
// stay or come there. Outputs of the graph end on the host. `owner` tells who runs a node; null: nobody.
Status insert_copies(Graph& graph, std::span<const std::unique_ptr<Provider>> providers,
                     const std::function<const Provider*(NodeId)>& owner, const OperatorLibrary& library,
                     CopyCounts* counts);

}  // namespace forethought
