// Lanes for the executor, made of a device's streams and events.
#pragma once

#include <memory>

#include "device/account.h"
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

// Blocks come from the driver's allocator, on the given account; each lane is a stream. Both are kept when they come
// back: streams for the next lane that is opened, blocks until trim(), until the allocator or the account has no more,
// and no more of them than the largest so far times the most that were out at once, and a quarter, those used longest
// ago going first.
class StreamLanes : public LaneDevice {
 public:
  virtual DeviceDriver& driver() = 0;
  virtual int64_t retained_bytes() const = 0;
};
std::shared_ptr<StreamLanes> make_stream_lanes(DeviceUse use);

}  // namespace forethought
