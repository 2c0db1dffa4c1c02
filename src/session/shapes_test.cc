// Models of any shape: what a new shape may keep, and what a shape seen before costs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "graph/text.h"
#include "memory/memory_calls_testing.h"
#include "session/bounds.h"
#include "session/random_graph_testing.h"
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

// Dims that are open cost no memory and no step: at each length the plan is as large as that of a model where the
// length is a number, runs as many steps, and calls for nothing when the length comes again.
TEST(Shapes, A69_ALengthThatIsOpenIsPlannedAsOneThatIsFixed) {
  const auto open = session_of(kAttention);
  ASSERT_TRUE(open);
  for (const int64_t length : {1, 2, 3, 5, 17, 64, 100, 255, 700}) {
    std::string text = kAttention;
    text.replace(text.find(",L,"), 3, absl::StrCat(",", length, ","));
    const auto fixed = session_of(text);
    ASSERT_TRUE(fixed);
    std::vector<Value> a(1), b(1);
    for (int r = 0; r < 3; ++r) {
      run_at(*open, length, &a);
      run_at(*fixed, length, &b);
    }
    EXPECT_EQ(bytes_of(a), bytes_of(b)) << length;
    EXPECT_LE(static_cast<double>(open->summary().peak), 1.05 * static_cast<double>(fixed->summary().peak)) << length;
    const std::vector<Value> inputs = {random_floats({1, length, 16}, 1)};
    MemoryCallRecorder recorder;
    a[0] = Value();
    recorder.start();
    const Status again = open->run_ordered(inputs, a);
    recorder.stop();
    EXPECT_TRUE(again.ok()) << again;
    EXPECT_TRUE(recorder.ours().none()) << length << ": " << recorder.first_of_ours();
  }
}

// The order of the second plan serves the later ones, each at its lower bound; one that it does not serve gives the
// next.
TEST(Shapes, B7_OffsetsOfNewShapesComeFromOneOrder) {
  const char* const text =
      "graph(%x: f32[N,8]) {\n"
      "  %a = Relu(%x)\n  %b = Transpose(%a)\n  %c = MatMul(%a, %b)\n  %d = Softmax(%c)\n  %e = MatMul(%d, %a)\n"
      "  %f = Add(%e, %x)\n  %g = Reshape(%f, [-1, 4])\n  %y = Sigmoid(%g)\n  return %y\n}";
  SessionOptions options;
  options.validate_plans = true;
  options.strided_views = false;  // b takes bytes
  const auto session = session_of(text, options);
  ASSERT_TRUE(session);
  for (const int64_t n : {3, 5, 8, 13, 40, 100, 7, 64, 999}) {
    const auto same = session_of(text, options);
    ASSERT_TRUE(same);
    const std::vector<Value> inputs{random_floats({n, 8}, static_cast<uint64_t>(n))};
    std::vector<Value> a(1), b(1);
    ASSERT_TRUE(session->run_ordered(inputs, a).ok()) << n;
    ASSERT_TRUE(same->run_ordered(inputs, b).ok()) << n;
    EXPECT_EQ(bytes_of(a), bytes_of(b)) << n;
    const SessionSummary s = session->summary();
    EXPECT_EQ(s.peak, s.lower_bound) << n;
    EXPECT_EQ(s.peak, same->summary().peak) << n;
    EXPECT_EQ(same->summary().plans.by_order, 0);
  }
  EXPECT_EQ(session->summary().plans.by_order, 6)
      << "all but the first two, and 13: there the first order misses the bound";
}

// What reports say of the plan for these dims.
std::string told(Session& session, const std::vector<Dims>& dims) {
  const auto plan = session.plan_for(dims, Effort::replan);
  if (!plan.ok()) return std::string(plan.status().message());
  std::string s;
  for (size_t i = 0; i < (*plan)->steps.size(); ++i) {
    const ProgramStep& step = (*plan)->steps[i];
    const KernelFacts& f = *(*(*plan)->facts)[i];
    absl::StrAppend(&s, std::string(step.name), ": ", f.kernel, ", ", f.reason, ", ", f.aliases.size(), " views, ",
                    f.overwrites.size(), " overwrites, scratch ", step.scratch_shared, "\n");
  }
  for (const ProgramValue& v : (*plan)->values)
    absl::StrAppend(&s, std::string(v.name), " ", to_string(v.dims), " ", v.bytes, " ", v.known, "\n");
  return s;
}

