// Sessions whose parallel branches run in lanes: the same bits, no memory calls, cancels, errors, many runs at once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "exec/profile.h"
#include "graph/text.h"
#include "memory/memory_calls_testing.h"
#include "session/session_testing.h"
#include "session/small_net_testing.h"

namespace forethought {
namespace {

using testing::HasSubstr;

// Four branches between two products, with views and a concatenation.
constexpr const char* kBranches = R"(graph(%x: f32[32,32]) {
  %t = MatMul(%x, %x)
  %a1 = MatMul(%t, %x)
  %a2 = Softmax(%a1)
  %a3 = MatMul(%a2, %t)
  %b1 = Tanh(%t)
  %b2 = MatMul(%b1, %b1)
  %b3 = Softmax(%b2)
  %b4 = Transpose<perm=[1, 0]>(%b3)
  %c1 = MatMul(%x, %t)
  %c2 = Reshape(%c1, [64, 16])
  %c3 = Sigmoid(%c2)
  %c4 = Reshape(%c3, [32, 32])
  %d1 = Softmax(%t)
  %d2 = MatMul(%d1, %d1)
  %k = Concat<axis=1>(%a3, %b4, %c4, %d2)
  %kt = Transpose<perm=[1, 0]>(%k)
  %y = MatMul(%k, %kt)
  return %y, %b3
})";
// What only the run tells is read by two branches.
constexpr const char* kSizedAtRun = R"(graph(%x: f32[32,32]) {
  %r = Relu(%x)
  %n = NonZero(%r)
  %f = Cast<to=1>(%n)
  %p = ReduceSum<keepdims=0>(%f)
  %q = Neg(%f)
  %m = MatMul(%x, %r)
  return %p, %q, %m
})";
const Dims kDims = {32, 32};

std::unique_ptr<Session> session_with(const char* text, int lanes, int threads) {
  SessionOptions options;
  options.lanes = lanes;
  options.intra_op_threads = threads;
  options.validate_plans = true;
  return session_of(text, options);
}

std::vector<std::byte> bytes_of(const std::vector<Value>& values) {
  std::vector<std::byte> all;
  for (const Value& v : values) {
    const auto* const data = static_cast<const std::byte*>(v.tensor().data);
    all.insert(all.end(), data, data + v.tensor().bytes());
  }
  return all;
}

std::vector<std::byte> run_bytes(Session& session, uint64_t seed) {
  std::vector<Value> outputs(session.outputs().size());
  const Status status = session.run_ordered(std::vector{random_floats(kDims, seed)}, outputs);
  EXPECT_TRUE(status.ok()) << status;
  return status.ok() ? bytes_of(outputs) : std::vector<std::byte>();
}

TEST(LanesOfASession, Check28_SameBitsForAnyLanesAndThreads) {
  for (const char* text : {kBranches, kSizedAtRun}) {
    const auto reference = session_with(text, 1, 1);
    ASSERT_TRUE(reference);
    const std::vector<std::byte> expected = run_bytes(*reference, 1);
    for (const int lanes : {1, 2, 4}) {
      for (const int threads : {1, 2, 4}) {
        const auto session = session_with(text, lanes, threads);
        ASSERT_TRUE(session);
        for (int repeat = 0; repeat < 3; ++repeat)
          EXPECT_EQ(run_bytes(*session, 1), expected) << lanes << " lanes, " << threads << " threads";
        if (text == kBranches && lanes > 1) {
          EXPECT_GT(session->summary().lanes, 1);
          EXPECT_LE(session->summary().waits, session->summary().wait_edges);
          EXPECT_LE(static_cast<double>(session->summary().peak), 1.5 * static_cast<double>(reference->summary().peak));
        }
      }
    }
  }
}

TEST(LanesOfASession, A23_TheChoiceGivesItsReason) {
  const auto automatic = session_with(kBranches, 0, 2);
  ASSERT_TRUE(automatic);
  EXPECT_FALSE(automatic->summary().lanes_reason.empty());
  const auto asked = session_with(kBranches, 2, 2);
  EXPECT_THAT(asked->summary().lanes_reason, HasSubstr("as asked"));
  SessionOptions wrong;
  wrong.lanes = -1;
  auto graph = graph_from_text(kBranches);
  ASSERT_TRUE(graph.ok());
  EXPECT_THAT(std::string(Session::from_graph(std::move(*graph), wrong).status().message()),
              HasSubstr("lanes is -1; it is to be from 0 to 64"));
}

TEST(LanesOfASession, A10_RunsInLanesCallForNoMemory) {
  if (!MemoryCallRecorder::attributes_callers()) GTEST_SKIP() << "sanitizers hide who calls";
  for (const int threads : {1, 2}) {
    const auto session = session_with(kBranches, 2, threads);
    ASSERT_TRUE(session);
    const std::vector<Value> inputs = {random_floats(kDims, 1)};
    std::vector<Value> outputs(session->outputs().size());
    MemoryCallRecorder recorder;
    for (int r = 0; r < 40; ++r) {
      if (r == 10) recorder.start();
      for (Value& v : outputs) v = Value();
      ASSERT_TRUE(session->run_ordered(inputs, outputs).ok());
    }
    recorder.stop();
    EXPECT_TRUE(recorder.ours().none()) << recorder.first_of_ours();
  }
}

TEST(LanesOfASession, CancelledAsyncRunsGiveEveryByteBack) {
  const auto session = session_with(kBranches, 2, 2);
  ASSERT_TRUE(session);
  run_bytes(*session, 1);
  const int64_t before = live_bytes(*session);
  for (int round = 0; round < 20; ++round) {
    std::vector<AsyncRun> runs;
    for (int i = 0; i < 4; ++i) {
      AsyncRequest request;
      request.feeds.emplace_back("x", random_floats(kDims, 1));
      runs.push_back(session->run_async(std::move(request)).value());
    }
    for (const AsyncRun& run : runs) run.cancel();
    for (const AsyncRun& run : runs) {
      const Status status = run.wait();
      EXPECT_TRUE(status.ok() || status.code() == absl::StatusCode::kCancelled) << status;
    }
  }
  EXPECT_EQ(live_bytes(*session), before);
}

TEST(LanesOfASession, Check27_ManyThreadsOnOneSession) {
  for (const int lanes : {1, 2}) {
    const auto session = session_with(kBranches, lanes, 2);
    ASSERT_TRUE(session);
    constexpr int kThreads = 8, kRuns = 100;
    std::vector<std::vector<std::byte>> expected;
    for (uint64_t t = 0; t < kThreads; ++t) expected.push_back(run_bytes(*session, t));
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (size_t t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (int r = 0; r < kRuns; ++r) wrong += run_bytes(*session, t) != expected[t];
      });
    }
    for (std::thread& t : threads) t.join();
    EXPECT_EQ(wrong.load(), 0) << lanes << " lanes";
  }
}

}  // namespace
}  // namespace forethought
