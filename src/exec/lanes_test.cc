// Lanes: results, overlap, errors and cancels at every step, lanes of an asynchronous device, and their draining.
#include "exec/lanes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <random>
#include <thread>

#include "exec/program_builder_for_tests.h"
#include "threading/cancel_flag.h"

namespace forethought {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Value floats(std::vector<float> v) { return tensor_of<float>({static_cast<int64_t>(v.size())}, v); }

// A device on this machine: each lane is a thread that does what it is given in order, after a delay.
class QueueLane final : public LaneDriver {
 public:
  explicit QueueLane(bool waits_by_itself) : waits_by_itself_(waits_by_itself), thread_([this] { serve(); }) {}
  ~QueueLane() override {
    push([this] { quit_ = true; });
    thread_.join();
  }
  Status begin(LaneRun& run) override {
    run_ = &run;
    given_.clear();  // every lane of the run before was drained
    return absl::OkStatus();
  }
  Status launch(const LaneStep& step) override {
    push([this, step] {
      if (run_->ending()) return;
      std::this_thread::sleep_for(std::chrono::microseconds(50));
      if (Status status = step.runnable->run(*step.ctx); !status.ok()) run_->failed(step.step, std::move(status));
    });
    return absl::OkStatus();
  }
  Status record(int32_t notification) override {
    push([this, notification] {
      {
        const std::lock_guard lock(given_mutex_);
        given_.push_back(notification);
      }
      given_changed_.notify_all();
      run_->reached(notification);
    });
    return absl::OkStatus();
  }
  bool can_wait_for(const LaneDriver& from) const override {
    return waits_by_itself_ && dynamic_cast<const QueueLane*>(&from);
  }
  Status wait(int32_t notification, LaneDriver& from) override {
    auto& lane = static_cast<QueueLane&>(from);
    push([notification, &lane] {
      std::unique_lock lock(lane.given_mutex_);
      lane.given_changed_.wait(lock, [&] { return std::ranges::count(lane.given_, notification) > 0; });
    });
    return absl::OkStatus();
  }
  Status drain() override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return queue_.empty() && !busy_; });
    return absl::OkStatus();
  }

 private:
  void push(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(work));
    changed_.notify_all();
  }
  void serve() {
    while (!quit_) {
      std::function<void()> work;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return !queue_.empty(); });
        work = std::move(queue_.front());
        queue_.pop_front();
        busy_ = true;
      }
      work();
      const std::lock_guard lock(mutex_);
      busy_ = false;
      changed_.notify_all();
    }
  }

  const bool waits_by_itself_;
  LaneRun* run_ = nullptr;
  bool quit_ = false, busy_ = false;
  std::mutex mutex_, given_mutex_;
  std::condition_variable changed_, given_changed_;
  std::deque<std::function<void()>> queue_;
  std::vector<int32_t> given_;
  std::thread thread_;
};

struct QueueDevice final : LaneDevice {
  explicit QueueDevice(bool waits) : waits_by_itself(waits) {}
  Device device() const override { return Device{DeviceKind::other, MemoryKind::device, 1}; }
  StatusOr<Block> allocate(int64_t bytes, std::string_view) override {
    auto memory = std::make_unique<std::vector<std::byte>>(bytes + 64);
    auto* const data = reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(memory->data()) + 63) / 64 * 64);
    ++blocks;
    return Block{data, bytes, hold(std::shared_ptr<void>(memory.release(), [this](void* p) {
                   delete static_cast<std::vector<std::byte>*>(p);
                   --blocks;
                 }))};
  }
  int lanes() const override { return 2; }
  StatusOr<std::unique_ptr<LaneDriver>> open(int) override {
    if (refuse) return unsupported("no lane is free");
    return std::make_unique<QueueLane>(waits_by_itself);
  }
  bool waits_by_itself, refuse = false;
  std::atomic<int> blocks{0};
};

// A random program in which step i adds two earlier values into its own; every read of another lane's value waits.
struct RandomProgram {
  ProgramBuilder b;
  std::vector<std::string> names;

