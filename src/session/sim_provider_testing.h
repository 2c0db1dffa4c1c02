// A provider that runs nodes on a simulated device with the host's kernels.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "device/sim_device_testing.h"
#include "partition/provider.h"
#include "session/options.h"

namespace forethought {

// Registers a provider of `device` under `name` for as long as it lives. `claims` says which nodes it wants; it takes
// none whose sizes only a run tells, none with objects and none with bodies.
class SimProviderScope {
 public:
  SimProviderScope(std::string name, std::shared_ptr<SimDevice> device,
                   std::function<bool(const Graph&, const GraphNode&)> claims);
  ~SimProviderScope();
  SimProviderScope(const SimProviderScope&) = delete;
  SimProviderScope& operator=(const SimProviderScope&) = delete;

 private:
  std::string name_;
};

// Options that name the provider first.
SessionOptions with_provider(const std::string& name, SessionOptions options = {});

}  // namespace forethought
