// What control flow does with memory: flat after the second trip, no copies at the border, bounds, endless loops.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <thread>

#include "graph/text.h"
#include "memory/memory_calls_testing.h"
#include "session/session_testing.h"

namespace forethought {
namespace {

using testing::HasSubstr;

constexpr int64_t kForever = std::numeric_limits<int64_t>::max();

Value flag(bool b) { return tensor_of<bool>({}, {b}); }
Value number(int64_t n) { return tensor_of<int64_t>({}, {n}); }
Value vec(std::vector<float> v) { return tensor_of<float>({static_cast<int64_t>(v.size())}, v); }

SessionOptions one_thread() {
  SessionOptions o;
  o.intra_op_threads = 1;
  return o;
}

// Copies that one run makes.
int64_t copies_of_run(Session& session, const std::vector<Value>& inputs) {
  std::vector<Value> outputs(session.outputs().size());
  const int64_t before = session.summary().copies;
  const Status ran = session.run_ordered(inputs, outputs);
  EXPECT_TRUE(ran.ok()) << ran;
  return session.summary().copies - before;
}

// After a run of two trips, one of a thousand takes no more memory, and nothing is copied between body and outside.
void expect_flat(const std::string& text, const std::vector<Value>& short_run, const std::vector<Value>& long_run,
                 bool memory = true) {
  const auto session = session_of(text, one_thread());
  ASSERT_TRUE(session);
  EXPECT_EQ(copies_of_run(*session, short_run), 0) << text;
  EXPECT_EQ(copies_of_run(*session, short_run), 0) << text;
  EXPECT_EQ(copies_of_run(*session, long_run), 0) << text;
  if (!memory || !MemoryCallRecorder::attributes_callers()) return;
  std::vector<Value> outputs(session->outputs().size());
  ASSERT_TRUE(session->run_ordered(short_run, outputs).ok());
  for (Value& v : outputs) v = Value();
  MemoryCallRecorder recorder;
  recorder.start();
  const Status ran = session->run_ordered(long_run, outputs);
  for (Value& v : outputs) v = Value();
  recorder.stop();
  ASSERT_TRUE(ran.ok()) << ran;
  EXPECT_TRUE(recorder.ours().none()) << text << recorder.first_of_ours();
}

TEST(ControlMemory, Check22_LoopIsFlatAfterTheSecondTrip) {
  const Value x = tensor_of<float>({4, 8}, std::vector<float>(32, 0.5f));
  const std::string loop = R"(graph(%s0: f32[4,8], %k: f32[4,8], %m: i64[]) {
    %s = Loop(%m, bool true, %s0; %k) {
      body: graph(%i: i64[], %t: bool[], %a: f32[4,8], %k2: f32[4,8]) {
        %b = Mul(%a, 0.5)
        %d = Softmax(%b)
        %e = Add(%d, %k2)
        %u = Identity(%t)
        return %u, %e
      }
    }
    return %s
  })";
  expect_flat(loop, {x, x, number(2)}, {x, x, number(1000)});
  // States that change places, with an even and an odd number of trips: by turns each lies in the other's memory.
  const std::string swap = R"(graph(%p0: f32[4,8], %q0: f32[4,8], %m: i64[]) {
    %p, %q = Loop(%m, bool true, %p0, %q0) {
      body: graph(%i: i64[], %t: bool[], %a: f32[4,8], %b: f32[4,8]) {
        %c = Add(%b, 1.0)
        %d = Neg(%a)
        return %t, %c, %d
      }
    }
    return %p, %q
  })";
  expect_flat(swap, {x, x, number(2)}, {x, x, number(1000)});
  expect_flat(swap, {x, x, number(3)}, {x, x, number(1001)});
  // Slices go where they belong, in a result that is as large as the number of trips says.
  const std::string scans = R"(graph(%s0: f32[8], %m: i64[]) {
    %s, %z = Loop(%m, bool true, %s0) {
      body: graph(%i: i64[], %t: bool[], %a: f32[8]) {
        %b = Mul(%a, 0.5)
        %d = Neg(%b)
        return %t, %b, %d
      }
    }
    return %s, %z
  })";
  expect_flat(scans, {vec(std::vector<float>(8, 1)), number(2)}, {vec(std::vector<float>(8, 1)), number(1000)}, false);
  // The trip count is a constant: even the result is planned.
  std::string fixed = scans;
  fixed.replace(fixed.find(", %m: i64[]"), 11, "");
  fixed.replace(fixed.find("Loop(%m"), 7, "Loop(i64 1000");
  expect_flat(fixed, {vec(std::vector<float>(8, 1))}, {vec(std::vector<float>(8, 1))});
}

