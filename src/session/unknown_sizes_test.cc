// Values whose size only the run tells: they are set apart with a bound where one exists, and leave the rest planned.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "plan/report.h"
#include "session/memory_report.h"
#include "session/plan_report.h"
#include "session/session_testing.h"

namespace forethought {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr int64_t kLength = 24;

struct Net {
  const char* name;
  const char* text;           // of x: f32[N] with small whole numbers, many of them 0
  std::vector<int64_t> most;  // bytes of each output for 24 elements; -1: nothing bounds it
};

// %k is a number of [0, N) that only the data tells.
const Net kNets[] = {
    {"coordinates",
     R"(graph(%x: f32[N]) {
      %n = NonZero(%x)
      %n2 = Add(%n, %n)
      %both = Concat<axis=1>(%n, %n2)
      %first = Reshape(%both, [-1])
      %float = Cast<to=1>(%first)
      %y = Exp(%float)
      return %n, %both, %first, %y
    })",
     {kLength * 8, kLength * 16, kLength * 16, kLength * 8}},
    {"gathered",
     R"(graph(%x: f32[N]) {
      %t = Unsqueeze(%x, [1])
      %n = NonZero(%t)
      %rows = Slice(%n, [0], [1], [0])
      %index = Squeeze(%rows, [0])
      %g = Gather(%t, %index)
      %m = Mul(%g, [1.0, 2.0, 3.0])
      %points = Transpose<perm=[1,0]>(%n)
      %same = GatherND(%t, %points)
      %p = Pad(%m, [1, 0, 1, 0])
      return %n, %g, %m, %p, %same
    })",
     {kLength * 16, kLength * 4, kLength * 12, (kLength + 2) * 12, kLength * 4}},
    {"slices",
     R"(graph(%x: f32[N]) {
      %k = ArgMax<axis=0>(%x)
      %rest = Sub(i64[1] [24], %k)
      %head = Slice(%x, [0], %k)
      %tail = Slice(%x, %k, [24], [0], [2])
      %sizes = Concat<axis=0>(%k, %rest)
      %a, %b = Split<axis=0>(%x, %sizes)
      %range = Range(i64 0, i64 5, i64 1)
      return %head, %tail, %a, %b, %range
    })",
     {kLength * 4, kLength * 4, kLength * 4, kLength * 4, 40}},
    {"branches",
     R"(graph(%x: f32[N]) {
      %k = ArgMax<axis=0, keepdims=0>(%x)
      %c = Cast<to=9>(%k)
      %y, %z = If(%c; %x) {
        then_branch: graph(%x1: f32[N]) {
          %n = NonZero(%x1)
          %e = Exp(%x1)
          return %n, %e
        }
        else_branch: graph(%x2: f32[N]) {
          %n2 = NonZero([1.0, 0.0])
          %two = Concat<axis=0>(%x2, %x2)
          return %n2, %two
        }
      }
      %s = Relu(%z)
      return %y, %s
    })",
     {kLength * 8, kLength * 8}},
    {"trips",
     R"(graph(%x: f32[N]) {
      %k = ArgMax<axis=0, keepdims=0>(%x)
      %all, %some = Loop(i64 9, bool true; %x, %k) {
        body: graph(%i: i64[], %c: bool[], %x1: f32[N], %k1: i64[]) {
          %left = Sub(%k1, %i)
          %more = Max(%left, i64 0)
          %go = Cast<to=9>(%more)
          %h = Mul(%x1, 0.5)
          return %go, %h, %i
        }
      }
      %e = Exp(%all)
      return %all, %some, %e
    })",
     {9 * kLength * 4, 9 * 8, 9 * kLength * 4}},
    {"two of a kind",
     R"(graph(%x: f32[N]) {
      %n = NonZero(%x)
      %d = Add(%x, %x)
      %m = NonZero(%d)
      %y = Add(%n, %m)
      return %y
    })",
     {kLength * 8}},
    {"taken",
     R"(graph(%x: f32[N]) {
      %c = Cast<to=9>(%x)
      %t = Compress<axis=0>(%x, %c)
      %k = ArgMax<axis=0>(%x)
      %best, %at = TopK(%x, %k)
      %y, %first, %inverse, %counts = Unique(%x)
      %more = Concat<axis=0>(%t, [0.0, 0.0])
      %two, _ = TopK(%more, [2])
      return %t, %best, %at, %y, %first, %inverse, %counts, %two
    })",
     {kLength * 4, kLength * 4, kLength * 8, kLength * 4, kLength * 8, kLength * 8, kLength * 8, 8}},
    {"boxes",
     R"(graph(%x: f32[N]) {
      %b = Reshape(%x, [1, -1, 4])
      %m = ReduceMax(%b, [2])
      %s = Transpose<perm=[0,2,1]>(%m)
      %few = NonMaxSuppression(%b, %s, [3], [0.5], [0.1])
      %k = ArgMax<axis=0>(%x)
      %some = NonMaxSuppression(%b, %s, %k, [0.5])
      return %few, %some
    })",
     {3 * 24, kLength / 4 * 24}},
    {"no bound",
     R"(graph(%x: f32[N]) {
      %k = ArgMax<axis=0, keepdims=0>(%x)
      %range = Range(i64 0, %k, i64 1)
      %k1 = ArgMax<axis=0>(%x)
      %wide = Expand(1.0, %k1)
      %n = NonZero(%wide)
      return %range, %wide, %n
    })",
     {-1, -1, -1}},
};

