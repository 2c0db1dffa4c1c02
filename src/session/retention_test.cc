// What arenas keep by default: shapes that come by turns find their buffers again, shapes that come once leave nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <thread>

#include "memory/block_pool.h"
#include "memory/memory_calls_testing.h"
#include "memory/system.h"
#include "session/memory_report.h"
#include "session/session_testing.h"
#include "session/small_net_testing.h"

namespace forethought {
namespace {

SessionOptions one_thread() {
  SessionOptions o;
  o.intra_op_threads = 1;
  return o;
}

constexpr const char* kRows = R"(graph(%x: f32[N,1024]) {
  %a = Softmax(%x)
  %b = Concat<axis=1>(%a, %x)
  %y = Relu(%b)
  return %y
})";
// Bytes of the block that the output of so many rows takes.
int64_t output_of(int64_t rows) { return BlockPool::class_bytes(rows * 2048 * 4); }

struct Runs {
  std::unique_ptr<Session> session;
  std::vector<std::vector<Value>> inputs;
  std::vector<Value> outputs;

  Runs(const char* text, std::vector<std::vector<Value>> feeds)
      : session(session_of(text, one_thread())), inputs(std::move(feeds)), outputs(session->outputs().size()) {}
  void round() {
    for (const auto& in : inputs) {
      for (Value& v : outputs) v = Value();
      const Status status = session->run_ordered(in, outputs);
      ASSERT_TRUE(status.ok()) << status;
    }
    for (Value& v : outputs) v = Value();
  }
  // Calls for memory of `rounds` rounds, after three others.
  MemoryCallRecorder steady(int rounds = 10) {
    for (int warm = 0; warm < 3; ++warm) round();
    MemoryCallRecorder recorder;
    recorder.start();
    for (int r = 0; r < rounds; ++r) round();
    recorder.stop();
    return recorder;
  }
  int64_t retained(MemoryRole role) const { return session->memory_statistics().of(role).retained; }
};

std::vector<std::vector<Value>> of_rows(std::initializer_list<int64_t> rows) {
  std::vector<std::vector<Value>> inputs;
  for (const int64_t n : rows) inputs.push_back({random_floats({n, 1024}, static_cast<uint64_t>(n))});
  return inputs;
}

TEST(Retention, ShapesByTurnsCallForNoMemory) {
  // The outputs take 8, 4, 2.5 and 1.5 MiB: twice what the largest takes.
  Runs runs(kRows, of_rows({1024, 320, 512, 192}));
  const MemoryCallRecorder recorder = runs.steady();
  EXPECT_TRUE(recorder.ours().none()) << recorder.first_of_ours();
  const int64_t all = output_of(1024) + output_of(512) + output_of(320) + output_of(192);
  EXPECT_EQ(runs.retained(MemoryRole::leased), all);
  // The slab is that of the largest, all the time.
  EXPECT_EQ(runs.retained(MemoryRole::planned),
            Pages::rounded(runs.session->plan_for({{Dims{1024, 1024}}}).value()->slab_bytes));
  // An explicit cap holds, and what was learned is forgotten with a trim to nothing.
  ASSERT_TRUE(runs.session->set_retention({.io = output_of(1024)}).ok());
  EXPECT_LE(runs.retained(MemoryRole::leased), output_of(1024));
  ASSERT_TRUE(runs.session->set_retention({}).ok());
  runs.session->trim();
  EXPECT_EQ(runs.retained(MemoryRole::leased), 0);
  runs.round();
  EXPECT_LE(runs.retained(MemoryRole::leased), output_of(1024) * 5 / 4);
}

TEST(Retention, ManyLengthsKeepTheOutputsOfTheLargest) {
  Runs runs(kRows, {});
  std::mt19937 random(7);
  int64_t largest = 0;
  for (int i = 0; i < 100; ++i) {
    const int64_t rows = 1 + static_cast<int64_t>(random() % 400);
    largest = std::max(largest, output_of(rows));
    runs.inputs = of_rows({rows, rows});
    runs.round();
    ASSERT_LE(runs.retained(MemoryRole::leased), std::max(kRetainAlways, largest + largest / 4)) << i;
  }
}