  // Device lanes come first; `before` sees each step before it runs.
  RandomProgram(uint64_t number, int lanes, int device_lanes, std::function<Status(int step)> before = {}) {
    std::mt19937_64 random(number);
    const int steps = 12;
    const int32_t x = b.input("x", DType::kFloat, {2});
    std::vector<int32_t> values = {x}, producer = {-1};
    int64_t host = 0, device = 0;
    for (int s = 0; s < steps; ++s) {
      const int lane = static_cast<int>(random() % static_cast<uint64_t>(lanes));
      const bool last = s + 1 == steps, on_device = lane < device_lanes;
      int32_t y;
      if (last) {
        y = b.output("y", DType::kFloat, {2});
      } else {
        int64_t& offset = on_device ? device : host;
        y = b.slab(offset, DType::kFloat, {2});
        offset += 64;
        if (on_device) b.value(y).device = 0;
      }
      std::vector<int32_t> in;
      for (int i = 0; i < 2; ++i) {
        const size_t pick = last && i == 0 ? values.size() - 1 : random() % values.size();
        in.push_back(values[pick]);
        const int32_t from = producer[pick];
        auto& all = b.program().steps;
        if (from < 0 || all[from].lane == lane) continue;
        waits_of_next.push_back(b.program().notifications);
        all[from].extras.write().signals.push_back(b.program().notifications++);
      }
      names.push_back("s" + std::to_string(s) + " (Add)");
      ProgramStep& step = b.step(names.back(), in, {y}, [s, before](RunCtx& c) {
        if (before) RETURN_IF_ERROR(before(s));
        return add_f32(c);
      });
      step.lane = lane;
      step.extras.write().waits = waits_of_next;
      waits_of_next.clear();
      values.push_back(y);
      producer.push_back(s);
    }
    b.program().lanes = lanes;
    b.reserve_slab(host + 64);
    b.program().lane_device.assign(static_cast<size_t>(lanes), -1);
    for (int l = 0; l < device_lanes; ++l) b.program().lane_device[l] = 0;
    if (device_lanes > 0) b.program().device_slab_bytes = {device + 64};
  }
  absl::InlinedVector<int32_t, 4> waits_of_next;
};

std::vector<float> in_order(uint64_t number, int lanes) {
  RandomProgram r(number, lanes, 0);
  for (ProgramStep& step : r.b.program().steps)
    step.lane = 0, step.extras.write().waits.clear(), step.extras.write().signals.clear();
  r.b.program().lanes = 1;
  r.b.program().notifications = 0;
  TestExecutor e(1);
  return values_of<float>(e.run(r.b.done(), {floats({1, 3})}).value()[0]);
}

ExecEnvironment with_device(TestExecutor& e, LaneDevice& device) {
  ExecEnvironment environment{&e.pool, e.io.get(), e.side.get(), e.budget, {}, {}};
  environment.devices = {&device};
  return environment;
}

TEST(Lanes, A18_GiveWhatOneLaneGives) {
  for (const int threads : {1, 2, 4}) {
    TestExecutor e(threads);  // one for all: oneTBB's threads look into every pool that ended before they had a core
    for (uint64_t number = 0; number < 40; ++number) {
      for (const int lanes : {2, 4}) {
        const std::vector<float> expected = in_order(number, lanes);
        RandomProgram r(number, lanes, 0);
        for (int repeat = 0; repeat < 5; ++repeat)
          ASSERT_EQ(values_of<float>(e.run(r.b.done(), {floats({1, 3})}).value()[0]), expected)
              << "program " << number << ", " << lanes << " lanes, " << threads << " threads";
      }
    }
  }
}

TEST(Lanes, A45_DeviceLanesGiveWhatOneLaneGives) {
  for (const bool waits : {false, true}) {
    QueueDevice device(waits);
    TestExecutor e(2);
    Executor executor(with_device(e, device));
    for (uint64_t number = 0; number < 25; ++number) {
      for (const int device_lanes : {1, 2}) {
        RandomProgram r(number, 3, device_lanes);
        for (int repeat = 0; repeat < 2; ++repeat) {
          std::vector<Value> outputs(1);
          const Status status = executor.run(r.b.done(), std::vector{floats({1, 3})}, outputs, {});
          ASSERT_TRUE(status.ok()) << status;
          EXPECT_EQ(values_of<float>(outputs[0]), in_order(number, 3)) << number << " " << device_lanes;
          EXPECT_EQ(device.blocks.load(), 0) << "the run is over";
        }
      }
    }
  }
}

// Two steps that end only when both have begun.
TEST(Lanes, RunAtTheSameTime) {
  std::atomic<int> arrived{0};
  const auto meet = [&](RunCtx& c) {
    ++arrived;
    while (arrived.load() < 2) std::this_thread::yield();
    return add_f32(c);
  };
  ProgramBuilder b;
  const int32_t x = b.input("x", DType::kFloat, {1});
  const int32_t s = b.slab(0, DType::kFloat, {1}), t = b.slab(64, DType::kFloat, {1});
  b.step("s (Add)", {x, x}, {s}, meet);
  ProgramStep& other = b.step("t (Add)", {x, x}, {t}, meet);
  other.lane = 1;
  other.extras.write().signals = {0};
  b.step("y (Add)", {s, t}, {b.output("y", DType::kFloat, {1})}, add_f32).extras.write().waits = {0};
  b.program().lanes = 2;
  b.program().notifications = 1;
  TestExecutor e(2);
  EXPECT_THAT(values_of<float>(e.run(b.done(), {floats({1})}).value()[0]), ElementsAre(4));
}

