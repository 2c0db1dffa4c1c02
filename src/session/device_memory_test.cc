// Memory of devices with an address space of their own: accounts, limits that name who holds what, and what is kept.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

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
  // Statistics are what the device's allocator gave.
  void expect_adds_up(const Session& session) {
    const MemoryStatistics s = session.memory_statistics(), all = process_memory_statistics();
    ASSERT_EQ(s.devices.size(), 1u);
    EXPECT_EQ(s.devices[0].device, "device:9");
    EXPECT_EQ(s.devices[0].live + s.devices[0].retained, device_->allocator().statistics().live);
    EXPECT_GE(s.devices[0].peak, s.devices[0].live + s.devices[0].retained);
    const auto there = std::ranges::find(all.devices, "device:9", &DeviceMemory::device);
    ASSERT_NE(there, all.devices.end());
    EXPECT_EQ(there->live, s.devices[0].live);
    EXPECT_EQ(there->retained, s.devices[0].retained);
    EXPECT_EQ(s.mapped, s.live + s.retained + s.padding) << "no byte of a device is one of the host's";
    EXPECT_EQ(all.mapped, obtained_bytes());
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
