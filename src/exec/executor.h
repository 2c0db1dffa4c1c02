// Runs programs: binds a run's inputs and outputs to a pooled frame and walks the steps.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "exec/profile.h"
#include "exec/program.h"
#include "exec/turns.h"
#include "kernel_api/lane.h"
#include "memory/block_pool.h"
#include "memory/slab_pool.h"
#include "threading/pool.h"

namespace forethought {

class Frame;

// Payload that went from one place to another as it is: copies of the executor's own, and those that steps report.
class CopyCounter {
 public:
  void add(int64_t bytes) {
    copies_.fetch_add(1, std::memory_order_relaxed);
    bytes_.fetch_add(bytes, std::memory_order_relaxed);
  }
  int64_t copies() const { return copies_.load(std::memory_order_relaxed); }
  int64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> copies_{0}, bytes_{0};
};

// What an executor works with; everything is borrowed but the budget. The pools may be gone before outputs are.
struct ExecEnvironment {
  Pool* pool = nullptr;
  IoPool* io = nullptr;                  // outputs of runs
  SideArena* side = nullptr;             // sizes unknown until run, elements of objects, outputs of bodies
  std::shared_ptr<MemoryBudget> budget;  // slabs
  PageOptions slab_options;
  std::vector<LaneDevice*> devices;           // those that programs name, beside the host
  std::shared_ptr<MemorySource> slab_source;  // null: pages of the system
  CopyCounter* copies = nullptr;              // null: not counted; an Executor sets its own
  SlabPool* slabs = nullptr;  // of bodies that have no place in their parent's; an Executor sets its own
};

struct ExecOptions {
  const std::atomic<bool>* cancel =
      nullptr;                // looked at before each step (CancelFlag::raw()); null: cannot be cancelled
  StepSink* sink = nullptr;   // null: one branch a step
  bool* oversized = nullptr;  // set where memory was refused to a run whose slabs were larger than it needs
  const std::atomic<bool>* ahead = nullptr;  // the executor's: streamed weights are asked for a step ahead
};

// One for a session; thread safe. Any number of runs may be under way, each in a frame of its own. A frame keeps, for
// one program, the resolved arguments of all steps; idle frames and slabs are kept for the next run. A repeated run of
// a program does no heap work and no system call of ours (heap-held values such as strings and sequences apart).
class Executor {
 public:
  explicit Executor(ExecEnvironment environment);
  ~Executor();  // no run may be under way
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // Runs `program` once on the calling thread and the pool; its lanes at the same time. Returns when all lanes are
  // drained, also after an error or a cancel. inputs: in the order of program->inputs, of
  // the types and shapes that the program was planned for, elements aligned to their size; borrowed until the call
  // returns, never written. outputs: in the order of program->outputs. Each may come in as a tensor with memory of the
  // right type and number of bytes: the result is written there. Otherwise it is set to a tensor with leased memory, or
  // to an object. After an error the outputs that came in without memory are none.
  Status run(const std::shared_ptr<const Program>& program, std::span<const Value> inputs, std::span<Value> outputs,
             const ExecOptions& options = {});

  // Gives idle slabs back, those used longest ago first, until at most `keep` bytes are kept; with 0 idle frames go,
  // too, and what devices keep. Returns the bytes of the host that went. Runs under way keep theirs, but for what they
  // took to read weights a step ahead, which is not counted.
  int64_t trim(int64_t keep = 0);
  int64_t retained_bytes() const { return slabs_.idle_bytes(); }
  // How much of what runs give back is kept: of slabs here, of outputs in the I/O pool. At once gives back what is
  // over. kRetainPlanned: see RetentionCaps.
  void set_retention(int64_t execution, int64_t io);

  // How much is kept at most, and what that follows from unless it was set. With `slabs` and `outputs`: once a run that
  // takes so many bytes of them was over.
  struct Caps {
    int64_t execution = 0, io = 0;
    int64_t slabs = 0;    // bytes that one run takes
    int64_t outputs = 0;  // bytes that one run hands out, or those whose shapes come by turns
    int runs = 1;         // at once
    bool execution_is_set = false, io_is_set = false;
  };
  Caps caps(int64_t slabs = 0, int64_t outputs = 0) const;

  // Of all runs so far.
  const CopyCounter& copies() const { return copies_; }

 private:
  class Window;
  Status run_resident(const std::shared_ptr<const Program>& program, std::span<const Value> inputs,
                      std::span<Value> outputs, const ExecOptions& options);
  struct Resources {
    std::unique_ptr<Frame> frame;
    std::unique_ptr<Slab> slab;
  };
  StatusOr<Resources> acquire(const std::shared_ptr<const Program>& program);
  void release(const std::shared_ptr<const Program>& program, Resources resources, int64_t io);
  Caps caps_for(int64_t slabs, int64_t outputs) const;  // needs the lock
  void set_caps();                                      // by what was seen so far; needs the lock

  void give_ahead_back();

  CopyCounter copies_;
  SlabPool slabs_;
  const ExecEnvironment environment_;
  mutable Mutex mutex_;
  int64_t execution_cap_ = kRetainPlanned, io_cap_ = kRetainPlanned;
  int64_t most_slabs_ = 0;                           // bytes of the slabs of one run, those of bodies included
  int64_t most_io_ = 0;                              // bytes of I/O blocks that one run read and handed out
  Turns turns_;                                      // the same of runs that come by turns
  int runs_ = 0, most_runs_ = 1;                     // under way at once
  std::vector<std::unique_ptr<Frame>> idle_frames_;  // most recently used last
  Mutex windows_mutex_;
  Window* windows_ = nullptr;  // of runs under way that stream weights, as a list
};

}  // namespace forethought