int64_t live_bytes(const MemoryBudget& budget) {
  int64_t live = 0;
  for (const MemoryUse& use : budget.statistics().roles) live += use.live;
  return live;
}

struct Place {
  int threads, device_lanes;
};
const Place kPlaces[] = {{1, 0}, {2, 0}, {2, 1}, {1, 2}};

TEST(Lanes, AnErrorAtAnyStepDrainsAndGivesEveryByteBack) {
  for (const Place place : kPlaces) {
    QueueDevice device(true);
    TestExecutor e(place.threads);
    Executor executor(with_device(e, device));
    for (int failing = 0; failing < 12; ++failing) {
      std::atomic<int> running{0};
      RandomProgram r(7, 4, place.device_lanes, [&](int step) -> Status {
        ++running;
        std::this_thread::yield();
        --running;
        return step == failing ? invalid("it does not like this") : absl::OkStatus();
      });
      const int64_t before = live_bytes(*e.budget);
      std::vector<Value> outputs(1);
      const Status status = executor.run(r.b.done(), std::vector{floats({1, 3})}, outputs, {});
      EXPECT_EQ(running.load(), 0);
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
      EXPECT_THAT(std::string(status.message()), HasSubstr("node " + r.names[failing]));
      EXPECT_TRUE(outputs[0].is_none());
      EXPECT_EQ(live_bytes(*e.budget), before);
      EXPECT_EQ(device.blocks.load(), 0);
    }
  }
}

// Both steps fail, whichever is over first.
TEST(Lanes, TheErrorOfTheEarliestStepIsTold) {
  TestExecutor e(2);
  for (int round = 0; round < 30; ++round) {
    std::atomic<int> arrived{0};
    const auto fail = [&](const char* what) {
      return [&arrived, what](RunCtx&) -> Status {
        ++arrived;
        while (arrived.load() < 2) std::this_thread::yield();
        return invalid(what);
      };
    };
    ProgramBuilder b;
    const int32_t x = b.input("x", DType::kFloat, {1});
    b.step("s (Add)", {x, x}, {b.slab(0, DType::kFloat, {1})}, fail("the first"));
    ProgramStep& other = b.step("t (Add)", {x, x}, {b.output("y", DType::kFloat, {1})}, fail("the second"));
    other.lane = 1;
    b.program().lanes = 2;
    const Status status = e.run(b.done(), {floats({1})}).status();
    EXPECT_THAT(std::string(status.message()), HasSubstr("node s (Add) › the first"));
  }
}

TEST(Lanes, ACancelAtAnyStepDrainsAndGivesEveryByteBack) {
  for (const Place place : kPlaces) {
    QueueDevice device(true);
    TestExecutor e(place.threads);
    Executor executor(with_device(e, device));
    for (int at = 0; at < 12; ++at) {
      const CancelFlag flag;
      RandomProgram r(7, 4, place.device_lanes, [&](int step) -> Status {
        if (step == at) flag.cancel();
        return absl::OkStatus();
      });
      const int64_t before = live_bytes(*e.budget);
      std::vector<Value> outputs(1);
      const Status status = executor.run(r.b.done(), std::vector{floats({1, 3})}, outputs, {.cancel = flag.raw()});
      if (at < 11) {  // the last step was the last thing to do
        EXPECT_EQ(status.code(), absl::StatusCode::kCancelled) << at;
        EXPECT_TRUE(outputs[0].is_none());
      }
      outputs.clear();
      EXPECT_EQ(live_bytes(*e.budget), before);
      EXPECT_EQ(device.blocks.load(), 0);
    }
  }
}

TEST(Lanes, ACancelEndsARunThatWaitsForADevice) {
  QueueDevice device(true);
  TestExecutor e(1);
  Executor executor(with_device(e, device));
  const CancelFlag flag;
  std::atomic<bool> begun{false};
  ProgramBuilder b;
  const int32_t x = b.input("x", DType::kFloat, {1}), s = b.slab(0, DType::kFloat, {1});
  ProgramStep& first = b.step("s (Add)", {x, x}, {s}, [&](RunCtx& c) {
    begun = true;
    while (!flag.cancelled()) std::this_thread::yield();
    return add_f32(c);
  });
  first.lane = 1;
  first.extras.write().signals = {0};
  b.step("y (Add)", {s, s}, {b.output("y", DType::kFloat, {1})}, add_f32).extras.write().waits = {0};
  b.program().lanes = 2;
  b.program().notifications = 1;
  b.program().lane_device = {-1, 0};
  std::thread canceller([&] {
    while (!begun) std::this_thread::yield();
    flag.cancel();
  });
  std::vector<Value> outputs(1);
  const Status status = executor.run(b.done(), std::vector{floats({1})}, outputs, {.cancel = flag.raw()});
  canceller.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
}