// Steps keep what kernels chose for the sizes before, but not where other dims change more than the instance: a product
// of few rows reads B in place, what broadcasts cannot be overwritten, a slice of all rows is a view, and a value of
// unknown size ends all that is known by formula.
TEST(Shapes, B7_StepsKeepTheirChoiceWhereOnlyDimsAreNew) {
  const std::vector<std::string> graphs = {
      "graph(%x: f32[N,8], %z: f32[M,8]) {\n"
      "  %a = Add(%x, %z)\n  %t = Transpose(%a)\n  %s = MatMul(%a, %t)\n  %p = Softmax(%s)\n  %m = MatMul(%p, %a)\n"
      "  %r = ReduceMean(%m, [1])\n  %c = Sub(%m, %r)\n  %h = Slice(%c, [0,0], [24,8])\n  %k = Cast<to=11>(%h)\n"
      "  %y = Clip(%c, 0.1)\n  return %k, %y\n}",
      "graph(%x: f32[N,8], %z: f32[M,8]) {\n"
      "  %a = Mul(%x, %z)\n  %i = NonZero(%a)\n  %f = Cast<to=1>(%i)\n  %y = Abs(%f)\n  %k = Neg(%a)\n  return %k, "
      "%y\n}"};
  for (const std::string& text : graphs)
    for (const bool validate : {false, true}) {
      SessionOptions options;
      options.validate_plans = validate;
      options.optimization_level = OptimizationLevel::disabled;
      const auto session = session_of(text, options);
      ASSERT_TRUE(session);
      for (const auto& [n, m] : std::vector<std::pair<int64_t, int64_t>>{
               {3, 3}, {5, 5}, {5, 1}, {1, 5}, {40, 40}, {24, 24}, {300, 1}, {7, 7}, {8, 8}, {1, 1}, {64, 64}}) {
        const auto same = session_of(text, options);
        ASSERT_TRUE(same);
        const std::vector<Value> inputs{random_floats({n, 8}, static_cast<uint64_t>(n)), random_floats({m, 8}, 7)};
        std::vector<Value> a(2), b(2);
        const Status ran = session->run_ordered(inputs, a);
        ASSERT_TRUE(ran.ok()) << n << " " << m << ": " << ran;
        ASSERT_TRUE(same->run_ordered(inputs, b).ok()) << n << " " << m;
        EXPECT_EQ(bytes_of(a), bytes_of(b)) << n << " " << m;
        const std::vector<Dims> dims{{n, 8}, {m, 8}};
        EXPECT_EQ(told(*session, dims), told(*same, dims)) << n << " " << m;
      }
      const CacheCounts plans = session->summary().plans;
      EXPECT_GT(plans.steps_kept, plans.steps / 3);
      EXPECT_LT(plans.steps_kept, plans.steps);
    }
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

SessionOptions bounded(int64_t most) {
  SessionOptions o;
  o.max_dimensions["L"] = most;
  o.validate_plans = true;
  return o;
}

TEST(Shapes, Check26_OnePlanServesEveryShapeWithinItsBound) {
  const auto free = session_of(kAttention), within = session_of(kAttention, bounded(96));
  ASSERT_TRUE(free && within);
  const int64_t peak = within->summary().peak;
  EXPECT_GT(peak, 0) << "planned at load";
  int64_t mapped = 0;
  for (const int64_t length : {96, 1, 2, 95, 17, 64, 33, 96, 5}) {
    std::vector<Value> want(1), got(1);
    run_at(*free, length, &want);
    run_at(*within, length, &got);
    ASSERT_EQ(dims_of(got[0]), dims_of(want[0]));
    EXPECT_EQ(floats(got[0]), floats(want[0]));
    const MemoryUse slabs = within->memory_statistics().of(MemoryRole::planned);
    if (mapped == 0) mapped = slabs.live + slabs.retained;
    EXPECT_EQ(slabs.live + slabs.retained, mapped) << "at " << length;
    EXPECT_EQ(within->summary().peak, peak);
  }
  EXPECT_GE(mapped, peak);
  const CacheCounts plans = within->summary().plans;
  EXPECT_EQ(plans.inside, plans.misses);
  EXPECT_EQ(plans.misses, 7) << "the bound itself was planned at load";
}

TEST(Shapes, Check26_AShapeOverItsBoundSaysWhatToDo) {
  const auto s = session_of(kAttention, bounded(8));
  ASSERT_TRUE(s);
  std::vector<Value> out(1);
  const Status over = s->run_ordered(std::vector<Value>{random_floats({1, 9, 16}, 1)}, out);
  ASSERT_FALSE(over.ok());
  for (const char* part : {"input 'x'", "L at most 8", "what came has 9", "larger bound of L"})
    EXPECT_THAT(std::string(over.message()), testing::HasSubstr(part));
  run_at(*s, 8, &out);
  EXPECT_EQ(dims_of(out[0]), (Dims{16, 16}));
}

TEST(Shapes, BoundsThatCannotBeAreRefusedAtLoad) {
  struct Row {
    std::map<std::string, int64_t> bounds;
    std::string metadata;
    const char* part;
  };
  const Row rows[] = {{{{"L", 0}}, "", "the bound of 'L' is 0; it is at least 1"},
                      {{{"L", -5}}, "", "the bound of 'L' is -5"},
                      {{{"M", 5}}, "", "no input has a dim 'M'"},
                      {{{"L", int64_t{1} << 60}}, "", "plan for the largest shapes"},
                      {{}, "L", "holds 'L'; it is to be a list like"},
                      {{}, "L=4x", "holds 'L=4x'"},
                      {{}, "K=4", "no input has a dim 'K'"}};
  for (const Row& r : rows) {
    auto graph = graph_from_text(kAttention);
    ASSERT_TRUE(graph.ok());
    if (!r.metadata.empty()) (*graph)->info.metadata.push_back({kBoundsKey, r.metadata});
    SessionOptions o;
    o.max_dimensions = r.bounds;
    const auto s = Session::from_graph(std::move(*graph), o);
    ASSERT_FALSE(s.ok()) << r.part;
    EXPECT_THAT(std::string(s.status().message()), testing::HasSubstr(r.part));
  }
}

TEST(Shapes, TheModelMayNameItsBoundsAndTheCallerMayOverrideThem) {
  for (const bool overridden : {false, true}) {
    auto graph = graph_from_text(kAttention);
    ASSERT_TRUE(graph.ok());
    (*graph)->info.metadata.push_back({kBoundsKey, " L = 8 ,"});
    SessionOptions o;
    if (overridden) o.max_dimensions["L"] = 9;
    auto s = Session::from_graph(std::move(*graph), o);
    ASSERT_TRUE(s.ok()) << s.status();
    std::vector<Value> out(1);
    EXPECT_EQ((*s)->run_ordered(std::vector<Value>{random_floats({1, 9, 16}, 1)}, out).ok(), overridden);
    run_at(**s, 8, &out);
  }
}

// A dim without a bound leaves every shape to be planned when it comes; the bound of the other holds all the same.
TEST(Shapes, ABoundOfSomeDimsIsCheckedThoughNothingIsPlanned) {
  const char* text = R"(graph(%x: f32[N,M]) { %y = Exp(%x) return %y })";
  SessionOptions o;
  o.max_dimensions["M"] = 4;
  const auto s = session_of(text, o);
  ASSERT_TRUE(s);
  EXPECT_FALSE(s->summary().planned);
  std::vector<Value> out(1);
  EXPECT_TRUE(s->run_ordered(std::vector<Value>{random_floats({100, 4}, 1)}, out).ok());
  EXPECT_FALSE(s->run_ordered(std::vector<Value>{random_floats({2, 5}, 1)}, out).ok());
}

Value integers(std::vector<int64_t> numbers) {
  Tensor t = *make_tensor(DType::kInt64, Dims{static_cast<int64_t>(numbers.size())});
  std::copy(numbers.begin(), numbers.end(), t.as<int64_t>());
  return Value(std::move(t));
}

constexpr const char* kTarget = R"(graph(%x: f32[N,M], %s: i64[2], %b: i64[1]) {
  %r = Reshape(%x, %s)
  %e = Exp(%r)
  %t = Transpose<perm=[1,0]>(%e)
  %c = Cast<to=1>(%b)
  %y = Add(%t, %c)
  return %y
})";

