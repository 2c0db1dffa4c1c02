// Lanes for the executor, made of a device's streams and events.
#pragma once

#include <memory>

#include "device/device.h"
#include "kernel_api/lane.h"

namespace forethought {

// The kernel of a step that copies input 0 to output 0 between two devices. Only lanes made here know how; it cannot be
// run by itself.
class DeviceCopy final : public Runnable {
 public:
  DeviceCopy(Device from, Device to) : from_(from), to_(to) {}
  Status run(RunCtx& ctx) const override;
  CopyJob job(const RunCtx& ctx) const;

 private:
  Device from_, to_;
};

// Blocks come from the driver's allocator, each lane is a stream. Both are kept when they come back: blocks until
// trim() or until the allocator has no more, streams for the next lane that is opened.
class StreamLanes : public LaneDevice {
 public:
  virtual DeviceDriver& driver() = 0;
  virtual int64_t retained_bytes() const = 0;
};
std::shared_ptr<StreamLanes> make_stream_lanes(std::shared_ptr<DeviceDriver> driver);

}  // namespace forethought