Value sparse_numbers(uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<float> v(kLength);
  const unsigned density = 1 + random() % 6;  // seeds differ in how many elements are 0: none, some, nearly all
  for (float& f : v) f = random() % 6 < density ? static_cast<float>(1 + random() % 3) : 0.0f;
  if (seed == 0) v.assign(kLength, 0);
  if (seed == 1) v.assign(kLength, 1);
  if (seed == 2) v.back() = 9;
  return tensor_of<float>({kLength}, v);
}

TEST(UnknownSizes, NoValueIsLargerThanItsBound) {
  for (const Net& net : kNets) {
    SCOPED_TRACE(net.name);
    for (const SessionOptions& options : every_option()) {
      SCOPED_TRACE(to_string(options));
      const auto session = session_of(net.text, options);
      ASSERT_TRUE(session);
      const auto program = session->plan_for(std::vector<Dims>{{kLength}});
      ASSERT_TRUE(program.ok()) << program.status();
      std::vector<int64_t> most;
      for (const int32_t v : (*program)->outputs) {
        const int64_t bytes = (*program)->plan.values[v].bytes;
        most.push_back(bytes == kUnknownSize ? (*(*program)->plan_values)[v].most_bytes : bytes);
      }
      EXPECT_EQ(most, net.most);
      for (uint64_t seed = 0; seed < 12; ++seed) {
        std::vector<Value> outputs(most.size());
        const Status ran = session->run_ordered(std::vector<Value>{sparse_numbers(seed)}, outputs);
        ASSERT_TRUE(ran.ok()) << ran;
        for (size_t o = 0; o < most.size(); ++o) {
          if (most[o] < 0) continue;
          EXPECT_LE(outputs[o].tensor().bytes(), most[o]) << "output " << o << ", seed " << seed;
        }
      }
    }
  }
}

TEST(UnknownSizes, BitsAreTheSameEverywhere) {
  for (const Net& net : kNets)
    for (uint64_t seed = 0; seed < 4; ++seed) {
      SCOPED_TRACE(net.name);
      EXPECT_EQ(run_everywhere(net.text, {sparse_numbers(seed)}).size(), net.most.size());
    }
}

