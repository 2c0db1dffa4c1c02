// What the runtime asks of a device: memory of its own, copies, in-order streams of work, and events that order them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/buffer.h"
#include "base/status.h"
#include "kernel_api/run_ctx.h"
#include "tensor/type.h"

namespace forethought {

class MemoryBudget;

struct AllocatorStatistics {
  int64_t live = 0;         // bytes of blocks that are out, as they were asked for
  int64_t peak = 0;         // the most that `live` was
  int64_t live_blocks = 0;  // blocks that are out
  int64_t allocations = 0;  // blocks ever given
};

// The memory of one device. Thread safe.
class DeviceAllocator {
 public:
  virtual ~DeviceAllocator() = default;
  virtual Device device() const = 0;
  virtual size_t alignment() const = 0;  // of every block; a power of two, 64 at least
  // Bytes of the largest block that there can be; 0: no such bound is known. Plans that need more are made of regions.
  virtual int64_t greatest_block() const { return 0; }
  // `bytes` is positive; contents undefined. `who` names the user in an error: "the slab".
  virtual StatusOr<void*> allocate(int64_t bytes, std::string_view who) = 0;
  // Null is allowed. The caller knows that no queued work uses the block.
  virtual void free(void* block) = 0;
  virtual AllocatorStatistics statistics() const = 0;
};

// Bytes to be copied. The addresses are those that the devices' allocators gave (or lie inside such blocks); the host's
// are any.
struct CopyJob {
  const void* from = nullptr;
  Device from_device;
  void* to = nullptr;
  Device to_device;
  int64_t bytes = 0;
};

class DeviceStream;

// A mark in a stream's work. Made by a stream, which must outlive it; may be recorded any number of times, one thread
// at a time. Waiting for an event that was never recorded returns at once; later records do not concern a wait that has
// begun.
class DeviceEvent {
 public:
  virtual ~DeviceEvent() = default;
  // Puts the mark behind all that the stream has been given so far.
  virtual Status record() = 0;
  // Work given to `stream` from now on starts when the mark is reached. `stream` may be of another device only if that
  // device says so (DeviceDriver::can_wait); the call itself does not block.
  virtual Status wait_on_stream(DeviceStream& stream) = 0;
  // Returns when the mark is reached: with the error of the stream if work before it failed, else ok.
  virtual Status wait_on_host() = 0;
};

// Work that a device does in order, apart from the threads that give it. One thread at a time gives work and waits.
// An error that the device meets in one piece of work ends the stream's work: what comes after it in the stream is
// dropped, its events are reached with that error, streams that wait for those events meet the same error, and wait()
// returns it once; then the stream is clean again.
class DeviceStream {
 public:
  virtual ~DeviceStream() = default;  // drops what has not begun and waits for the rest
  virtual Device device() const = 0;
  virtual void* handle() const { return nullptr; }  // what the device's own library calls the stream

  virtual StatusOr<std::unique_ptr<DeviceEvent>> create_event() = 0;
  // One of both ends is this device. A host address is read or written when the stream comes to it: until then it must
  // stay valid, and its bytes as they are. Errors that arguments tell are returned here, others by wait().
  virtual Status copy(const CopyJob& job) = 0;
  // Runs one kernel with addresses of this device; addresses of the host are left as they are, for inputs that a kernel
  // reads there. All that `ctx` points to, `kernel` too, must stay valid until the stream has done it; `ctx` itself and
  // its lists of arguments are copied.
  virtual Status launch(const Runnable& kernel, const RunCtx& ctx) = 0;
  // Calls f(with, status) on some thread when all that was given so far is done (ok) or dropped (the error). Always
  // called, once. It must not block, nor call the stream.
  virtual Status call(void (*f)(void* with, const Status& status), void* with) = 0;
  // Keeps a host buffer alive until all that was given so far is done.
  virtual Status keep(BufferRef buffer) = 0;
  // Makes sure that all that was given will be begun without another call. Does not wait.
  virtual Status flush() = 0;
  // Drops what has not begun, as far as the device can: a cancelled run's work. If something may have been dropped,
  // wait() returns `why`, unless an error came before it.
  virtual void drop_pending(Status why) = 0;
  // Returns when all that was given is done or dropped: ok or the first error. No kept buffer remains.
  virtual Status wait() = 0;
};

// One device, shared by all sessions of a process. Thread safe.
class DeviceDriver {
 public:
  virtual ~DeviceDriver() = default;
  virtual Device device() const = 0;
  virtual DeviceAllocator& allocator() = 0;
  // How many streams do work side by side to advantage; the planner makes no more lanes.
  virtual int lanes() const { return 1; }
  virtual StatusOr<std::unique_ptr<DeviceStream>> create_stream() = 0;
  // Whether copy() and streams of this device take such a pair. Each device copies from and to the host.
  virtual bool can_copy(Device from, Device to) const = 0;
  // Whether streams of this device can wait for events of that one; if not, the host waits in between.
  virtual bool can_wait(Device other) const { return other == device(); }
  // Returns when the bytes are there. Work in streams is neither waited for nor ordered.
  virtual Status copy(const CopyJob& job) = 0;
};

// A device, and the account that pays for what is taken there; null stands for the device's own (device/account.h).
struct DeviceUse {
  explicit DeviceUse(std::shared_ptr<DeviceDriver> driver, std::shared_ptr<MemoryBudget> account = nullptr);
  std::shared_ptr<DeviceDriver> driver;
  std::shared_ptr<MemoryBudget> account;
};

// The devices that a session has beside the host: who copies between two of them, and who pays for memory there.
class DeviceSet {
 public:
  // A device that is there already is left as it is.
  void add(DeviceUse device);
  bool empty() const { return drivers_.empty(); }
  std::span<const std::shared_ptr<DeviceDriver>> drivers() const { return drivers_; }
  DeviceUse use(size_t place) const { return DeviceUse(drivers_[place], accounts_[place]); }  // of drivers()[place]
  MemoryBudget& account(size_t place) const { return *accounts_[place]; }
  // Its place among drivers(); -1 for the host, and for devices whose memory the host works with as with its own.
  int32_t place_of(Device device) const;
  // The driver there; null: none.
  DeviceDriver* find(Device device) const;
  std::optional<DeviceUse> use(Device device) const;
  // The driver that takes the pair, or null.
  DeviceDriver* copier(Device from, Device to) const;
  // Copies and returns when the bytes are there; through the host where nobody takes the pair.
  Status copy(const CopyJob& job) const;

 private:
  std::vector<std::shared_ptr<DeviceDriver>> drivers_;
  std::vector<std::shared_ptr<MemoryBudget>> accounts_;
};

// What is wrong with a job, whatever the devices: a negative size, bytes without an address.
Status check_copy(const CopyJob& job);

}  // namespace forethought
