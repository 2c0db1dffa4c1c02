// Asks for the least limit, sets it, runs: for shapes known at load, at run, and only while a run goes on.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "graph/text.h"
#include "session/memory_report.h"
#include "session/session_testing.h"
#include "session/small_net_testing.h"

namespace forethought {
namespace {

struct Case {
  const char* name;
  std::string text;
  std::vector<Value> inputs;
  int most_refusals;  // before the limit that the last one named works
  int lanes = 1;
};

std::vector<Case> cases() {
  const Value rows = random_floats({40, 64}, 1);
  return {
      {"known at load", small_net(), {random_floats({1, 3, 20, 20}, 1)}, 1},
      {"known at load, two lanes", small_net(), {random_floats({1, 3, 20, 20}, 1)}, 1, 2},
      // At load the weights alone are known.
      {"known at run",
       "graph(%x: f32[N,64]) { %a = Softmax(%x) %b = Concat<axis=1>(%a, %x) %y = Softmax(%b) return %y }",
       {rows},
       2},
      {"bounded",
       "graph(%x: f32[41,67]) { %i = NonZero(%x) %f = Cast<to=1>(%i) %s = Softmax<axis=0>(%f) return %s, %i, %f }",
       {random_floats({41, 67}, 1)},  // all alive at once, none of a size that is one of the arena's classes
       1},
      {"a body",
       R"(graph(%x: f32[40,64], %c: bool[]) {
  %y = If(%c; %x) {
    then_branch: graph(%p: f32[40,64]) { %q = Softmax(%p) %r = Transpose(%q) return %r }
    else_branch: graph(%p: f32[40,64]) { %r = Transpose(%p) return %r }
  }
  return %y
})",
       {rows, tensor_of<bool>({}, {true})},
       1},
      // Each trip makes the state longer: nothing tells how long before it ran.
      {"unbounded",
       R"(graph(%x: f32[N], %m: i64[]) {
  %y = Loop(%m, bool true, %x; %x) {
    body: graph(%i: i64[], %k: bool[], %s: f32[L], %p: f32[N]) { %t = Concat<axis=0>(%s, %p) return %k, %t }
  }
  return %y
})",
       {random_floats({1000}, 1), tensor_of<int64_t>({}, {30})},
       8},
  };
}

TEST(LeastLimit, TheLimitThatIsNamedWorks) {
  for (const Case& c : cases()) {
    int64_t limit = 1;
    int refusals = 0;
    for (bool done = false; !done; ++refusals) {
      SessionOptions options;
      options.memory_limit = limit;
      options.intra_op_threads = 1;
      options.lanes = c.lanes;
      auto session = Session::from_graph(graph_from_text(c.text).value(), options);
      Status status = session.status();
      if (status.ok()) {
        std::vector<Value> outputs((*session)->outputs().size());
        status = (*session)->run_ordered(c.inputs, outputs);
        EXPECT_LE((*session)->memory_statistics().peak, limit) << c.name;
      }
      done = status.ok();
      if (done) break;
      ASSERT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << c.name << ": " << status;
      ASSERT_GT(least_of(status), limit) << c.name << ": " << status;
      limit = least_of(status);
      if (std::string_view(c.name) == "unbounded" && refusals > 0) {
        EXPECT_THAT(std::string(status.message()), testing::HasSubstr("it may take more")) << status;
      }
    }
    EXPECT_LE(refusals, c.most_refusals) << c.name;
  }
}

// How often each step began.
struct Begins final : StepSink {
  void on_begin(const StepEvent& e) override { ++steps[e.step]; }
  void on_step(const StepEvent&) override {}
  std::map<int32_t, int> steps;
};