TEST(ControlMemory, Check22_StatesOfUnknownSizeAreFlat) {
  const std::string text = R"(graph(%x: f32[N], %m: i64[]) {
    %at = NonZero(%x)
    %s0 = Cast<to=1>(%at)
    %s = Loop(%m, bool true, %s0) {
      body: graph(%i: i64[], %t: bool[], %a: f32?) {
        %b = Mul(%a, 0.5)
        %d = Add(%b, 1.0)
        return %t, %d
      }
    }
    return %s
  })";
  const Value x = vec({1, 0, 2, 3, 0, 4});
  const auto session = session_of(text, one_thread());
  ASSERT_TRUE(session);
  std::vector<Value> outputs(1);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(session->run_ordered(std::vector<Value>{x, number(3)}, outputs).ok());
  if (!MemoryCallRecorder::attributes_callers()) return;
  const auto calls = [&](int64_t trips) {
    const std::vector<Value> in = {x, number(trips)};
    MemoryCallRecorder recorder;
    recorder.start();
    const Status ran = session->run_ordered(in, outputs);
    recorder.stop();
    EXPECT_TRUE(ran.ok()) << ran;
    return recorder.ours();
  };
  // Resolving the steps whose shapes only the run tells may call for memory; their number does not depend on trips.
  const MemoryCalls few = calls(3), many = calls(1000);
  EXPECT_EQ(few.maps, 0);
  EXPECT_EQ(many.maps, 0);
  EXPECT_EQ(many.allocations, few.allocations);
}

TEST(ControlMemory, Check22_BranchesShareOnePlaceAndCopyNothing) {
  const std::string text = R"(graph(%x: f32[64], %c: bool[]) {
    %y = If(%c; %x) {
      then_branch: graph(%a: f32[64]) {
        %p = Exp(%a)
        %q = Softmax(%p)
        %r = Add(%q, %p)
        return %r
      }
      else_branch: graph(%a: f32[64]) {
        %p = Neg(%a)
        %q = Softmax(%p)
        %r = Mul(%q, %p)
        return %r
      }
    }
    return %y
  })";
  const Value x = vec(std::vector<float>(64, 0.25f));
  expect_flat(text, {x, flag(true)}, {x, flag(true)});
  expect_flat(text, {x, flag(false)}, {x, flag(false)});
  const auto session = session_of(text, one_thread());
  ASSERT_TRUE(session);
  const auto plan = session->plan_for(std::vector<Dims>{{64}, {}});
  ASSERT_TRUE(plan.ok()) << plan.status();
  const auto& bodies = (*plan)->bodies;
  ASSERT_EQ(bodies.size(), 2u);
  int64_t largest = 0, sum = 0;
  for (const auto& [key, body] : bodies) {
    largest = std::max(largest, body->slab_bytes);
    sum += body->slab_bytes;
  }
  EXPECT_EQ((*plan)->slab_bytes, largest);
  EXPECT_LT((*plan)->slab_bytes, sum);
}

TEST(ControlMemory, Check22_NestedBodiesLieInsideOneSlab) {
  const std::string text = R"(graph(%x: f32[16], %m: i64[], %c: bool[]) {
    %y = Loop(%m, bool true, %x; %c) {
      body: graph(%i: i64[], %t: bool[], %a: f32[16], %c1: bool[]) {
        %b = If(%c1; %a) {
          then_branch: graph(%p: f32[16]) {
            %q = Loop(i64 3, bool true, %p) {
              body: graph(%i2: i64[], %t2: bool[], %d: f32[16]) {
                %e = Softmax(%d)
                %f = Mul(%e, 2.0)
                return %t2, %f
              }
            }
            return %q
          }
          else_branch: graph(%p: f32[16]) { %q = Neg(%p) return %q }
        }
        return %t, %b
      }
    }
    return %y
  })";
  const Value x = vec(std::vector<float>(16, 1));
  for (const bool c : {true, false}) expect_flat(text, {x, number(2), flag(c)}, {x, number(1000), flag(c)});
}

