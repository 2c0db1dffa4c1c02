// A device made of threads: an address space that the host cannot touch, asynchronous in-order streams with injected
// delays and errors, an allocator, copies and events. What real devices ask of the runtime shows on it without one.
#pragma once

#include <atomic>
#include <functional>
#include <memory>

#include "device/device.h"

namespace forethought {

struct SimDeviceOptions {
  uint16_t index = 0;                      // of its Device; two devices differ in it
  int64_t memory = int64_t{64} << 20;      // bytes; taken from the system only where touched
  int64_t greatest_block = 0;              // no larger one is given; 0: memory is the bound
  int lanes = 1;                           // streams that work side by side
  int max_delay_us = 0;                    // each piece of work first sleeps for up to that long
  uint32_t seed = 1;                       // of the delays
  bool waits_for_other_devices = false;    // its streams can wait for events of other simulated devices
  bool copies_from_other_devices = false;  // and copy from them without the host
};

// All figures of one moment.
struct SimDeviceCounts {
  int64_t launches = 0, copies = 0, copied_bytes = 0;  // done by streams
  int64_t synchronous_copies = 0;                      // done by DeviceDriver::copy
  int64_t host_inputs = 0;                             // inputs of kernels that lie on the host
  int64_t event_waits = 0;                             // of streams for events
  int64_t host_waits = 0;                              // of the host, for events and streams
  int64_t streams = 0;                                 // that exist
  int64_t kept_buffers = 0;                            // host buffers that wait for their stream
  int64_t freed_in_use = 0;                            // blocks that were freed while a stream had work
};

// Memory is a file in memory, mapped twice: once without any right, at the addresses that are handed out (a host access
// ends the process with SIGSEGV), once writable, which the device's own threads translate to. Fresh and freed blocks
// are filled with 0xcd and 0xdd.
class SimDevice : public DeviceDriver {
 public:
  // Fails where the system has no memory for it.
  static StatusOr<std::shared_ptr<SimDevice>> make(const SimDeviceOptions& options = {});

  // Holds all streams before their next piece of work, until resumed: what is asynchronous shows without a clock.
  virtual void pause() = 0;
  virtual void resume() = 0;
  // Lets the n-th piece of work (launch or copy of a stream) from now on fail; 1 is the next, 0 none.
  virtual void fail_work(int64_t nth) = 0;
  // Lets the n-th allocation from now on fail; 1 is the next, 0 none.
  virtual void fail_allocation(int64_t nth) = 0;
  // Lets the n-th create_stream from now on fail; 1 is the next, 0 none.
  virtual void fail_stream(int64_t nth) = 0;
  // Called on the device's thread before each piece of work with its number since the start; empty: not.
  virtual void on_work(std::function<void(int64_t number)> call) = 0;
  virtual SimDeviceCounts counts() const = 0;
  virtual bool owns(const void* address) const = 0;
};

}  // namespace forethought
