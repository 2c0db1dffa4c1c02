// Lanes: in-order queues of steps that run at the same time, and what a device does to have some.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "base/buffer.h"
#include "base/status.h"
#include "kernel_api/run_ctx.h"
#include "tensor/type.h"

namespace forethought {

// The executor's side of a run, for the lanes that serve it. Any thread may call it; no call blocks for long or fails.
class LaneRun {
 public:
  virtual ~LaneRun() = default;
  // What a lane was given before record(notification) is over, its writes are visible, and it reads its inputs no more.
  // To be called once for each record(), also when the run is ending.
  virtual void reached(int32_t notification) = 0;
  // A step that had been launched failed; the run ends with the error of the first such step of the program.
  virtual void failed(int32_t step, Status status) = 0;
  // For profiles; may be left out. Times of the steady clock.
  virtual void ran(int32_t step, int64_t begin_ns, int64_t end_ns) = 0;
  // The run was cancelled or has failed: kernels that have not begun are to be left out.
  virtual bool ending() const = 0;
};

// One step, ready to run: its arguments are bound to addresses.
struct LaneStep {
  int32_t step = 0;  // its place in the program
  const Runnable* runnable = nullptr;
  RunCtx* ctx = nullptr;  // stays, with all its addresses, until the lane was drained
};

// One queue, used by one run at a time. The executor calls it from one thread at a time, not always the same one. What
// is given to it happens in that order; at once, or later on a thread or a device of its own. The bytes that a step
// reads and writes, host memory too, stay in place until a notification recorded behind it is reached or the lane is
// drained.
class LaneDriver {
 public:
  virtual ~LaneDriver() = default;  // it was drained
  // A run begins; `run` stays until drain() has returned.
  virtual Status begin(LaneRun& run) = 0;
  // Queues a step. An error is one of queueing: the run ends with it.
  virtual Status launch(const LaneStep& step) = 0;
  // Queues run.reached(notification).
  virtual Status record(int32_t notification) = 0;
  // Whether the queue itself can wait for what `from` (a lane of any device) records. If not, the host gives it more
  // only when the notification was reached. Always the same answer.
  virtual bool can_wait_for(const LaneDriver& from) const = 0;
  // Queues a wait for a notification of such a lane. Called only after from.record() returned, so queues never wait in
  // a circle.
  virtual Status wait(int32_t notification, LaneDriver& from) = 0;
  // The run is ending: what was queued and has not begun may be left out. Told to all lanes before one is drained,
  // since a queue that waits for another ends only with it.
  virtual void drop() {}
  // Ends the run, also after an error: returns when nothing that was queued is under way or still to come, so that the
  // memory of the run may go. Failures of steps were told to the run before; this one tells of the queue itself.
  virtual Status drain() = 0;
};

// A device that runs steps in lanes of its own, with memory of its own. Outlives every executor that uses it. Thread
// safe.
class LaneDevice {
 public:
  struct Block {
    void* data = nullptr;  // an address of the device, aligned to 64 bytes at least; the host must not follow it
    int64_t bytes = 0;     // at least what was asked for
    BufferRef owner;       // the block goes back when the last copy is gone
  };
  virtual ~LaneDevice() = default;
  virtual Device device() const = 0;
  // For the planned values of one run, at whose end it is given back: a device keeps such blocks for the next run, and
  // counts and limits them as its user says. `who` names the user in an error: "the execution slab".
  virtual StatusOr<Block> allocate(int64_t bytes, std::string_view who) = 0;
  // Gives blocks that are kept for the next run back; returns their bytes.
  virtual int64_t trim() { return 0; }
  // How many lanes may be open for one run.
  virtual int lanes() const = 0;
  // A queue for lane number 0 <= lane < lanes() of one run. Queues of several runs may share one stream.
  virtual StatusOr<std::unique_ptr<LaneDriver>> open(int lane) = 0;
};

}  // namespace forethought