// What a body captures is read where it lies, however large; so is a state that no trip changes.
TEST(ControlMemory, CapturesAndUnchangedStatesAreReadInPlace) {
  const std::string text = R"(graph(%big: f32[1000,100], %s0: f32[100], %m: i64[]) {
    %s, %same = Loop(%m, bool true, %s0, %big; %big) {
      body: graph(%i: i64[], %t: bool[], %a: f32[100], %b: f32[1000,100], %k: f32[1000,100]) {
        %row = Gather(%k, %i)
        %c = Add(%a, %row)
        return %t, %c, %b
      }
    }
    %y = ReduceSum<keepdims=0>(%same)
    return %s, %y
  })";
  const auto session = session_of(text, one_thread());
  ASSERT_TRUE(session);
  const std::vector<float> ones(100000, 1);
  std::vector<Value> in = {tensor_of<float>({1000, 100}, ones), vec(std::vector<float>(100, 0)), number(1000)};
  std::vector<Value> out(2);
  const SessionSummary before = session->summary();
  ASSERT_TRUE(session->run_ordered(in, out).ok());
  const SessionSummary after = session->summary();
  EXPECT_EQ(after.copies - before.copies, 1);  // the unchanged state, once, to where the node's output lies
  EXPECT_EQ(after.copied_bytes - before.copied_bytes, 400000);
  EXPECT_EQ(floats(out[0]), std::vector<float>(100, 1000));
  EXPECT_EQ(floats(out[1]), std::vector<float>{100000});
}

// A condition decides how many slices there are: the result grows by doubling, so at most twice its size is moved.
TEST(ControlMemory, ResultsOfUnknownLengthDouble) {
  const std::string text = R"(graph(%limit: i64[], %m: i64[], %k: f32[64]) {
    %n, %z = Loop(%m, bool true, i64 0; %limit, %k) {
      body: graph(%i: i64[], %t: bool[], %a: i64[], %limit2: i64[], %k2: f32[64]) {
        %b = Add(%a, i64 1)
        %left = Sub(%limit2, %b)
        %more = Max(%left, i64 0)
        %c = Cast<to=9>(%more)
        %f = Cast<to=1>(%b)
        %d = Mul(%k2, %f)
        return %c, %b, %d
      }
    }
    return %n, %z
  })";
  const auto session = session_of(text, one_thread());
  ASSERT_TRUE(session);
  for (const int64_t trips : {1, 2, 16, 17, 1000}) {
    std::vector<Value> out(2);
    const SessionSummary before = session->summary();
    const std::vector<Value> in = {number(trips), number(kForever), vec(std::vector<float>(64, 1))};
    const Status ran = session->run_ordered(in, out);
    ASSERT_TRUE(ran.ok()) << ran;
    EXPECT_EQ(int64s(out[0]), std::vector<int64_t>{trips});
    EXPECT_EQ(dims_of(out[1]), (Dims{trips, 64}));
    const std::vector<float> all = floats(out[1]);
    for (int64_t i = 0; i < trips; ++i) ASSERT_EQ(all[static_cast<size_t>(i * 64 + 63)], static_cast<float>(i + 1));
    const SessionSummary after = session->summary();
    EXPECT_LE(after.copied_bytes - before.copied_bytes, 3 * trips * 64 * 4 + 64);
    EXPECT_LE(after.copies - before.copies, 10);
  }
}

