// Bits do not depend on the number of threads, on other runs, or on whether values share memory.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "session/session_testing.h"
#include "session/small_net_testing.h"

namespace forethought {
namespace {

std::vector<std::byte> run_bytes(Session& session, const std::vector<Value>& inputs) {
  std::vector<Value> outputs(session.outputs().size());
  const Status status = session.run_ordered(inputs, outputs);
  EXPECT_TRUE(status.ok()) << status;
  std::vector<std::byte> all;
  for (const Value& v : outputs) {
    if (!v.is_tensor()) continue;
    const auto* const data = static_cast<const std::byte*>(v.tensor().data);
    all.insert(all.end(), data, data + v.tensor().bytes());
  }
  return all;
}

TEST(Threads, A59_SameBitsForAnyNumberOfThreads) {
  const std::vector<Value> inputs = {random_floats({1, 3, 20, 20}, 1)};
  std::vector<std::byte> reference;
  for (const int threads : {1, 2, 4, 8}) {
    SessionOptions options;
    options.intra_op_threads = threads;
    const auto session = session_of(small_net(), options);
    ASSERT_TRUE(session);
    const std::vector<std::byte> alone = run_bytes(*session, inputs);
    if (reference.empty()) reference = alone;
    EXPECT_EQ(alone, reference) << threads << " threads";
  }
}

TEST(Threads, A59_SameBitsBesideOtherRuns) {
  SessionOptions options;
  options.intra_op_threads = 4;
  const auto session = session_of(small_net(), options);
  ASSERT_TRUE(session);
  constexpr int kThreads = 4, kRuns = 30;
  std::vector<std::vector<Value>> inputs;
  std::vector<std::vector<std::byte>> expected;
  for (uint64_t t = 0; t < kThreads; ++t) {
    inputs.push_back({random_floats({1, 3, 20, 20}, t)});
    expected.push_back(run_bytes(*session, inputs.back()));
  }
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int r = 0; r < kRuns; ++r) wrong += run_bytes(*session, inputs[t]) != expected[t];
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Sharing, SameBitsWithoutViewsAndInPlace) {
  const struct {
    std::string text;
    Dims dims;
  } nets[] = {{small_net(), {1, 3, 20, 20}}, {plain_net(), {4, 64}}};
  for (const auto& net : nets) {
    const std::vector<Value> inputs = {random_floats(net.dims, 1)};
    SessionOptions options;
    options.validate_plans = true;
    const auto shared = session_of(net.text, options);
    options.share = false;
    const auto apart = session_of(net.text, options);
    ASSERT_TRUE(shared && apart);
    EXPECT_EQ(run_bytes(*shared, inputs), run_bytes(*apart, inputs));
    const Dims dims[] = {net.dims};
    const auto plan = apart->plan_for(dims);
    ASSERT_TRUE(plan.ok()) << plan.status();
    for (const ValuePlace& place : (*plan)->plan.values) EXPECT_EQ(place.place, Place::own);
    EXPECT_GE(apart->summary().peak, shared->summary().peak);
  }
}

}  // namespace
}  // namespace forethought