TEST(Lanes, SeveralRunsOfOneProgramAtOnceDoNotMeet) {
  QueueDevice device(true);
  for (const int device_lanes : {0, 1}) {
    TestExecutor e(2);
    Executor executor(with_device(e, device));
    RandomProgram r(3, 3, device_lanes);
    const auto program = r.b.done();
    const std::vector<float> expected = in_order(3, 3);
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 40; ++i) {
          std::vector<Value> outputs(1);
          const Status status = executor.run(program, std::vector{floats({1, 3})}, outputs, {});
          wrong += !status.ok() || values_of<float>(outputs[0]) != expected;
        }
      });
    }
    for (std::thread& t : threads) t.join();
    EXPECT_EQ(wrong.load(), 0);
  }
}

TEST(Lanes, WhatAStepMakesAtRunIsSeenOnAnotherLane) {
  for (const int threads : {1, 2}) {
    ProgramBuilder b;
    const int32_t x = b.input("x", DType::kFloat, {2});
    const int32_t s = b.unknown(b.side("s", DType::kFloat, {2}));
    const int32_t y = b.unknown(b.output("y", DType::kFloat, {2}));
    ProgramStep& first = b.step("s (Twice)", {x}, {s}, [](RunCtx& c) -> Status {
      ASSIGN_OR_RETURN(void* data, c.host->output(0, c.in(0).dims()));
      for (int i = 0; i < 2; ++i) static_cast<float*>(data)[i] = 2 * c.in_as<float>(0)[i];
      return absl::OkStatus();
    });
    first.sized_at_run = 1;
    first.lane = 1;
    first.extras.write().signals = {0};
    ProgramStep& second = b.step("y (Twice)", {s}, {y}, [](RunCtx& c) -> Status {
      ASSIGN_OR_RETURN(void* data, c.host->output(0, c.in(0).dims()));
      for (int i = 0; i < 2; ++i) static_cast<float*>(data)[i] = 2 * c.in_as<float>(0)[i];
      return absl::OkStatus();
    });
    second.sized_at_run = 1;
    second.extras.write().waits = {0};
    second.extras.write().release_after = {s};
    b.program().lanes = 2;
    b.program().notifications = 1;
    TestExecutor e(threads);
    for (int i = 0; i < 3; ++i)
      EXPECT_THAT(values_of<float>(e.run(b.done(), {floats({1, 2})}).value()[0]), ElementsAre(4, 8));
  }
}

struct Malformed {
  std::function<void(Program&)> change;
  std::string says;
};
TEST(Lanes, ProgramsThatMakeNoSenseAreErrors) {
  const Malformed cases[] = {
      {[](Program& p) { p.steps[0].lane = 5; }, "lane 5 of 2"},
      {[](Program& p) { p.steps[0].extras.write().signals = {1}; }, "unknown or given twice"},
      {[](Program& p) {
         p.steps[0].extras.write().signals = {0, 0};
       },
       "unknown or given twice"},
      {[](Program& p) { p.steps[0].extras.write().signals = {}; }, "no earlier step gives"},
      {[](Program& p) { p.steps[1].extras.write().waits = {7}; }, "no earlier step gives"},
      {[](Program& p) {
         p.lane_device = {-1, 3};
       },
       "device 3"},
  };
  for (const Malformed& m : cases) {
    ProgramBuilder b;
    const int32_t x = b.input("x", DType::kFloat, {1}), s = b.slab(0, DType::kFloat, {1});
    b.step("s (Add)", {x, x}, {s}, add_f32).extras.write().signals = {0};
    ProgramStep& other = b.step("y (Add)", {s, s}, {b.output("y", DType::kFloat, {1})}, add_f32);
    other.extras.write().waits = {0};
    other.lane = 1;
    b.program().lanes = 2;
    b.program().notifications = 1;
    m.change(b.program());
    TestExecutor e(2);
    const Status status = e.run(b.done(), {floats({1})}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
    EXPECT_THAT(std::string(status.message()), HasSubstr(m.says));
  }
}

TEST(Lanes, ADeviceThatHasNoLaneIsAnError) {
  QueueDevice device(true);
  device.refuse = true;
  TestExecutor e(2);
  Executor executor(with_device(e, device));
  RandomProgram r(1, 2, 1);
  std::vector<Value> outputs(1);
  const Status status = executor.run(r.b.done(), std::vector{floats({1, 3})}, outputs, {});
  EXPECT_THAT(std::string(status.message()), HasSubstr("no lane is free"));
}

}  // namespace
}  // namespace forethought