TEST(LeastLimit, ARunThatIsRefusedLateIsNotTriedAgain) {
  SessionOptions options;
  options.intra_op_threads = 1;
  auto session = Session::from_graph(
      graph_from_text("graph(%x: f32[64,64]) { %a = Softmax(%x) %b = Relu(%a) %i = NonZero(%b) return %i }").value(),
      options);
  ASSERT_TRUE(session.ok()) << session.status();
  const Value x = random_floats({64, 64}, 1);
  ASSERT_TRUE((*session)->set_memory_limit(40'000).ok());  // without what NonZero finds
  for (int round = 0; round < 2; ++round) {
    Begins begins;
    RunOptions how;
    how.sink = &begins;
    std::vector<Value> outputs(1);
    const Status status = (*session)->run_ordered({&x, 1}, outputs, how);
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    EXPECT_GE(begins.steps.size(), 2u);
    for (const auto& [step, times] : begins.steps) EXPECT_EQ(times, 1) << step;
  }
}

// What an input is copied to comes on top of all that a run takes.
TEST(LeastLimit, TheLimitThatARefusedCopyNamesHoldsTheRunToo) {
  SessionOptions options;
  options.intra_op_threads = 1;
  auto session =
      Session::from_graph(
          graph_from_text("graph(%x: f32[N,64]) { %a = Softmax(%x) %i = NonZero(%a) return %i }").value(), options)
          .value();
  const Value x = random_floats({64, 64}, 1);
  const auto none = [] { return int64_t{0}; };
  ASSERT_TRUE(session->set_memory_limit(1).ok());
  const Status before = session->take_io(DType::kFloat, Dims{64, 64}, "x", none).status();
  EXPECT_THAT(std::string(before.message()), testing::HasSubstr("what a run takes comes on top: none was planned yet"));
  ASSERT_TRUE(session->set_memory_limit(0).ok());
  std::vector<Value> outputs(1);
  ASSERT_TRUE(session->run_ordered({&x, 1}, outputs).ok());
  outputs[0] = Value();
  session->trim();
  ASSERT_TRUE(session->set_memory_limit(1).ok());
  const Status refused = session->take_io(DType::kFloat, Dims{64, 64}, "x", none).status();
  ASSERT_EQ(refused.code(), absl::StatusCode::kResourceExhausted) << refused;
  ASSERT_TRUE(session->set_memory_limit(least_of(refused)).ok()) << refused;
  auto copy = session->take_io(DType::kFloat, Dims{64, 64}, "x", none);
  ASSERT_TRUE(copy.ok()) << copy.status();
  std::memcpy(copy->data, x.tensor().data, 64 * 64 * 4);
  const Value fed(*std::move(copy));
  const Status status = session->run_ordered({&fed, 1}, outputs);
  EXPECT_TRUE(status.ok()) << status;
}

TEST(LeastLimit, RunsAtOnceGetThroughOnceTheLimitHoldsThemAll) {
  const Case c = cases()[2];
  SessionOptions options;
  options.intra_op_threads = 1;
  auto session = Session::from_graph(graph_from_text(c.text).value(), options).value();
  std::vector<Value> outputs(1);
  ASSERT_TRUE(session->run_ordered(c.inputs, outputs).ok());
  outputs[0] = Value();
  session->trim();
  ASSERT_TRUE(session->set_memory_limit(session->memory_report().least).ok());
  int rounds = 0;
  for (bool all = false; !all; ++rounds) {
    ASSERT_LT(rounds, 50);
    std::vector<AsyncRun> runs;
    for (int r = 0; r < 4; ++r) {
      AsyncRequest request;
      request.feeds = {{"x", c.inputs[0]}};
      runs.push_back(session->run_async(std::move(request)).value());
    }
    all = true;
    int64_t least = 0;
    for (AsyncRun& run : runs) {
      const Status status = run.wait();
      all = all && status.ok();
      if (!status.ok()) {
        ASSERT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
        least = std::max(least, least_of(status));
      }
    }
    runs.clear();
    EXPECT_LE(session->memory_statistics().peak, session->memory_statistics().limit);
    if (all) break;
    const int64_t limit = session->memory_statistics().limit;
    ASSERT_TRUE(session->set_memory_limit(std::max(least, limit + 4096)).ok());
  }
  EXPECT_EQ(session->memory_statistics().live, session->memory_statistics().of(MemoryRole::weights).live);
}

}  // namespace
}  // namespace forethought
