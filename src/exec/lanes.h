// The lanes of one frame: what each runs in order, what its steps wait for, and a run of all of them.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "exec/executor.h"
#include "exec/program.h"
#include "kernel_api/lane.h"
#include "threading/crew.h"

namespace forethought {

// Built once for a frame and reset for each run. A step that waits counts down what is missing; whoever brings the
// count to zero continues its lane, so no thread of the pool ever waits for another. Only the thread that runs the
// frame waits, for lanes of devices: it spins for some microseconds and then sleeps.
class Lanes final : public LaneRun, private Crew::Work {
 public:
  // Runs the steps of host lanes; each lane's in order, those of different lanes at the same time. No exceptions.
  class HostSteps {
   public:
    virtual ~HostSteps() = default;
    virtual Status run_step(int32_t step) noexcept = 0;
    virtual void step_ran(int32_t step, int64_t begin_ns, int64_t end_ns) noexcept = 0;  // on a device's lane
  };

  // `program` and `steps` outlive this.
  Lanes(const ExecEnvironment& environment, const Program& program, HostSteps& steps);
  ~Lanes() override;

  // Whether the program's lanes and notifications make sense and all its lanes could be opened; else no run may begin.
  const Status& built() const { return built_; }
  // `ready` holds, by step, what device lanes get to launch; host lanes call HostSteps. Returns when every lane is
  // drained, after an error too. Of several errors it is the one of the first step, and where() is that step; of a
  // cancel, where() is the first step that did not run. -1: no one step.
  Status run(const std::vector<LaneStep>& ready, const std::atomic<bool>& cancel);
  int32_t where() const { return failure_.ok() ? stopped_step_ : failed_step_; }

  // LaneRun, for devices.
  void reached(int32_t notification) override;
  void failed(int32_t step, Status status) override;
  void ran(int32_t step, int64_t begin_ns, int64_t end_ns) override { host_steps_.step_ran(step, begin_ns, end_ns); }
  bool ending() const override;

 private:
  class HostLane;
  struct Lane {
    std::unique_ptr<LaneDriver> driver;
    bool on_host = true;
    std::vector<int32_t> steps;
    // Of the run under way; of the thread that continues the lane.
    size_t next = 0;
    bool begun = false;    // to be drained
    bool counted = false;  // its own part of what the next step counts down
  };
  struct Waits {
    int32_t count = 0;             // with one for the lane's own arrival; 0: the step waits for nothing
    std::vector<int32_t> enqueue;  // notifications that the device's queue waits for by itself
  };

  Status build(const ExecEnvironment& environment);
  Status add_waits(int32_t step);
  Status start(const std::vector<LaneStep>& ready, const std::atomic<bool>& cancel);
  void run_task(int lane) noexcept override;
  Status advance(Lane& lane, int32_t step);
  void count_down(const std::vector<int32_t>& steps, bool in_task);
  bool await_devices();
  void await_ends();
  bool hand_over_woken();
  void stop_before(int32_t step);
  Status result() const;

  const Program& program_;
  HostSteps& host_steps_;
  Crew crew_;
  Status built_;
  std::vector<Lane> lanes_;
  std::vector<Waits> waits_;                       // by step
  std::vector<std::vector<int32_t>> on_recorded_;  // by notification: steps that wait until it is queued
  std::vector<std::vector<int32_t>> on_reached_;   // by notification: steps that wait until it is reached
  std::vector<int32_t> signaller_;                 // by notification: the lane that gives it
  bool devices_ = false;                           // some lane is a device's

  // Of the run under way.
  const std::vector<LaneStep>* ready_ = nullptr;
  const std::atomic<bool>* cancel_ = nullptr;
  std::unique_ptr<std::atomic<int32_t>[]> missing_;  // by step
  std::atomic<int32_t> lanes_left_{0};
  std::atomic<bool> ended_{false};
  std::atomic<int32_t> outstanding_{0};  // notifications queued on devices and not reached
  std::atomic<int32_t> woken_{0};        // how many woken_lanes_ has
  mutable std::atomic<bool> cancelled_{false};
  Mutex mutex_;  // guards what follows; never held while a step runs
  Condition changed_;
  std::vector<int32_t> woken_lanes_;  // may go on, but no thread of the crew knows yet
  Status failure_;
  int32_t failed_step_ = -1;   // -1 with an error: no step's
  int32_t stopped_step_ = -1;  // the first that a cancel kept from running
};

}  // namespace forethought