// What comes after a value of unknown size has its place, and its kernel, as soon as its own size is a number.
TEST(UnknownSizes, Check25_WhatHasAKnownSizeAgainIsPlanned) {
  const char* text = R"(graph(%x: f32[32]) {
    %n = NonZero(%x)
    %f = Cast<to=1>(%n)
    %sum = ReduceSum(%f, [1])
    %wide = Expand(%sum, [64, 64])
    %e = Exp(%wide)
    %m = MatMul(%e, %e)
    %y = Softmax(%m)
    return %y
  })";
  const auto session = session_of(text);
  ASSERT_TRUE(session);
  const auto program = session->plan_for(std::vector<Dims>{{32}});
  ASSERT_TRUE(program.ok()) << program.status();
  const CompiledProgram& p = **program;
  std::vector<std::string> late;
  for (size_t s = 0; s < p.steps.size(); ++s)
    if (!p.steps[s].runnable) late.emplace_back(p.steps[s].name);
  EXPECT_THAT(late, testing::SizeIs(testing::Le(2))) << "Cast and ReduceSum read what only the data tells";
  for (const char* name : {"sum", "m"}) {
    const auto value = std::ranges::find(*p.plan_values, name, &PlanValue::name);
    ASSERT_NE(value, p.plan_values->end()) << name;
    const ValuePlace& place = p.plan.values[value - p.plan_values->begin()];
    EXPECT_NE(place.arena, ArenaKind::side) << name;
    EXPECT_NE(place.bytes, kUnknownSize) << name;
  }
  EXPECT_EQ(unplanned(p.problem(), p.plan).unbounded, std::vector<ValueNo>());
  EXPECT_EQ(p.plan.peak, p.plan.lower_bound);
  std::vector<float> ones(32, 0);
  ones[3] = ones[9] = 1;
  const auto out = run_everywhere(text, {tensor_of<float>({32}, ones)}, 1e-6);
  EXPECT_EQ(dims_of(out[0]), (Dims{64, 64}));
}

TEST(UnknownSizes, ReportsSayTheBoundOrWhatHasNone) {
  const auto session = session_of(R"(graph(%x: f32[N]) {
    %n = NonZero(%x) "/find"
    %k = ArgMax<axis=0, keepdims=0>(%x)
    %r = Range(i64 0, %k, i64 1) "/range"
    %s = ReduceSum(%r, [0])
    %y = Add(%n, %s)
    return %y, %r
  })");
  ASSERT_TRUE(session);
  const auto program = session->plan_for(std::vector<Dims>{{100}});
  ASSERT_TRUE(program.ok()) << program.status();
  const std::string text = plan_text(session->prepared(), **program);
  EXPECT_THAT(text, HasSubstr("3 buffers outside the plan, at most 1600 B together for 2 of them; nothing bounds %"));
  EXPECT_THAT(text, HasSubstr("of #2 /range (Range)"));
  EXPECT_THAT(text, HasSubstr("known at run, at most 800 B"));
  const auto json = nlohmann::json::parse(plan_json(session->prepared(), **program, {}, -1));
  EXPECT_EQ(json["unplanned"]["values"], 3);
  EXPECT_EQ(json["unplanned"]["most_bytes"], 1600);
  ASSERT_EQ(json["unplanned"]["unbounded"].size(), 1u);
  for (const auto& value : json["values"]) {
    if (value["name"] == "n") {
      EXPECT_EQ(value["most_bytes"], 800);
    } else if (value["name"] == "r" || value["bytes"] != -1) {
      EXPECT_TRUE(value["most_bytes"].is_null()) << value;
    }
  }
  std::vector<Value> outputs(2);
  ASSERT_TRUE(
      session->run_ordered(std::vector<Value>{tensor_of<float>({100}, std::vector<float>(100, 2))}, outputs).ok());
  const MemoryReport report = session->memory_report();
  EXPECT_EQ(report.unplanned_values, 3);
  EXPECT_EQ(report.unplanned_most, 2 * BlockPool::class_bytes(800));
  EXPECT_THAT(report.unbounded, ElementsAre("'r' of node /range (Range)"));
  EXPECT_THAT(to_string(report), HasSubstr("at most 1.6 KiB (1664 bytes); nothing bounds 'r' of node /range (Range)"));
}