TEST(Retention, BodiesThatHaveSlabsOfTheirOwnShareThemBetweenShapes) {
  // How many elements are above zero is known only then: the body is planned for what comes.
  constexpr const char* kText = R"(graph(%x: f32[N], %c: bool[]) {
  %i = NonZero(%x)
  %f = Cast<to=1>(%i)
  %y = If(%c; %f) {
    then_branch: graph(%f: f32[1,M]) { %s = Softmax(%f) %t = Concat<axis=0>(%s, %f) %u = Softmax<axis=0>(%t) %v = ReduceMax(%u) return %v }
    else_branch: graph(%f: f32[1,M]) { %w = ReduceMin(%f) return %w }
  }
  return %y
})";
  std::vector<std::vector<Value>> inputs;
  for (const int64_t n : {5000, 20000, 9000, 40000})
    inputs.push_back({random_floats({n}, static_cast<uint64_t>(n)), tensor_of<bool>({}, {true})});
  Runs runs(kText, inputs);
  for (int warm = 0; warm < 3; ++warm) runs.round();
  const int64_t calls = runs.session->memory_statistics().system_calls;
  for (int r = 0; r < 10; ++r) runs.round();
  EXPECT_EQ(runs.session->memory_statistics().system_calls, calls);
  EXPECT_GT(runs.retained(MemoryRole::planned), 0);
}

TEST(Retention, ValuesOfUnknownSizeFindTheirBlocksAgainWhateverTheirSizes) {
  // First one block of 8 MiB, then eight of a little more than one at a time, and one of 9.
  constexpr const char* kText = R"(graph(%x: f32[N]) {
  %i = NonZero(%x)
  %m = ReduceMax(%i)
  %p: f32[140000] = Slice(%x, [0], [140000])
  %a = NonZero(%p) %b = NonZero(%p) %c = NonZero(%p) %d = NonZero(%p)
  %e = NonZero(%p) %f = NonZero(%p) %g = NonZero(%p) %h = NonZero(%p)
  %s = Concat<axis=1>(%a, %b, %c, %d, %e, %f, %g, %h)
  %t = ReduceMax(%s)
  return %m, %t
})";
  SessionOptions options = one_thread();
  options.optimization_level = OptimizationLevel::disabled;
  Runs runs(kText, {{random_floats({1 << 20}, 3)}});
  runs.session = session_of(kText, options);
  for (int warm = 0; warm < 3; ++warm) runs.round();
  const int64_t calls = runs.session->memory_statistics().system_calls;
  for (int r = 0; r < 5; ++r) runs.round();
  EXPECT_EQ(runs.session->memory_statistics().system_calls, calls);
  EXPECT_GT(runs.retained(MemoryRole::unplanned), 24 << 20);
}

// About one element in a hundred is found: blocks grow to what comes, far below the bound of the values, and after a
// few runs the system is hardly asked again.
TEST(Retention, A55_TheSideArenaGrowsByWhatComesNotByItsBound) {
  constexpr int64_t kElements = 1 << 20;
  SessionOptions options = one_thread();
  options.optimization_level = OptimizationLevel::disabled;
  const auto session = session_of(R"(graph(%x: f32[N]) {
    %found = NonZero(%x)
    %float = Cast<to=1>(%found)
    %y = ReduceSum(%float, [1])
    return %y
  })",
                                  options);
  ASSERT_TRUE(session);
  std::mt19937 rng(5);
  int64_t most_kept = 0, calls_when_warm = 0, most_found = 0;
  for (int run = 0; run < 200; ++run) {
    Tensor x;
    std::vector<float> data(kElements);
    const auto apart = std::uniform_int_distribution<size_t>(66, 200)(rng);
    for (size_t i = 0; i < data.size(); i += apart) data[i] = 1;
    const auto found = static_cast<int64_t>((data.size() + apart - 1) / apart);
    x.dtype = DType::kFloat;
    x.dims = {kElements};
    x.data = data.data();
    std::vector<Value> outputs(1);
    ASSERT_TRUE(session->run_ordered(std::vector{Value(x)}, outputs).ok());
    most_found = std::max(most_found, found);
    const MemoryStatistics now = session->memory_statistics();
    most_kept = std::max(most_kept, now.of(MemoryRole::unplanned).mapped());
    if (run == 50) calls_when_warm = now.system_calls;
  }
  const int64_t bound = session->memory_report().unplanned_most, live = most_found * (8 + 4);
  EXPECT_EQ(bound, BlockPool::class_bytes(kElements * 8) + BlockPool::class_bytes(kElements * 4));
  EXPECT_LE(most_kept, std::max(kRetainAlways, 2 * (live + live / 8)));
  EXPECT_LT(most_kept, bound / 10);
  EXPECT_LE(session->memory_statistics().system_calls - calls_when_warm, 20);
}

