// Repeated runs of a shape: no heap call, no page call, no page fault of ours; the slab is what was planned.
#include <gtest/gtest.h>

#include "memory/memory_calls_testing.h"
#include "memory/system.h"
#include "session/session_testing.h"
#include "session/small_net_testing.h"

namespace forethought {
namespace {

constexpr int kWarmUp = 3, kRuns = 20;

SessionOptions with_threads(int threads) {
  SessionOptions o;
  o.intra_op_threads = threads;
  return o;
}

// Runs of each set of inputs in turn, every output handed over and given back.
MemoryCallRecorder record(Session& session, const std::vector<std::vector<Value>>& inputs, int runs) {
  std::vector<Value> outputs(session.outputs().size());
  MemoryCallRecorder recorder;
  Status status;
  recorder.start();
  for (int r = 0; r < runs && status.ok(); ++r) {
    for (Value& v : outputs) v = Value();
    status = session.run_ordered(inputs[static_cast<size_t>(r) % inputs.size()], outputs);
  }
  for (Value& v : outputs) v = Value();
  recorder.stop();
  EXPECT_TRUE(status.ok()) << status;
  return recorder;
}

void expect_steady(Session& session, const std::vector<std::vector<Value>>& inputs) {
  const int rounds = static_cast<int>(inputs.size());
  record(session, inputs, kWarmUp * rounds);
  const MemoryCallRecorder recorder = record(session, inputs, kRuns * rounds);
  EXPECT_TRUE(recorder.ours().none()) << recorder.first_of_ours();
}

TEST(Steady, TheHookSeesCalls) {
  MemoryCallRecorder recorder;
  recorder.start();
  auto* const block = new std::vector<int64_t>(1000);
  delete block;
  recorder.stop();
  EXPECT_GE(recorder.ours().allocations, 1);
  EXPECT_EQ(recorder.ours().allocations, recorder.ours().frees);
  EXPECT_FALSE(recorder.first_of_ours().empty());
}

TEST(Steady, A10_PlainRunsCallForNoMemory) {
  const auto session = session_of(plain_net(), with_threads(1));
  ASSERT_TRUE(session);
  expect_steady(*session, {{random_floats({4, 64}, 1)}});
}

TEST(Steady, A10_RunsOfANetCallForNoMemory) {
  if (!MemoryCallRecorder::attributes_callers()) GTEST_SKIP() << "sanitizers hide who calls";
  for (const int threads : {1, 2}) {
    const auto session = session_of(small_net(), with_threads(threads));
    ASSERT_TRUE(session);
    const std::vector<std::vector<Value>> inputs = {{random_floats({1, 3, 20, 20}, 1)}};
    expect_steady(*session, inputs);
    const MemoryCallRecorder first = record(*session, inputs, kRuns);
    const MemoryCalls of_first = first.of("libdnnl");
    const MemoryCallRecorder second = record(*session, inputs, kRuns);
    EXPECT_EQ(of_first, second.of("libdnnl")) << "what oneDNN takes for itself grows";
  }
}

// 200 trips and both branches of an If: bodies run in frames that are kept, in room that the parent planned.
TEST(Steady, C37_BodiesCallForNoMemory) {
  const auto session = session_of(R"(graph(%s0: f32[4,8], %c: bool[]) {
    %s = Loop(i64 200, bool true, %s0) {
      body: graph(%i: i64[], %t: bool[], %a: f32[4,8]) {
        %b = Mul(%a, 0.5)
        %d = Add(%b, 1.0)
        %u = Identity(%t)
        return %u, %d
      }
    }
    %y = If(%c; %s) {
      then_branch: graph(%p: f32[4,8]) {
        %q = Neg(%p)
        return %q
      }
      else_branch: graph(%p: f32[4,8]) {
        %q = Exp(%p)
        return %q
      }
    }
    return %y
})",
                                  with_threads(1));
  ASSERT_TRUE(session);
  const Value start = random_floats({4, 8}, 1);
  expect_steady(*session, {{start, tensor_of<bool>({}, {true})}, {start, tensor_of<bool>({}, {false})}});
}

TEST(Steady, ShapesSeenBeforeCallForNoMemory) {
  const auto session = session_of(R"(graph(%x: f32[N,8]) {
    %a = Mul(%x, 2.0)
    %b = Concat<axis=1>(%a, %x)
    %y = Relu(%b)
    return %y
})",
                                  with_threads(1));
  ASSERT_TRUE(session);
  std::vector<std::vector<Value>> inputs;
  for (const int64_t n : {3, 50, 7, 200}) inputs.push_back({random_floats({n, 8}, static_cast<uint64_t>(n))});
  expect_steady(*session, inputs);
  EXPECT_EQ(session->summary().plans.misses, 4);
}

TEST(Steady, BoundOutputsAreWrittenInPlace) {
  const auto session = session_of(plain_net(), with_threads(1));
  ASSERT_TRUE(session);
  const std::vector<Value> inputs = {random_floats({4, 64}, 1)};
  std::vector<Value> bound = {random_floats({2, 256}, 2), random_floats({8, 32}, 3)};
  const void *first = bound[0].tensor().data, *second = bound[1].tensor().data;
  ASSERT_TRUE(session->run_ordered(inputs, bound).ok());
  MemoryCallRecorder recorder;
  recorder.start();
  const Status status = session->run_ordered(inputs, bound);
  recorder.stop();
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_TRUE(recorder.ours().none()) << recorder.first_of_ours();
  EXPECT_EQ(bound[0].tensor().data, first);
  EXPECT_EQ(bound[1].tensor().data, second);
}

TEST(Steady, B22_TheFirstRunMapsThePlannedPeak) {
  if (!MemoryCallRecorder::attributes_callers()) GTEST_SKIP() << "sanitizers map pages themselves";
  const auto session = session_of(small_net(), with_threads(1));
  ASSERT_TRUE(session);
  const std::vector<Value> inputs = {random_floats({1, 3, 20, 20}, 1)};
  std::vector<Value> bound = {random_floats({1, 10}, 2), random_floats({1, 32, 20, 20}, 3)};
  MemoryCallRecorder recorder;
  recorder.start();
  const Status status = session->run_ordered(inputs, bound);
  recorder.stop();
  ASSERT_TRUE(status.ok()) << status;
  const int64_t peak = session->summary().peak;
  EXPECT_GT(peak, 0);
  EXPECT_EQ(recorder.ours().mapped_bytes, (peak + page_size() - 1) / page_size() * page_size());
}

TEST(Steady, RunsFaultNoPageIn) {
  if (!MemoryCallRecorder::attributes_callers()) GTEST_SKIP() << "sanitizers touch pages of their own";
  const auto session = session_of(small_net(), with_threads(1));
  ASSERT_TRUE(session);
  const std::vector<std::vector<Value>> inputs = {{random_floats({1, 3, 20, 20}, 1)}};
  record(*session, inputs, kWarmUp);
  // The system may take pages away and give them back at any time, not in every hundred runs.
  int64_t faults = 100;
  for (int attempt = 0; attempt < 10 && faults >= 20; ++attempt) {
    const int64_t before = minor_faults();
    record(*session, inputs, 100);
    faults = minor_faults() - before;
  }
  EXPECT_LT(faults, 20) << "100 runs may meet a few faults of others in this process, not one each";
}

}  // namespace
}  // namespace forethought