// A shape that comes as elements of an input is part of the key: what follows is planned, and a repeat calls for
// nothing.
TEST(Shapes, ElementsOfInputsThatDecideShapesArePartOfTheKey) {
  SessionOptions o;
  o.validate_plans = true;
  const auto s = session_of(kTarget, o);
  ASSERT_TRUE(s);
  const Value x = random_floats({4, 6}, 1);
  for (int round = 0; round < 3; ++round)
    for (const auto& [n, m] : {std::pair<int64_t, int64_t>{4, 6}, {8, 3}, {24, 1}, {2, -1}}) {
      std::vector<Value> out(1);
      const Status ran = s->run_ordered(std::vector<Value>{x, integers({n, m}), integers({round})}, out);
      ASSERT_TRUE(ran.ok()) << ran;
      EXPECT_EQ(dims_of(out[0]), (Dims{24 / n, n}));
      EXPECT_EQ(floats(out[0])[0], std::exp(x.tensor().as<float>()[0]) + static_cast<float>(round));
    }
  EXPECT_EQ(s->summary().plans.misses, 4) << "what is only added is no part of the key";
  EXPECT_EQ(s->memory_statistics().of(MemoryRole::unplanned).live, 0);
  EXPECT_EQ(s->memory_statistics().of(MemoryRole::unplanned).retained, 0) << "everything is in the plan";
  std::vector<Value> out(1);
  EXPECT_FALSE(s->run_ordered(std::vector<Value>{x, integers({5, 5}), integers({0})}, out).ok());
}