TEST(Retention, AnElementThatIsHeldWastesAtMostAnEighth) {
  // It takes pages that had served a larger one: what is over of them is kept, and goes with a trim.
  const auto session = session_of(R"(graph(%x: f32[N]) {
  %i = NonZero(%x)
  %y = SequenceConstruct(%i)
  return %y
})",
                                  one_thread());
  ASSERT_TRUE(session);
  std::vector<Value> held;
  int64_t asked = 0;
  for (const int64_t n : {1000000, 270000, 1000000, 270000, 90000, 25000, 100}) {
    const std::vector<Value> in = {tensor_of<float>({n}, std::vector<float>(static_cast<size_t>(n), 1.0f))};
    std::vector<Value> out(1);
    ASSERT_TRUE(session->run_ordered(in, out).ok());
    const MemoryUse alone = session->memory_statistics().of(MemoryRole::unplanned);
    EXPECT_EQ(alone.live, asked + n * 8);
    EXPECT_LE(alone.padding, std::max<int64_t>(64, alone.live / 8)) << n;
    if (n == 1000000) continue;  // it comes back
    held.push_back(std::move(out[0]));
    asked += n * 8;
  }
  EXPECT_GT(session->memory_statistics().of(MemoryRole::unplanned).retained, 4 << 20);
  session->trim();
  const MemoryUse use = session->memory_statistics().of(MemoryRole::unplanned);
  EXPECT_EQ(use.live, asked);
  EXPECT_EQ(use.retained, 0);
  EXPECT_LE(use.mapped(), asked + asked / 8);
}

TEST(Retention, TheSideArenaHasACapOfItsOwn) {
  // Of the kept outputs, slabs and side buffers, each kind stays as it is when the others spike or lose their cap.
  const auto session = session_of(R"(graph(%x: f32[N,64], %d: f32[M]) {
  %a = Softmax(%x)
  %b = Concat<axis=1>(%a, %x)
  %y = Softmax(%b)
  %i = NonZero(%d)
  %z = ReduceMax(%i)
  return %y, %z
})",
                                  one_thread());
  ASSERT_TRUE(session);
  constexpr int64_t kCap = int64_t{16} << 20;
  ASSERT_TRUE(session->set_retention({.execution = kCap, .io = kCap, .side = kCap}).ok());
  const auto run = [&](int64_t rows, int64_t numbers) {
    std::vector<Value> out(2);
    const std::vector<Value> in = {random_floats({rows, 64}, 1), random_floats({numbers}, 2)};
    EXPECT_TRUE(session->run_ordered(in, out).ok());
    return out;
  };
  const auto retained = [&](MemoryRole role) { return session->memory_statistics().of(role).retained; };
  run(100, 50000);
  run(100, 50000);
  const int64_t side = retained(MemoryRole::unplanned), io = retained(MemoryRole::leased),
                execution = retained(MemoryRole::planned);
  ASSERT_GE(side, 50000 * 8);
  ASSERT_LE(side, 2 * 50000 * 8 + 2 * 50000);
  constexpr int kHeld = 400, kResult = 64;  // the number that comes of the unknown sizes is the arena's, too
  std::vector<std::vector<Value>> held;
  for (int i = 0; i < kHeld; ++i) held.push_back(run(100, 50000));
  EXPECT_NEAR(static_cast<double>(retained(MemoryRole::unplanned)), static_cast<double>(side), kHeld * kResult);
  held.clear();
  EXPECT_NEAR(static_cast<double>(retained(MemoryRole::unplanned)), static_cast<double>(side), kHeld * kResult);
  EXPECT_LE(retained(MemoryRole::leased), kCap);
  const int64_t io_now = retained(MemoryRole::leased);
  ASSERT_GE(io_now, io);
  run(100, 400000);  // more than the side arena may keep beside what it has
  run(100, 2500000);
  EXPECT_LE(retained(MemoryRole::unplanned), kCap);
  EXPECT_EQ(retained(MemoryRole::leased), io_now);
  EXPECT_EQ(retained(MemoryRole::planned), execution);
  ASSERT_TRUE(session->set_retention({.execution = kCap, .io = kCap, .side = 0}).ok());
  EXPECT_EQ(retained(MemoryRole::unplanned), 0);
  EXPECT_EQ(retained(MemoryRole::leased), io_now);
  EXPECT_EQ(retained(MemoryRole::planned), execution);
}

TEST(Retention, InputsInBuffersOfTheArenaCountToo) {
  // 8 MiB come in, a number goes out.
  const auto session = session_of("graph(%x: f32[N,1024]) { %y = ReduceMax(%x) return %y }", one_thread());
  ASSERT_TRUE(session);
  const auto run = [&] {
    Tensor t = session->take_io(DType::kFloat, Dims{2048, 1024}, "x").value();
    std::fill_n(t.as<float>(), t.elements(), 1.0f);
    std::vector<Value> in = {Value(std::move(t))}, out(1);
    EXPECT_TRUE(session->run_ordered(in, out).ok());
  };
  for (int warm = 0; warm < 2; ++warm) run();
  const int64_t calls = session->memory_statistics().system_calls;
  for (int r = 0; r < 5; ++r) run();
  EXPECT_EQ(session->memory_statistics().system_calls, calls);
}

const MemoryCap& cap_named(const std::vector<MemoryCap>& caps, std::string_view name) {
  const auto found = std::ranges::find(caps, name, &MemoryCap::name);
  EXPECT_NE(found, caps.end()) << name;
  return *found;
}

