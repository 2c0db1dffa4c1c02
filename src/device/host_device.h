// The CPU as a device: the host's memory, copies at once, and streams that do each piece of work when it is given.
#pragma once

#include <memory>

#include "device/device.h"

namespace forethought {

std::shared_ptr<DeviceDriver> make_host_device();

}  // namespace forethought
