// Memory of devices with an address space of their own: accounts, limits that name who holds what, and what is kept.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <limits>
#include <optional>
#include <thread>

#include "absl/strings/str_cat.h"
#include "device/account.h"
#include "graph/text.h"
#include "memory/system.h"
#include "session/memory_report.h"
#include "session/session_testing.h"
#include "session/sim_provider_testing.h"
#include "session/small_net_testing.h"

namespace forethought {
namespace {

using testing::HasSubstr;

// Constants of 1 MiB and 256 KiB; 512 elements a row.
constexpr const char* kNet = R"(graph(%x: f32[N,512]) {
  %w: f32[512,512] = Expand(0.01, [512, 512])
  %v: f32[512,128] = Expand(0.02, [512, 128])
  %a = MatMul(%x, %w) "/first"
  %b = Softmax(%a) "/middle"
  %y = MatMul(%b, %v) "/last"
  return %y
})";

class DeviceMemoryTest : public testing::Test {
 protected:
  void TearDown() override {
    set_limit_of_devices(0);
    EXPECT_EQ(device_->allocator().statistics().live, 0);
    EXPECT_EQ(account().mapped(), 0);
    EXPECT_EQ(MemoryBudget::process()->statistics().mapped, obtained_bytes());
  }
  MemoryBudget& account() { return *device_account(device_->device()); }
  StatusOr<std::unique_ptr<Session>> load(int64_t limit, const std::string& text = kNet) {
    SessionOptions options = with_provider("SimProvider");
    options.device_memory_limit = limit;
    options.intra_op_threads = 1;
    return Session::from_graph(graph_from_text(text).value(), options);
  }
  static std::string fixed(int rows) {
    std::string text = kNet;
    text.replace(text.find("N,"), 1, std::to_string(rows));
    return text;
  }
  Tensor asked(const Dims& dims) {
    Tensor t;
    t.dtype = DType::kFloat;
    t.dims = dims;
    t.device = device_->device();
    return t;
  }
  static Status run(Session& session, int64_t rows, Value output = {}) {
    const Value in = random_floats({rows, 512}, 1);
    return session.run_ordered({&in, 1}, {&output, 1});
  }
  DeviceMemory of_process() {
    const MemoryStatistics all = process_memory_statistics();
    const auto there = std::ranges::find(all.devices, "device:9", &DeviceMemory::device);
    return there == all.devices.end() ? DeviceMemory{} : *there;
  }
  // Statistics are what the device's allocator gave. The sessions are all that use the device.
  template <typename... Sessions>
  void expect_adds_up(const Sessions&... sessions) {
    int64_t live = 0, retained = 0;
    for (const Session* session : {&sessions...}) {
      const MemoryStatistics s = session->memory_statistics();
      ASSERT_EQ(s.devices.size(), 1u);
      EXPECT_EQ(s.devices[0].device, "device:9");
      EXPECT_GE(s.devices[0].peak, s.devices[0].live + s.devices[0].retained);
      EXPECT_EQ(s.mapped, s.live + s.retained + s.padding) << "no byte of a device is one of the host's";
      live += s.devices[0].live, retained += s.devices[0].retained;
    }
    const DeviceMemory all = of_process();
    EXPECT_EQ(all.live, live);
    EXPECT_EQ(all.retained, retained);
    EXPECT_GE(all.peak, live + retained);
    EXPECT_EQ(device_->allocator().statistics().live, live + retained);
    EXPECT_EQ(MemoryBudget::process()->statistics().mapped, obtained_bytes());
  }

  std::shared_ptr<SimDevice> device_ = SimDevice::make({.index = 9}).value();
  SimProviderScope provider_{"SimProvider", device_, [](const Graph&, const GraphNode&) { return true; }};
};

