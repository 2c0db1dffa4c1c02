#include "exec/lanes.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <new>
#include <utility>

namespace forethought {
namespace {

// What f says; that it found no memory, if that is thrown: lanes run where no exception may leave.
template <typename F>
Status told(F&& f) {
  try {
    return f();
  } catch (const std::bad_alloc&) {
    return exhausted("the system has no more memory to queue work");
  }
}

// About 50 microseconds: what a thread's sleep and waking cost.
constexpr int kSpins = 2000;
// How soon a sleeping run hears of a cancel, which comes as a flag and wakes nobody.
constexpr auto kCancelPoll = std::chrono::milliseconds(5);

void pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

// The CPU's lanes: a step is over when launch() returns.
class Lanes::HostLane final : public LaneDriver {
 public:
  explicit HostLane(Lanes& lanes) : lanes_(lanes) {}
  Status begin(LaneRun&) override { return absl::OkStatus(); }
  Status launch(const LaneStep& step) override { return lanes_.host_steps_.run_step(step.step); }
  Status record(int32_t notification) override {
    lanes_.count_down(lanes_.on_reached_[notification], true);
    return absl::OkStatus();
  }
  bool can_wait_for(const LaneDriver&) const override { return false; }
  Status wait(int32_t, LaneDriver&) override { return internal("the CPU's lanes cannot wait by themselves"); }
  Status drain() override { return absl::OkStatus(); }