// The least limit and what the report says of the rest, blocks of empty values among it, are enough together.
TEST(UnknownSizes, TheReportCountsTheBlocksOfEmptyAndSmallValues) {
  const char* text = R"(graph(%x: f32[N]) {
    %n = NonZero(%x)
    %f = Cast<to=1>(%n)
    %s = Softmax(%f)
    %sum = ReduceSum(%s, [1])
    return %sum
  })";
  for (const int64_t length : {0, 1, 100, 2000, 30'000, 700'001}) {
    SCOPED_TRACE(length);
    const std::vector<Value> inputs = {
        tensor_of<float>({length}, std::vector<float>(static_cast<size_t>(length), 2.0f))};
    std::vector<Value> outputs(1);
    const auto run = [&](Session& s) { return s.run_ordered(inputs, outputs); };
    SessionOptions limited;
    limited.intra_op_threads = 1;
    const auto free_one = session_of(text, limited);
    ASSERT_TRUE(free_one);
    ASSERT_TRUE(run(*free_one).ok());
    outputs[0] = Value();
    const MemoryReport report = free_one->memory_report();
    ASSERT_THAT(report.unbounded, IsEmpty());
    EXPECT_GE(report.unplanned_most, 64 * report.unplanned_values);
    limited.memory_limit = report.least;
    if (const auto tight = session_of(text, limited); length == 700'001) {
      const Status refused = run(*tight);
      EXPECT_THAT(std::string(refused.message()), HasSubstr("(unplanned, "));
      EXPECT_THAT(std::string(refused.message()), Not(HasSubstr("session.weights=streamed")));
    }
    limited.memory_limit = report.least + report.unplanned_most;
    const auto session = session_of(text, limited);
    ASSERT_TRUE(session);
    const Status ran = run(*session);
    EXPECT_TRUE(ran.ok()) << ran;
  }
}

// A bound is for people: what fits runs, however large the bound is.
TEST(UnknownSizes, ABoundRefusesNoRun) {
  SessionOptions options;
  options.memory_limit = 1 << 20;
  const auto session = session_of(R"(graph(%x: f32[1000]) {
    %a = Reshape(%x, [1000, 1])
    %n = NonZero(%x)
    %f = Cast<to=1>(%n)
    %y = MatMul(%a, %f)
    return %y
  })",
                                  options);
  ASSERT_TRUE(session);
  std::vector<float> x(1000, 0);
  x[5] = x[7] = 1;
  std::vector<Value> outputs(1);
  const Status ran = session->run_ordered(std::vector<Value>{tensor_of<float>({1000}, x)}, outputs);
  ASSERT_TRUE(ran.ok()) << ran;
  EXPECT_EQ(dims_of(outputs[0]), (Dims{1000, 2}));
  int64_t most = 0;
  for (const int64_t bytes : {8000, 4000, 4'000'000}) most += BlockPool::class_bytes(bytes);
  EXPECT_EQ(session->memory_report().unplanned_most, most);
  EXPECT_THAT(session->memory_report().unbounded, IsEmpty());
}

// Callers see such a dim as unknown, as in the model; a name that the model gives it stays.
TEST(UnknownSizes, OutputsDoNotShowNamesOfOurs) {
  const auto session =
      session_of("graph(%x: f32[N]) {\n %n = NonZero(%x)\n %y = Concat<axis=1>(%n, %n)\n return %y\n}");
  ASSERT_TRUE(session);
  ASSERT_EQ(session->outputs().size(), 1u);
  EXPECT_EQ(to_string(session->outputs()[0].shape), "[1,?]");
}

}  // namespace
}  // namespace forethought
