// Sessions whose slabs are put together of regions, where nobody has one block of their size: of a device and the host.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <mutex>

#include "graph/text.h"
#include "memory/memory_calls_testing.h"
#include "memory/slab.h"
#include "session/memory_report.h"
#include "session/plan_report.h"
#include "session/session_testing.h"
#include "session/sim_provider_testing.h"
#include "session/small_net_testing.h"

namespace forethought {
namespace {

using testing::HasSubstr;

// Gives blocks of at most so many bytes each.
class SmallBlocks final : public MemorySource {
 public:
  explicit SmallBlocks(int64_t most) : most(most) {}
  void* allocate(size_t bytes, size_t alignment) override {
    const std::lock_guard lock(mutex_);
    if (static_cast<int64_t>(bytes) > most) return ++refused, nullptr;
    ++given;
    return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  }
  void release(void* data, size_t) override {
    const std::lock_guard lock(mutex_);
    --given;
    std::free(data);
  }
  int64_t most;
  int64_t refused = 0, given = 0;

 private:
  std::mutex mutex_;
};

// Eight values of 64 KiB that live at once, in a slab of half a megabyte; the branches may run side by side.
constexpr const char* kEight = R"(graph(%x: f32[128,128]) {
  %a = Softmax<axis=1>(%x)
  %b = Transpose(%a)
  %c = MatMul(%a, %b)
  %d = Softmax<axis=0>(%x)
  %e = Transpose(%d)
  %f = MatMul(%d, %e)
  %g = Softmax<axis=0>(%c)
  %h = Transpose(%f)
  %i = MatMul(%g, %h)
  %j = MatMul(%i, %c)
  %k = MatMul(%j, %f)
  %y = MatMul(%k, %d)
  return %y
})";
const Dims kRows = {128, 128};

std::vector<float> run(Session& session, Status* status = nullptr) {
  std::vector<Value> y(1);
  const Status ran = session.run_ordered(std::vector{random_floats(kRows, 7)}, y);
  if (status) *status = ran;
  EXPECT_TRUE(ran.ok() || status) << ran;
  return ran.ok() ? floats(y[0]) : std::vector<float>();
}

SessionOptions options_with(int lanes, PlanMode plan = PlanMode::packed) {
  SessionOptions o;
  o.optimization_level = OptimizationLevel::disabled;
  o.intra_op_threads = 2;
  o.lanes = lanes;
  o.plan = plan;
  o.validate_plans = true;
  return o;
}

void expect_sums(const Session& session) {
  const MemoryStatistics s = session.memory_statistics();
  EXPECT_EQ(s.live + s.retained + s.padding, s.mapped);
}

TEST(Regions, B22_OfTheHostWhereOneBlockCannotBeHad) {
  for (const int lanes : {1, 3}) {
    for (const PlanMode mode : {PlanMode::packed, PlanMode::slots, PlanMode::off}) {
      SessionOptions options = options_with(lanes, mode);
      const auto whole = session_of(kEight, options);
      const std::vector<float> expected = run(*whole);
      const int64_t peak = whole->summary().peak;
      ASSERT_GT(peak, 3 * 65536);
      const auto source = std::make_shared<SmallBlocks>(Pages::rounded(peak / 2));
      options.execution_source = source;
      const auto session = session_of(kEight, options);
      for (int repeat = 0; repeat < 3; ++repeat) EXPECT_EQ(run(*session), expected) << lanes << " lanes, " << repeat;
      const int64_t tries = source->refused;
      EXPECT_GT(tries, 0);
      EXPECT_GT(source->given, 1) << "several blocks make the slab";
      run(*session);
      EXPECT_EQ(source->refused, tries) << "nobody asks again for what there is not";
      const std::string text = to_string(session->memory_report());
      EXPECT_THAT(text, HasSubstr("execution_cap"));
      const auto program = session->plan_for(std::vector{kRows}, Effort::replan);
      ASSERT_TRUE(program.ok()) << program.status();
      EXPECT_GT((*program)->plan.regions(), 1);
      EXPECT_EQ((*program)->region_bytes, (*program)->plan.region);
      EXPECT_LE((*program)->region_bytes, source->most);
      EXPECT_THAT(plan_text(session->prepared(), **program),
                  HasSubstr(absl::StrCat(" regions of ", (*program)->region_bytes, " B")));
      expect_sums(*session);
      session->trim();
      EXPECT_EQ(source->given, 0) << "all regions go back";
      expect_sums(*session);
      EXPECT_EQ(run(*session), expected);
    }
  }
}

