#include "session/device_lanes.h"

#include <algorithm>

namespace forethought {
namespace {

// The lanes of one device.
struct Lanes {
  int32_t first = 0;
  std::vector<StepNo> tail;    // by lane: its last step
  std::vector<int32_t> steps;  // by lane: how many it has
};

}  // namespace

std::vector<int32_t> add_device_lanes(PlanProblem& problem, std::span<const int32_t> step_device,
                                      const DeviceSet& devices) {
  std::vector<int32_t> lane_device(static_cast<size_t>(problem.lanes), -1);
  std::vector<Lanes> lanes(devices.drivers().size());
  for (size_t d = 0; d < lanes.size(); ++d) {
    if (std::ranges::find(step_device, static_cast<int32_t>(d)) == step_device.end()) continue;
    const int count = std::max(1, devices.drivers()[d]->lanes());
    lanes[d] = {problem.lanes, std::vector<StepNo>(static_cast<size_t>(count), kNoId),
                std::vector<int32_t>(static_cast<size_t>(count))};
    problem.lanes += count;
    lane_device.insert(lane_device.end(), static_cast<size_t>(count), static_cast<int32_t>(d));
  }
  std::vector<StepNo> writer(problem.values.size(), kNoId);
  for (size_t s = 0; s < problem.steps.size(); ++s) {
    PlanStep& step = problem.steps[s];
    for (const ValueNo v : step.writes) writer[v] = static_cast<StepNo>(s);
    if (step_device[s] < 0) continue;
    Lanes& own = lanes[step_device[s]];
    StepNo latest = kNoId;  // that it reads from and that ends a lane
    for (const ValueNo v : step.reads)
      if (writer[v] != kNoId && std::ranges::find(own.tail, writer[v]) != own.tail.end())
        latest = std::max(latest, writer[v]);
    const auto at = latest != kNoId ? std::ranges::find(own.tail, latest) - own.tail.begin()
                                    : std::ranges::min_element(own.steps) - own.steps.begin();
    step.lane = own.first + static_cast<int32_t>(at);
    own.tail[at] = static_cast<StepNo>(s);
    ++own.steps[at];
  }
  return lane_device;
}

}  // namespace forethought