// What a plan says of the caps before any run is what holds after it, and bounds what is kept.
TEST(Retention, A65_CapsAreToldAsNumbersWithWhatTheyFollowFrom) {
  const auto session = session_of(kRows, one_thread());
  const Dims rows = {1000, 1024};
  const auto program = session->plan_for(std::vector{rows});
  ASSERT_TRUE(program.ok()) << program.status();
  const std::vector<MemoryCap> planned = session->memory_report(**program).caps;
  const int64_t slabs = Pages::rounded((*program)->slab_bytes), outputs = output_of(1000);
  EXPECT_EQ(cap_named(planned, "execution_cap").most, slabs + slabs / 4);
  EXPECT_EQ(cap_named(planned, "io_cap").most, outputs + outputs / 4);
  EXPECT_EQ(cap_named(planned, "side_cap").most, kRetainAlways);
  EXPECT_EQ(cap_named(planned, "plan_cache").most, 32);
  EXPECT_EQ(cap_named(planned, "instance_cache").most, InstanceCache::kDefaultBytes);
  EXPECT_EQ(cap_named(session->memory_caps(), "execution_cap").most, 0);
  for (int run = 0; run < 3; ++run) {
    std::vector<Value> outputs(1);
    ASSERT_TRUE(session->run_ordered(std::vector{random_floats(rows, 1)}, outputs).ok());
  }
  const std::vector<MemoryCap> now = session->memory_caps();
  for (const char* name : {"execution_cap", "io_cap"}) {
    EXPECT_EQ(cap_named(now, name).most, cap_named(planned, name).most) << name;
    EXPECT_GT(cap_named(now, name).kept, 0) << name;
    EXPECT_LE(cap_named(now, name).kept, cap_named(now, name).most) << name;
  }
  EXPECT_EQ(cap_named(now, "execution_cap").kept, session->memory_statistics().of(MemoryRole::planned).retained);
  EXPECT_EQ(cap_named(now, "plan_cache").kept, 1);
  EXPECT_NE(cap_named(now, "execution_cap").follows.find(readable_bytes(slabs) + " of plans in a run"),
            std::string::npos);
  ASSERT_TRUE(session->set_retention({.execution = 12345, .io = 0}).ok());
  ASSERT_TRUE(session->set_memory_limit(int64_t{1} << 30).ok());
  const std::vector<MemoryCap> set = session->memory_caps();
  EXPECT_EQ(cap_named(set, "execution_cap").most, 12345);
  EXPECT_EQ(cap_named(set, "io_cap").most, 0);
  EXPECT_NE(cap_named(set, "io_cap").follows.find("set by the caller"), std::string::npos);
  const MemoryStatistics s = session->memory_statistics();
  const std::string leaves = readable_bytes((int64_t{1} << 30) - (s.mapped - s.retained));
  EXPECT_NE(cap_named(set, "side_cap").follows.find(leaves + " that the memory limit leaves"), std::string::npos);
}

// Twice what was live at once.
TEST(Retention, A65_TheCapOfTheSideArenaFollowsWhatWasLive) {
  Runs runs(R"(graph(%x: f32[N]) {
    %n = NonZero(%x)
    %f = Cast<to=1>(%n)
    %y = ReduceSum(%f, [1])
    return %y
  })",
            {{random_floats({500'000}, 1)}});
  runs.round();
  const std::vector<MemoryCap> caps = runs.session->memory_caps();
  const MemoryCap& side = cap_named(caps, "side_cap");
  EXPECT_GE(side.most, 2 * 500'000 * 8);
  EXPECT_LE(side.kept, side.most);
  EXPECT_EQ(side.kept, runs.retained(MemoryRole::unplanned));
}

TEST(Retention, ThreadsWithShapesOfTheirOwnTakeTheirSlabsOnce) {
  const auto session = session_of(kRows, one_thread());
  ASSERT_TRUE(session);
  const auto together = [&](int rounds) {
    std::vector<std::thread> threads;
    for (const int64_t rows : {64, 700, 300}) {
      threads.emplace_back([&, rows] {
        std::vector<Value> in = {random_floats({rows, 1024}, 1)}, out(1);
        for (int r = 0; r < rounds; ++r) {
          out[0] = Value();
          EXPECT_TRUE(session->run_ordered(in, out).ok());
        }
      });
    }
    for (std::thread& t : threads) t.join();
  };
  together(50);
  // At worst each slab has become one of the largest plan.
  const int64_t largest = Pages::rounded(session->plan_for({{Dims{700, 1024}}}).value()->slab_bytes);
  EXPECT_LE(session->memory_statistics().of(MemoryRole::planned).retained, 3 * largest + 3 * largest / 4);
}

}  // namespace
}  // namespace forethought