TEST(Regions, B22_AValueThatNoBlockHoldsIsRefusedAsBefore) {
  SessionOptions options = options_with(1);
  const auto source = std::make_shared<SmallBlocks>(60'000);  // below 64 KiB
  options.execution_source = source;
  const auto session = session_of(kEight, options);
  for (int repeat = 0; repeat < 2; ++repeat) {
    Status status;
    run(*session, &status);
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("the execution slab"));
  }
  expect_sums(*session);
  EXPECT_EQ(source->given, 0);
  source->most = int64_t{1} << 30;  // there is one now
  EXPECT_EQ(run(*session), run(*session_of(kEight, options_with(1))));
}

// A request for pages that fails now and then: the run is as it would have been, in one block or in several.
TEST(Regions, B22_PagesThatFailOnceAreFoundInSmallerBlocks) {
  const std::vector<float> expected = run(*session_of(kEight, options_with(1)));
  int found = 0;
  for (int64_t nth = 1; nth < 20; ++nth) {
    const auto session = session_of(kEight, options_with(1));
    Status status;
    std::vector<float> y;
    bool triggered = false;
    {
      const FailSystemRequests fail(nth);
      y = run(*session, &status);
      triggered = fail.triggered();
    }
    if (status.ok()) {
      EXPECT_EQ(y, expected);
      found += triggered;
    }
    EXPECT_EQ(run(*session), expected);
    expect_sums(*session);
    if (!triggered) break;
  }
  EXPECT_GT(found, 0);
}

TEST(Regions, B22_RepeatedRunsCallForNoMemory) {
  if (!MemoryCallRecorder::attributes_callers()) GTEST_SKIP() << "sanitizers hide who calls";
  SessionOptions options = options_with(1);
  options.execution_source = std::make_shared<SmallBlocks>(200'000);
  const auto session = session_of(kEight, options);
  const std::vector<Value> inputs{random_floats(kRows, 7)};
  Value y = session->take_io(DType::kFloat, kRows, "y").value();
  std::vector<Value> outputs{y};
  for (int warm = 0; warm < 3; ++warm) ASSERT_TRUE(session->run_ordered(inputs, outputs).ok());
  MemoryCallRecorder recorder;
  recorder.start();
  for (int repeat = 0; repeat < 10; ++repeat) EXPECT_TRUE(session->run_ordered(inputs, outputs).ok());
  recorder.stop();
  EXPECT_TRUE(recorder.ours().none()) << recorder.first_of_ours();
}

TEST(Regions, B22_OfADeviceThatStatesItsGreatestBlock) {
  for (const int device_lanes : {1, 2}) {
    for (const PlanMode mode : {PlanMode::packed, PlanMode::slots, PlanMode::off}) {
      std::vector<float> expected;
      for (const int64_t greatest : {0, 150'000}) {
        SimDeviceOptions o{.index = 7, .greatest_block = greatest, .lanes = device_lanes};
        const auto device = SimDevice::make(o).value();
        const SimProviderScope scope("Small", device, [](const Graph&, const GraphNode&) { return true; });
        const auto session = session_of(kEight, with_provider("Small", options_with(1, mode)));
        ASSERT_TRUE(session);
        const std::vector<float> y = run(*session);
        if (expected.empty()) expected = y;
        EXPECT_EQ(y, expected);
        EXPECT_EQ(run(*session), expected);
        const auto program = session->plan_for(std::vector{kRows}, Effort::replan);
        ASSERT_TRUE(program.ok()) << program.status();
        const SlabFigures& figures = (*program)->plan.devices.at(0);
        EXPECT_GT(figures.peak, 150'000);
        EXPECT_EQ(figures.region, greatest / 64 * 64);
        EXPECT_EQ(figures.regions() > 1, greatest > 0);
        session->trim();
      }
    }
  }
}

TEST(Regions, B22_AValueLargerThanADevicesBlocksIsNamed) {
  const auto device = SimDevice::make({.index = 7, .greatest_block = 40'000}).value();
  const SimProviderScope scope("Small", device, [](const Graph&, const GraphNode&) { return true; });
  const auto session = Session::from_graph(graph_from_text(kEight).value(), with_provider("Small", options_with(1)));
  EXPECT_EQ(session.status().code(), absl::StatusCode::kResourceExhausted) << session.status();
  EXPECT_THAT(std::string(session.status().message()),
              HasSubstr(" takes 65536 bytes, more than a region of 40000 bytes has; the least regions that do have "
                        "65536 bytes each"));
}

}  // namespace
}  // namespace forethought