TEST(ControlMemory, TripCountOfTwoToThe63WithAConditionThatEnds) {
  const std::string text = R"(graph(%x: f32[4], %limit: i64[]) {
    %y = Loop(i64 9223372036854775807, bool true, %x; %limit) {
      body: graph(%i: i64[], %t: bool[], %a: f32[4], %limit2: i64[]) {
        %b = Add(%a, 1.0)
        %left = Sub(%limit2, %i)
        %more = Max(%left, i64 0)
        %c = Cast<to=9>(%more)
        return %c, %b
      }
    }
    return %y
  })";
  const auto session = session_of(text, one_thread());
  ASSERT_TRUE(session);
  std::vector<Value> out(1);
  std::string first;
  const auto calls = [&](int64_t limit) {
    const std::vector<Value> in = {vec({0, 0, 0, 0}), number(limit)};
    MemoryCallRecorder recorder;
    recorder.start();
    const Status ran = session->run_ordered(in, out);
    recorder.stop();
    EXPECT_TRUE(ran.ok()) << ran;
    first = recorder.first_of_ours();
    return recorder.ours();
  };
  calls(2);
  calls(3);
  out[0] = Value();
  const MemoryCalls many = calls(5000);
  EXPECT_EQ(floats(out[0])[0], 5001);
  if (MemoryCallRecorder::attributes_callers()) {
    EXPECT_TRUE(many.none()) << first;
  }
}

TEST(ControlMemory, AnEndlessLoopCanBeCancelled) {
  const std::string text = R"(graph(%x: f32[4], %m: i64[]) {
    %y, %n = Loop(_, bool true, %x, %m) {
      body: graph(%i: i64[], %t: bool[], %a: f32[4], %b: i64[]) {
        %c = Mul(%a, 0.5)
        %d = Add(%b, i64 1)
        return %t, %c, %d
      }
    }
    return %y, %n
  })";
  const auto session = session_of(text, one_thread());
  ASSERT_TRUE(session);
  RunOptions options;
  std::vector<Value> out(2);
  Status ran;
  std::thread runner([&] {
    ran = session->run_ordered(std::vector<Value>{vec({1, 2, 3, 4}), number(0)}, out, options);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  options.cancel.cancel();
  runner.join();
  ASSERT_FALSE(ran.ok());
  EXPECT_TRUE(absl::IsCancelled(ran)) << ran;
  EXPECT_TRUE(out[0].is_none());
}

TEST(ControlMemory, ResultsThatNoMemoryHoldsAreRefused) {
  const auto text = [](const std::string& inputs, const std::string& trips, const std::string& slice) {
    return "graph(" + inputs + "%x: f32[4]) { _, %z = Loop(" + trips +
           ", bool true, i64 0; %x) { body: graph(%i: i64[], %t: bool[], %s: i64[], %k: f32[4]) {" +
           " %n = Add(%s, i64 1) %e = " + slice + " return %t, %n, %e } } return %z }";
  };
  // A constant trip count: refused at load.
  auto graph = graph_from_text(text("", "i64 9223372036854775807", "Neg(%k)"));
  ASSERT_TRUE(graph.ok()) << graph.status();
  const auto refused = Session::from_graph(std::move(*graph));
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("no memory holds"));
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("lower the trip count"));
  // One that comes with the run: refused before the first trip.
  const auto session = session_of(text("%m: i64[], ", "%m", "Neg(%k)"));
  ASSERT_TRUE(session);
  for (const int64_t trips : {kForever, kForever / 16, int64_t{1} << 45}) {
    std::vector<Value> out(1);
    const Status ran = session->run_ordered(std::vector<Value>{number(trips), vec({1, 2, 3, 4})}, out);
    ASSERT_FALSE(ran.ok()) << trips;
    EXPECT_TRUE(absl::IsResourceExhausted(ran)) << ran;
    EXPECT_THAT(std::string(ran.message()), HasSubstr("Loop")) << ran;
  }
  std::vector<Value> out(1);
  ASSERT_TRUE(session->run_ordered(std::vector<Value>{number(2), vec({1, 2, 3, 4})}, out).ok());
  EXPECT_EQ(floats(out[0]), (std::vector<float>{-1, -2, -3, -4, -1, -2, -3, -4}));
}