TEST_F(DeviceMemoryTest, StatisticsTellWeightsSlabsAndOutputsOfEachDevice) {
  auto session = load(0).value();
  constexpr int64_t kWeights = (512 * 512 + 512 * 128) * 4;
  MemoryStatistics s = session->memory_statistics();
  ASSERT_EQ(s.devices.size(), 1u);
  EXPECT_EQ(s.devices[0], (DeviceMemory{"device:9", kWeights, 0, kWeights, 0}));
  expect_adds_up(*session);
  ASSERT_TRUE(run(*session, 64).ok());
  const int64_t slab = session->plan_for({{Dims{64, 512}}}).value()->device_slab_bytes.at(0);
  ASSERT_GT(slab, 0);
  s = session->memory_statistics();
  EXPECT_EQ(s.devices[0], (DeviceMemory{"device:9", kWeights, slab, kWeights + slab, 0}));
  expect_adds_up(*session);
  Value held = asked({64, 128});
  const Value in = random_floats({64, 512}, 1);
  ASSERT_TRUE(session->run_ordered({&in, 1}, {&held, 1}).ok());
  EXPECT_EQ(session->memory_statistics().devices[0].live, kWeights + 64 * 128 * 4);
  expect_adds_up(*session);
  const auto lines = named(session->memory_statistics());
  const auto live = std::ranges::find(lines, "device:9 live", &std::pair<std::string, int64_t>::first);
  ASSERT_NE(live, lines.end());
  EXPECT_EQ(live->second, kWeights + 64 * 128 * 4);
  session->trim();
  EXPECT_EQ(session->memory_statistics().devices[0].retained, 0);
  expect_adds_up(*session);
  session.reset();
  EXPECT_EQ(account().mapped(), 64 * 128 * 4) << "what is held is counted still";
}

TEST_F(DeviceMemoryTest, Check35TheLeastLimitAtLoadWorksAndAByteLessDoesNot) {
  const std::string text = fixed(64);
  int64_t least = 0;
  for (const int64_t limit : {int64_t{1}, int64_t{1} << 20, int64_t{1400000}}) {  // below a constant, both, the slab
    const Status refused = load(limit, text).status();
    ASSERT_EQ(refused.code(), absl::StatusCode::kResourceExhausted) << refused;
    const std::string message(refused.message());
    EXPECT_THAT(message, HasSubstr("device memory limit"));
    EXPECT_THAT(message, HasSubstr("on device:9"));
    EXPECT_THAT(message, HasSubstr("/first (MatMul) (weights, 1.0 MiB)"));
    EXPECT_THAT(message, HasSubstr("(planned, "));
    if (least == 0) least = least_of(refused);
    EXPECT_EQ(least_of(refused), least) << refused;
    EXPECT_EQ(device_->allocator().statistics().live, 0);
  }
  EXPECT_FALSE(load(least - 1, text).ok());
  auto session = load(least, text).value();
  for (int i = 0; i < 3; ++i) {
    const Status status = run(*session, 64);
    ASSERT_TRUE(status.ok()) << status;
  }
  EXPECT_EQ(session->memory_statistics().devices[0].peak, least);
  EXPECT_EQ(session->memory_report().devices[0].least, least);
  EXPECT_EQ(session->memory_statistics().devices[0].limit, least);
}

TEST_F(DeviceMemoryTest, Check35TheLeastLimitAtRunCountsWhatIsHeldAndWhatIsAskedFor) {
  constexpr int64_t kWeights = (512 * 512 + 512 * 128) * 4;
  for (const bool on_device : {false, true}) {
    for (const bool holds : {false, true}) {
      const auto try_with = [&](int64_t limit, int64_t* live) {
        auto session = load(limit).value();
        Value held = asked({16, 128});
        const Value in = random_floats({16, 512}, 1);
        EXPECT_TRUE(session->run_ordered({&in, 1}, {&held, 1}).ok());
        if (!holds) held = Value();
        const Status status = run(*session, 200, on_device ? Value(asked({200, 128})) : Value());
        *live = session->memory_statistics().devices[0].peak;
        return status;
      };
      int64_t peak = 0;
      const Status refused = try_with(kWeights + (200 << 10), &peak);
      ASSERT_EQ(refused.code(), absl::StatusCode::kResourceExhausted) << refused;
      EXPECT_THAT(std::string(refused.message()), HasSubstr("on device:9"));
      EXPECT_THAT(std::string(refused.message()), HasSubstr("(planned, "));
      const int64_t least = least_of(refused);
      EXPECT_EQ(least_of(try_with(least - 1, &peak)), least) << refused;
      const Status works = try_with(least, &peak);
      EXPECT_TRUE(works.ok()) << works;
      EXPECT_EQ(peak, least);
    }
  }
}