 private:
  Lanes& lanes_;
};

Lanes::Lanes(const ExecEnvironment& environment, const Program& program, HostSteps& steps)
    : program_(program), host_steps_(steps), crew_(*environment.pool, *this, std::max(program.lanes, 1)) {
  built_ = build(environment);
}

Lanes::~Lanes() = default;

Status Lanes::build(const ExecEnvironment& environment) {
  const auto lanes = static_cast<size_t>(program_.lanes);
  lanes_.resize(lanes);
  woken_lanes_.reserve(lanes);
  std::vector<int> opened(environment.devices.size());
  for (size_t l = 0; l < lanes; ++l) {
    const int32_t d = l < program_.lane_device.size() ? program_.lane_device[l] : -1;
    if (d < 0) {
      lanes_[l].driver = std::make_unique<HostLane>(*this);
      continue;
    }
    if (static_cast<size_t>(d) >= environment.devices.size())
      return internal(fmt::format("lane {} is of device {}, of {}", l, d, environment.devices.size()));
    ASSIGN_OR_RETURN(lanes_[l].driver, environment.devices[d]->open(opened[d]++));
    lanes_[l].on_host = false;
    devices_ = true;
  }
  waits_.resize(program_.steps.size());
  missing_ = std::make_unique<std::atomic<int32_t>[]>(program_.steps.size());
  on_recorded_.resize(program_.notifications);
  on_reached_.resize(program_.notifications + lanes);  // behind them one for the end of each lane
  signaller_.assign(program_.notifications, -1);
  for (size_t s = 0; s < program_.steps.size(); ++s) {
    const ProgramStep& step = program_.steps[s];
    if (step.lane < 0 || static_cast<size_t>(step.lane) >= lanes)
      return internal(fmt::format("step {} is on lane {} of {}", step.name, step.lane, lanes));
    RETURN_IF_ERROR(add_waits(static_cast<int32_t>(s)));
    for (const int32_t n : step.extras->signals) {
      if (n < 0 || n >= program_.notifications || signaller_[n] >= 0)
        return internal(fmt::format("step {} gives notification {}, which is unknown or given twice", step.name, n));
      signaller_[n] = step.lane;
    }
    lanes_[step.lane].steps.push_back(static_cast<int32_t>(s));
  }
  return absl::OkStatus();
}

Status Lanes::add_waits(int32_t s) {
  const ProgramStep& step = program_.steps[s];
  Lane& own = lanes_[step.lane];
  for (const int32_t n : step.extras->waits) {
    if (n < 0 || n >= program_.notifications || signaller_[n] < 0)
      return internal(fmt::format("step {} waits for notification {}, which no earlier step gives", step.name, n));
    if (signaller_[n] == step.lane) continue;
    Lane& from = lanes_[signaller_[n]];
    if (!from.on_host && !own.on_host && own.driver->can_wait_for(*from.driver)) {
      on_recorded_[n].push_back(s);
      waits_[s].enqueue.push_back(n);
    } else {
      on_reached_[n].push_back(s);
    }
    ++waits_[s].count;
  }
  if (waits_[s].count > 0) ++waits_[s].count;
  return absl::OkStatus();
}

Status Lanes::run(const std::vector<LaneStep>& ready, const std::atomic<bool>& cancel) {
  RETURN_IF_ERROR(built_);
  if (Status status = told([&] { return start(ready, cancel); }); !status.ok()) failed(-1, std::move(status));
  const auto run_tasks = [&] {
    crew_.run();
    return absl::OkStatus();
  };
  do {
    if (Status status = told(run_tasks); !status.ok()) failed(-1, std::move(status));
  } while (await_devices());
  await_ends();
  if (ending())
    for (Lane& lane : lanes_)
      if (lane.begun) lane.driver->drop();
  for (Lane& lane : lanes_) {
    if (!lane.begun) continue;
    if (Status status = told([&] { return lane.driver->drain(); }); !status.ok()) failed(-1, std::move(status));
    lane.begun = false;
  }
  return result();
}

Status Lanes::start(const std::vector<LaneStep>& ready, const std::atomic<bool>& cancel) {
  ready_ = &ready;
  cancel_ = &cancel;
  for (size_t s = 0; s < waits_.size(); ++s) missing_[s].store(waits_[s].count, std::memory_order_relaxed);
  ended_.store(false, std::memory_order_relaxed);
  cancelled_.store(false, std::memory_order_relaxed);
  outstanding_.store(0, std::memory_order_relaxed);
  woken_.store(0, std::memory_order_relaxed);
  woken_lanes_.clear();
  failure_ = absl::OkStatus();
  failed_step_ = stopped_step_ = -1;
  int32_t left = 0;
  for (Lane& lane : lanes_) {
    lane.next = 0;
    lane.counted = false;
    left += !lane.steps.empty();
  }
  lanes_left_.store(left, std::memory_order_relaxed);
  for (Lane& lane : lanes_) {
    RETURN_IF_ERROR(lane.driver->begin(*this));
    lane.begun = true;
  }
  for (size_t l = 0; l < lanes_.size(); ++l) {
    Lane& lane = lanes_[l];
    if (lane.steps.empty()) continue;
    const int32_t s = lane.steps.front();
    if (waits_[s].count == 0) {
      crew_.add(static_cast<int>(l));
    } else {
      lane.counted = true;
      missing_[s].store(waits_[s].count - 1, std::memory_order_relaxed);
    }
  }
  return absl::OkStatus();
}

// Continues a lane until it has to wait, is through, or the run ends.
void Lanes::run_task(int l) noexcept {
  Lane& lane = lanes_[l];
  for (; lane.next < lane.steps.size(); ++lane.next) {
    const int32_t s = lane.steps[lane.next];
    if (waits_[s].count > 0 && !lane.counted) {
      lane.counted = true;  // before the count, from which on another thread may continue the lane
      if (missing_[s].fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    }
    lane.counted = false;
    if (ending()) return stop_before(s);
    if (Status status = advance(lane, s); !status.ok()) return failed(s, std::move(status));
    if (woken_.load(std::memory_order_relaxed) == 0) continue;
    if (Status status = told([&] { return hand_over_woken(), absl::OkStatus(); }); !status.ok())
      return failed(-1, std::move(status));
  }
  lanes_left_.fetch_sub(1, std::memory_order_acq_rel);
}

Status Lanes::advance(Lane& lane, int32_t s) {
  const ProgramStep& step = program_.steps[s];
  for (const int32_t n : waits_[s].enqueue)
    RETURN_IF_ERROR(told([&] { return lane.driver->wait(n, *lanes_[signaller_[n]].driver); }));
  RETURN_IF_ERROR(told([&] { return lane.driver->launch((*ready_)[s]); }));
  for (const int32_t n : step.extras->signals) {
    if (lane.on_host) {
      RETURN_IF_ERROR(told([&] { return lane.driver->record(n); }));
      continue;
    }
    outstanding_.fetch_add(1, std::memory_order_acq_rel);
    if (Status status = told([&] { return lane.driver->record(n); }); !status.ok()) {
      outstanding_.fetch_sub(1, std::memory_order_acq_rel);
      return status;
    }
    RETURN_IF_ERROR(told([&] { return count_down(on_recorded_[n], true), absl::OkStatus(); }));
  }
  return absl::OkStatus();
}

// In a task of the crew, lanes that may go on become tasks at once; elsewhere (with the lock held) they are noted.
void Lanes::count_down(const std::vector<int32_t>& steps, bool in_task) {
  for (const int32_t s : steps) {
    if (missing_[s].fetch_sub(1, std::memory_order_acq_rel) != 1) continue;
    const int32_t lane = program_.steps[s].lane;
    if (in_task) {
      crew_.add(lane);
    } else {
      woken_lanes_.push_back(lane);
      woken_.fetch_add(1, std::memory_order_release);
    }
  }
}

// Makes the lanes that devices woke tasks; false if there are none.
bool Lanes::hand_over_woken() {
  const std::lock_guard lock(mutex_);
  const bool any = !woken_lanes_.empty();
  for (const int32_t lane : woken_lanes_) crew_.add(lane);
  woken_lanes_.clear();
  woken_.store(0, std::memory_order_relaxed);
  return any;
}

// When no task is left: waits until a device lets a lane go on. False if none will.
bool Lanes::await_devices() {
  for (int i = 0; devices_ && i < kSpins; ++i) {
    if (woken_.load(std::memory_order_relaxed) > 0 || ending() || lanes_left_.load(std::memory_order_relaxed) == 0)
      break;
    pause();
  }
  {
    std::unique_lock lock(mutex_);
    while (woken_lanes_.empty()) {
      if (ending() || lanes_left_.load(std::memory_order_acquire) == 0) return false;
      if (outstanding_.load(std::memory_order_acquire) == 0) {
        failure_ = internal("its lanes wait for notifications that nobody is going to give");
        return false;
      }
      changed_.wait_until(lock, std::chrono::system_clock::now() + kCancelPoll);
    }
  }
  return hand_over_woken();
}

// Waits until the queues of devices are through, or the run ends: drain() itself hears of no cancel that comes later.
void Lanes::await_ends() {
  for (size_t l = 0; l < lanes_.size() && !ending(); ++l) {
    if (lanes_[l].on_host || lanes_[l].steps.empty()) continue;
    outstanding_.fetch_add(1, std::memory_order_acq_rel);
    Status status = told([&] { return lanes_[l].driver->record(program_.notifications + static_cast<int32_t>(l)); });
    if (status.ok()) continue;
    outstanding_.fetch_sub(1, std::memory_order_acq_rel);
    failed(-1, std::move(status));
  }
  if (!devices_) return;
  std::unique_lock lock(mutex_);
  while (!ending() && outstanding_.load(std::memory_order_acquire) > 0)
    changed_.wait_until(lock, std::chrono::system_clock::now() + kCancelPoll);
}

void Lanes::reached(int32_t notification) {
  const std::lock_guard lock(mutex_);
  count_down(on_reached_[notification], false);
  outstanding_.fetch_sub(1, std::memory_order_acq_rel);
  changed_.notify_all();
}

void Lanes::failed(int32_t step, Status status) {
  const std::lock_guard lock(mutex_);
  if (failure_.ok() || failed_step_ < 0 || (step >= 0 && step < failed_step_)) {
    failure_ = std::move(status);
    failed_step_ = step;
  }
  ended_.store(true, std::memory_order_release);
  changed_.notify_all();
}

void Lanes::stop_before(int32_t step) {
  if (!cancelled_.load(std::memory_order_relaxed)) return;
  const std::lock_guard lock(mutex_);
  if (stopped_step_ < 0 || step < stopped_step_) stopped_step_ = step;
}

bool Lanes::ending() const {
  if (ended_.load(std::memory_order_acquire) || cancelled_.load(std::memory_order_relaxed)) return true;
  if (!cancel_->load(std::memory_order_relaxed)) return false;
  cancelled_.store(true, std::memory_order_relaxed);
  return true;
}

Status Lanes::result() const {
  if (!failure_.ok() || !cancelled_.load(std::memory_order_relaxed)) return failure_;
  if (stopped_step_ < 0) return cancelled("the run was cancelled");
  return cancelled(fmt::format("the run was cancelled before node {}", program_.steps[stopped_step_].name));
}

}  // namespace forethought
