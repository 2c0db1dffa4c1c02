// Models of any shape: what a new shape may keep, and what a shape seen before costs.
#include <gtest/gtest.h>

#include <random>

#include "session/memory_calls_testing.h"
#include "session/session_testing.h"
#include "session/small_net_testing.h"

namespace forethought {
namespace {

// Views, overwrites, a concatenation by placement, an attention, and a shape that follows from the length.
constexpr const char* kAttention = R"(graph(%x: f32[1,L,16]) {
  %k = Transpose<perm=[0,2,1]>(%x)
  %s = MatMul(%x, %k)
  %w = Softmax(%s)
  %m = MatMul(%w, %x)
  %a = Add(%m, %x)
  %d = Shape(%a)
  %n = Slice(%d, [1], [2])
  %t = Concat<axis=0>(%n, [16])
  %f = Reshape(%a, %t)
  %r = Relu(%f)
  %g = Mul(%r, 0.5)
  %c = Concat<axis=0>(%r, %g)
  %y = Exp(%c)
  return %y
})";

void run_at(Session& session, int64_t length, std::vector<Value>* outputs) {
  for (Value& v : *outputs) v = Value();
  const Status s = session.run_ordered(std::vector<Value>{random_floats({1, length, 16}, length)}, *outputs);
  ASSERT_TRUE(s.ok()) << s;
}

TEST(Shapes, Check23_ManyLengthsKeepOneLargestSlab) {
  const auto session = session_of(kAttention);
  ASSERT_TRUE(session);
  std::mt19937 random(5);
  std::vector<Value> outputs(1);
  int64_t largest = 0, length = 0;
  for (int i = 0; i < 300; ++i) {
    length = 1 + static_cast<int64_t>(random() % 256);
    run_at(*session, length, &outputs);
    largest = std::max(largest, session->summary().peak);
    const MemoryUse slabs = session->memory_statistics().of(MemoryRole::planned);
    EXPECT_LE(static_cast<double>(slabs.live + slabs.retained), 1.25 * static_cast<double>(largest) + 4096);
  }
  const SessionSummary s = session->summary();
  EXPECT_GT(s.plans.misses, 100);
  EXPECT_LE(s.plans.misses - s.plans.evicted, session->options().plan_cache_capacity);
  EXPECT_LE(s.instances.bytes, InstanceCache::kDefaultBytes);

  const std::vector<Value> inputs = {random_floats({1, length, 16}, 1)};
  for (int warm = 0; warm < 2; ++warm) ASSERT_TRUE(session->run_ordered(inputs, outputs).ok());
  MemoryCallRecorder recorder;
  recorder.start();
  outputs[0] = Value();
  const Status again = session->run_ordered(inputs, outputs);
  recorder.stop();
  EXPECT_TRUE(again.ok()) << again;
  EXPECT_TRUE(recorder.ours().none()) << recorder.first_of_ours();
}

// Sets of dims whose exclusive or, sum and product are the same.
TEST(Shapes, Check24_ShapesThatCollideInWeakerKeysHavePlansOfTheirOwn) {
  const auto session = session_of(R"(graph(%x: f32[N,M], %z: f32[K]) {
    %a = ReduceSum(%x, [1])
    %b = ReduceSum(%z, [0])
    %y = Add(%a, %b)
    return %y
  })");
  ASSERT_TRUE(session);
  const std::vector<std::array<int64_t, 3>> shapes = {{2, 2, 5}, {3, 3, 5}, {2, 5, 2}, {5, 2, 2}, {1, 6, 2}, {6, 1, 2}};
  for (const auto& [n, m, k] : shapes) {
    std::vector<Value> outputs(1);
    const Status s = session->run_ordered(std::vector<Value>{random_floats({n, m}, 1), random_floats({k}, 2)}, outputs);
    ASSERT_TRUE(s.ok()) << s;
    EXPECT_EQ(dims_of(outputs[0]), (Dims{n, 1}));
  }
  EXPECT_EQ(session->summary().plans.misses, static_cast<int64_t>(shapes.size()));
  EXPECT_EQ(session->summary().plans.hits, 0);
}

}  // namespace
}  // namespace forethought