TEST_F(DeviceMemoryTest, TheLimitOfTheHostAndThatOfDevicesAreApart) {
  const int64_t host = [&] {
    auto session = load(0, fixed(64)).value();
    return session->memory_report().least;
  }();
  SessionOptions options = with_provider("SimProvider");
  options.memory_limit = host;
  auto session = Session::from_graph(graph_from_text(fixed(64)).value(), options);
  ASSERT_TRUE(session.ok()) << session.status();
  EXPECT_TRUE(run(**session, 64).ok());
  options.device_memory_limit = -1;
  const Status negative = Session::from_graph(graph_from_text(fixed(64)).value(), options).status();
  EXPECT_THAT(std::string(negative.message()), HasSubstr("-1 bytes; 0 stands for none"));
}

TEST_F(DeviceMemoryTest, Check35TheLeastLimitOfTheProcessAtLoadCountsOtherSessions) {
  const std::string text = fixed(64);
  auto first = load(0, text).value();
  ASSERT_TRUE(run(*first, 64).ok());
  const int64_t held = first->memory_statistics().devices[0].live;
  int64_t least = 0;
  for (const int64_t room : {int64_t{1000}, int64_t{1} << 20, int64_t{1400000}}) {  // a constant, both, the slab
    ASSERT_TRUE(set_process_device_memory_limit(held + room).ok());
    const int64_t before = device_->allocator().statistics().allocations;
    const Status refused = load(0, text).status();
    ASSERT_EQ(refused.code(), absl::StatusCode::kResourceExhausted) << refused;
    const std::string message(refused.message());
    EXPECT_THAT(message, HasSubstr("more than the process's device memory limit of "));
    EXPECT_THAT(message, HasSubstr(" on device:9 leaves"));
    EXPECT_THAT(message, HasSubstr("the process holds 1.2 MiB beside this session"));
    EXPECT_THAT(message, HasSubstr("/first (MatMul) (weights, 1.0 MiB)"));
    EXPECT_THAT(message, HasSubstr("(planned, "));
    if (least == 0) {
      EXPECT_EQ(device_->allocator().statistics().allocations, before) << "refused before it is asked";
      least = least_of(refused);
    }
    EXPECT_EQ(least_of(refused), least) << refused;
    expect_adds_up(*first);
    EXPECT_EQ(of_process().limit, held + room);
  }
  EXPECT_EQ(first->memory_statistics().devices[0].limit, 0) << "that of the session";
  ASSERT_TRUE(set_process_device_memory_limit(least - 1).ok());
  EXPECT_EQ(least_of(load(0, text).status()), least);
  ASSERT_TRUE(set_process_device_memory_limit(least).ok());
  auto second = load(0, text).value();
  for (Session* session : {second.get(), first.get(), second.get()}) {
    const Status works = run(*session, 64);
    EXPECT_TRUE(works.ok()) << works;
    expect_adds_up(*first, *second);
    EXPECT_LE(of_process().live + of_process().retained, least);
  }
  first.reset();
  second.reset();
  ASSERT_TRUE(set_process_device_memory_limit(least - held).ok());
  first = load(0, text).value();
  const Status again = load(0, text).status();
  EXPECT_EQ(again.code(), absl::StatusCode::kResourceExhausted);
  first.reset();
  second = load(0, text).value();  // what the first held is free
  EXPECT_TRUE(run(*second, 64).ok());
}

TEST_F(DeviceMemoryTest, Check35TheLeastLimitOfTheProcessAtRunCountsWhatOthersHold) {
  auto first = load(0).value(), second = load(0).value();
  for (const bool on_device : {false, true}) {
    Value held = asked({100, 128});
    const Value in = random_floats({100, 512}, 1);
    ASSERT_TRUE(first->run_ordered({&in, 1}, {&held, 1}).ok());
    const auto try_with = [&](int64_t limit) {
      EXPECT_TRUE(set_process_device_memory_limit(limit).ok());
      return run(*second, 200, on_device ? Value(asked({200, 128})) : Value());
    };
    const Status refused = try_with(of_process().live + (100 << 10));
    ASSERT_EQ(refused.code(), absl::StatusCode::kResourceExhausted) << refused;
    EXPECT_THAT(std::string(refused.message()), HasSubstr("more than the process's device memory limit of "));
    EXPECT_THAT(std::string(refused.message()), HasSubstr("the process holds 1.3 MiB beside this session"));
    EXPECT_THAT(std::string(refused.message()), HasSubstr("(planned, "));
    expect_adds_up(*first, *second);
    const int64_t least = least_of(refused);
    EXPECT_EQ(least_of(try_with(least - 1)), least) << refused;
    const Status works = try_with(least);
    EXPECT_TRUE(works.ok()) << works;
    expect_adds_up(*first, *second);
    held = Value();
    const Status roomier = try_with(least - 100 * 128 * 4);  // what the first gave back
    EXPECT_TRUE(roomier.ok()) << roomier;
  }
}

