// Which lanes the steps of devices run on.
#pragma once

#include <span>
#include <vector>

#include "device/device.h"
#include "plan/problem.h"

namespace forethought {

// Puts the steps of devices (`step_device`: a place in `devices`, -1: the host) on lanes behind those that the problem
// has, as many as a device says; the others stay where they are. A step goes on behind what it reads where that is the
// last of its lane, else to the lane with the fewest steps. Returns the device of each lane, -1 for the host's.
std::vector<int32_t> add_device_lanes(PlanProblem& problem, std::span<const int32_t> step_device,
                                      const DeviceSet& devices);

}  // namespace forethought