// A result that outgrows the limit ends the run where it does, and everything comes back.
TEST(ControlMemory, AGrowingResultStopsAtTheLimit) {
  const std::string text = R"(graph(%x: f32[1024], %t: bool[]) {
    %z = Loop(_, %t; %x) {
      body: graph(%i: i64[], %c: bool[], %k: f32[1024]) { %e = Neg(%k) return %c, %e }
    }
    return %z
  })";
  SessionOptions options = one_thread();
  options.memory_limit = 8 << 20;
  const auto session = session_of(text, options);
  ASSERT_TRUE(session);
  const Value x = vec(std::vector<float>(1024, 1));
  for (int i = 0; i < 2; ++i) {
    std::vector<Value> out(1);
    const Status ran = session->run_ordered(std::vector<Value>{x, flag(true)}, out);
    ASSERT_FALSE(ran.ok());
    EXPECT_TRUE(absl::IsResourceExhausted(ran)) << ran;
    EXPECT_THAT(std::string(ran.message()), HasSubstr("scan output")) << ran;
  }
  std::vector<Value> out(1);
  ASSERT_TRUE(session->run_ordered(std::vector<Value>{x, flag(false)}, out).ok());
  EXPECT_EQ(dims_of(out[0]), (Dims{0, 1024}));
}

// A weight that a body captures is packed when the session is made, once for all runs and trips.
TEST(ControlMemory, CapturedWeightsArePackedAtLoad) {
  std::string weight;
  for (int i = 0; i < 64 * 64; ++i) weight += (i ? ", " : "") + std::to_string(i % 7);
  const std::string text = "graph(%x: f32[4,64], %m: i64[]) { const %w: f32[64,64] = [" + weight +
                           R"(] %y = Loop(%m, bool true, %x; %w) {
    body: graph(%i: i64[], %t: bool[], %a: f32[4,64], %v: f32[64,64]) {
      %b = MatMul(%a, %v)
      %d = Mul(%b, 0.001)
      return %t, %d
    }
  } return %y })";
  SessionOptions plain = one_thread();
  plain.optimization_level = OptimizationLevel::disabled;
  const auto unpacked = session_of(text, plain), packed = session_of(text, one_thread());
  ASSERT_TRUE(unpacked && packed);
  EXPECT_EQ(unpacked->summary().weights_packed, 0);
  EXPECT_GE(packed->summary().weights_packed, 64 * 64 * 4);
  const Value x = tensor_of<float>({4, 64}, std::vector<float>(256, 1));
  std::vector<Value> a(1), b(1);
  ASSERT_TRUE(packed->run_ordered(std::vector<Value>{x, number(3)}, a).ok());
  ASSERT_TRUE(unpacked->run_ordered(std::vector<Value>{x, number(3)}, b).ok());
  EXPECT_EQ(floats(a[0]).size(), floats(b[0]).size());
  for (size_t i = 0; i < 256; ++i) EXPECT_NEAR(floats(a[0])[i], floats(b[0])[i], 1e-3 * std::abs(floats(b[0])[i]));
}

TEST(ControlMemory, DepthIsBounded) {
  for (const int depth : {60, 70, 300}) {
    std::string inner = "graph(%x0: f32[2], %c0: bool[]) { %r = Neg(%x0) return %r }";
    for (int d = 1; d <= depth; ++d) {
      const std::string n = std::to_string(d);
      inner = "graph(%x" + n + ": f32[2], %c" + n + ": bool[]) { %r = If(%c" + n + "; %x" + n + ", %c" + n +
              ") { then_branch: " + inner +
              " else_branch: graph(%a: f32[2], %b: bool[]) { %e = Identity(%a) return %e } } return %r }";
    }
    auto graph = graph_from_text(inner);
    if (!graph.ok()) {
      EXPECT_GT(depth, 64);
      EXPECT_THAT(std::string(graph.status().message()), HasSubstr("nested")) << graph.status();
      continue;
    }
    const auto session = Session::from_graph(std::move(*graph));
    if (depth <= 64) {
      ASSERT_TRUE(session.ok()) << session.status();
      std::vector<Value> out(1);
      ASSERT_TRUE((*session)->run_ordered(std::vector<Value>{vec({1, 2}), flag(true)}, out).ok());
      EXPECT_EQ(floats(out[0]), (std::vector<float>{-1, -2}));
    } else {
      ASSERT_FALSE(session.ok());
      EXPECT_THAT(std::string(session.status().message()), HasSubstr("nested deeper than 64")) << session.status();
    }
  }
}

}  // namespace
}  // namespace forethought