TEST_F(DeviceMemoryTest, WhatOthersTookSinceCountsInTheLeastLimitOfTheProcess) {
  ASSERT_TRUE(set_process_device_memory_limit(2 << 20).ok());
  std::optional<DeviceBlock> taken;
  const SimProviderScope provider("Slow", device_, [&](const Graph&, const GraphNode&) {
    if (!taken) taken = DeviceBlock::take(DeviceUse(device_), MemoryRole::leased, 1 << 20, "another").value();
    return true;
  });
  const auto load_it = [&] { return Session::from_graph(graph_from_text(kNet).value(), with_provider("Slow")); };
  const Status refused = load_it().status();
  ASSERT_EQ(refused.code(), absl::StatusCode::kResourceExhausted) << refused;
  EXPECT_GT(least_of(refused), 2 << 20) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("the process holds 1.0 MiB beside this session"));
  ASSERT_TRUE(set_process_device_memory_limit(least_of(refused)).ok());
  EXPECT_TRUE(load_it().ok());
  taken.reset();
}

TEST_F(DeviceMemoryTest, Check35TheLeastLimitCountsConstantsOfNoBytes) {
  const std::string text = R"(graph(%x: f32[4,0]) {
    %v: f32[0,8] = Expand(0.0, [0, 8])
    %w: f32[0,9] = Expand(0.0, [0, 9])
    %y = MatMul(%x, %v)
    %z = MatMul(%x, %w)
    return %y, %z
  })";
  const int64_t least = least_of(load(1, text).status());  // a byte for the first of both
  ASSERT_GT(least, 0);
  EXPECT_EQ(least_of(load(least - 1, text).status()), least);
  auto session = load(least, text);
  ASSERT_TRUE(session.ok()) << session.status();
  const Value in = random_floats({4, 0}, 1);
  std::vector<Value> outputs(2);
  const Status works = (*session)->run_ordered({&in, 1}, outputs);
  EXPECT_TRUE(works.ok()) << works;
  EXPECT_EQ((*session)->memory_statistics().devices[0].peak, least);
}

TEST_F(DeviceMemoryTest, TheLimitOfTheProcessHoldsOnEachDeviceAlsoThoseToCome) {
  auto session = load(0).value();
  const int64_t live = session->memory_statistics().devices[0].live;
  const struct {
    int64_t bytes;
    const char* says;
  } rows[] = {
      {-1, "on devices › the memory limit is -1 bytes; 0 stands for none"},
      {std::numeric_limits<int64_t>::min(), "0 stands for none"},
      {std::numeric_limits<int64_t>::max(), "more than any machine has"},
      {live - 1, "on device:9 › the memory limit cannot be 1310719 bytes: 1310720 are in use: weights 1.2 MiB"},
  };
  ASSERT_TRUE(set_process_device_memory_limit(live).ok());
  for (const auto& row : rows) {
    EXPECT_THAT(std::string(set_process_device_memory_limit(row.bytes).message()), HasSubstr(row.says));
    EXPECT_EQ(of_process().limit, live) << row.bytes;
  }
  // On a device that nobody has used so far there is room for the same again, and no more.
  const auto other = SimDevice::make({.index = 12}).value();
  const SimProviderScope provider("OtherProvider", other, [](const Graph&, const GraphNode&) { return true; });
  const auto load_there = [&] {
    return Session::from_graph(graph_from_text(kNet).value(), with_provider("OtherProvider"));
  };
  auto there = load_there();
  ASSERT_TRUE(there.ok()) << there.status();
  const Status full = load_there().status();
  EXPECT_THAT(std::string(full.message()), HasSubstr("process's device memory limit of 1.2 MiB on device:12"));
  EXPECT_EQ(least_of(full), 2 * live);
  // What is kept above a lower limit goes back at once.
  ASSERT_TRUE(set_process_device_memory_limit(0).ok());
  ASSERT_TRUE(run(*session, 64).ok());
  ASSERT_GT(of_process().retained, 0);
  ASSERT_TRUE(set_process_device_memory_limit(live).ok());
  EXPECT_EQ(of_process().retained, 0);
  expect_adds_up(*session);
  const auto lines = named(process_memory_statistics());
  for (const char* line : {"device:9 limit", "device:12 limit"}) {
    const auto limit = std::ranges::find(lines, line, &std::pair<std::string, int64_t>::first);
    ASSERT_NE(limit, lines.end()) << line;
    EXPECT_EQ(limit->second, live) << line;
  }
}