// Where hardly any set of elements comes again, late steps are resolved at each run and plans are left alone.
TEST(Shapes, ElementsThatNeverComeAgainAreLeftOutOfTheKey) {
  const auto s = session_of(kTarget);
  ASSERT_TRUE(s);
  for (int64_t n = 1; n <= 200; ++n) {
    std::vector<Value> out(1);
    const Status ran =
        s->run_ordered(std::vector<Value>{random_floats({2, 3 * n}, 1), integers({n, 6}), integers({1})}, out);
    ASSERT_TRUE(ran.ok()) << ran;
    EXPECT_EQ(dims_of(out[0]), (Dims{6, n}));
  }
  const Value x = random_floats({2, 12}, 1);
  const int64_t before = s->summary().plans.misses;
  for (int64_t n : {1, 2, 3, 4, 6, 8, 12, 24}) {
    std::vector<Value> out(1);
    ASSERT_TRUE(s->run_ordered(std::vector<Value>{x, integers({n, -1}), integers({1})}, out).ok());
    EXPECT_EQ(dims_of(out[0]), (Dims{24 / n, n}));
  }
  EXPECT_EQ(s->summary().plans.misses, before + 1);
}

// What only the data tells lies apart; all other values have their places in the slab.
TEST(Shapes, Check25_AValueOfUnknownSizeLeavesTheOthersPlanned) {
  const auto s = session_of(R"(graph(%x: f32[64,64]) {
    %a = Exp(%x)
    %b = Mul(%a, 2.0)
    %c = Softmax(%b)
    %n = NonZero(%c)
    %m = Mul(%c, %x)
    %y = ReduceSum(%m, [1])
    return %y, %n
  })");
  ASSERT_TRUE(s);
  const auto program = s->plan_for(std::vector<Dims>{{64, 64}});
  ASSERT_TRUE(program.ok()) << program.status();
  const Plan& plan = (*program)->plan;
  EXPECT_EQ(plan.side_values, 1);
  EXPECT_EQ(plan.peak, plan.lower_bound);
  EXPECT_GE(plan.peak, 64 * 64 * 4);
  for (size_t i = 0; i < (*program)->steps.size(); ++i)
    EXPECT_TRUE((*program)->steps[i].runnable) << (*program)->steps[i].name << " waits for its shapes";
}

}  // namespace
}  // namespace forethought