TEST_F(DeviceMemoryTest, TheLimitOfTheProcessComesFromTheEnvironment) {
  constexpr const char* kVariable = "FORETHOUGHT_DEVICE_MEMORY_LIMIT";
  ::setenv(kVariable, "1M", 1);  // read once: a process of its own tells
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(
      {
        const Status refused = load(0).status();
        std::fprintf(stderr, "%s; limit %ld\n", std::string(refused.message()).c_str(), of_process().limit);
        std::_Exit(refused.ok() ? 1 : 17);
      },
      testing::ExitedWithCode(17), "process's device memory limit of 1.0 MiB on device:9.*; limit 1048576");
  ::unsetenv(kVariable);
}

// What one session asks for takes what the other keeps, while that runs, loads and ends.
TEST_F(DeviceMemoryTest, SessionsThatSqueezeEachOtherStayWithinTheLimitOfTheProcess) {
  // Loads fit beside one run, two runs do not.
  constexpr int64_t kWeights = (512 * 512 + 512 * 128) * 4, kLimit = 2 * kWeights + (int64_t{2} << 20);
  ASSERT_TRUE(set_process_device_memory_limit(kLimit).ok());
  std::atomic<int> done{0};
  const auto work = [&](int which) {
    for (int i = 0; i < 12; ++i) {
      auto session = load(0);
      Status status = session.status();
      for (const int64_t rows : {100, 30, 120, 60}) {
        if (session.ok()) status = run(**session, rows + which);
        ASSERT_TRUE(status.ok() || status.code() == absl::StatusCode::kResourceExhausted) << status;
        if (!status.ok()) {
          EXPECT_GT(least_of(status), 0) << status;
        }
        done += status.ok();
      }
    }
  };
  std::thread other(work, 1);
  work(0);
  other.join();
  EXPECT_GT(done, 0);
  EXPECT_EQ(of_process().live + of_process().retained, 0);
  EXPECT_LE(device_->allocator().statistics().peak, kLimit);
}

TEST_F(DeviceMemoryTest, ManyLengthsKeepTheLargestSlabAlone) {
  auto session = load(0).value();
  const int64_t weights = session->memory_statistics().devices[0].live;
  int64_t largest = 0;
  for (int i = 0; i < 60; ++i) {
    const int64_t rows = 1 + i * 37 % 120;
    ASSERT_TRUE(run(*session, rows).ok());
    largest = std::max(largest, session->plan_for({{Dims{rows, 512}}}).value()->device_slab_bytes.at(0));
    ASSERT_LE(session->memory_statistics().devices[0].retained, largest + largest / 4) << rows;
    ASSERT_EQ(session->memory_statistics().devices[0].live, weights);
  }
  expect_adds_up(*session);
  for (const int64_t rows : {120, 50}) ASSERT_TRUE(run(*session, rows).ok());
  const int64_t before = device_->allocator().statistics().allocations;
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(run(*session, i % 2 ? 120 : 50).ok());
  EXPECT_EQ(device_->allocator().statistics().allocations, before);
}

TEST_F(DeviceMemoryTest, AnAllocationThatFailsLeavesTheAccountAsItWas) {
  auto session = load(0).value();
  const MemoryStatistics before = session->memory_statistics();
  device_->fail_allocation(1);
  const Status status = run(*session, 64);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_EQ(session->memory_statistics().devices[0].live, before.devices[0].live);
  expect_adds_up(*session);
  EXPECT_TRUE(run(*session, 64).ok());
}

}  // namespace
}  // namespace forethought
