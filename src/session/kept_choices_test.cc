// Plans that start from those for other sizes, against sessions that have seen no other sizes.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "session/random_graph_testing.h"
#include "session/session_testing.h"
#include "session/sim_provider_testing.h"
#include "session/small_net_testing.h"

namespace forethought {
namespace {

using Rounds = std::vector<std::vector<Dims>>;

// Runs the rounds in one session, and each in a session of its own: the same status, dims and bytes. Without validation
// too, which would fill in the facts that a plan by formula leaves out.
void expect_as_fresh(const std::string& text, const Rounds& rounds, SessionOptions options = {}) {
  for (const OptimizationLevel level : {OptimizationLevel::disabled, OptimizationLevel::all})
    for (const bool validate : {false, true}) {
      options.optimization_level = level;
      options.validate_plans = validate;
      const auto session = session_of(text, options);
      ASSERT_TRUE(session);
      for (size_t i = 0; i < rounds.size(); ++i) {
        SCOPED_TRACE(absl::StrCat("level ", static_cast<int>(level), ", validated ", validate, ", round ", i));
        const auto fresh = session_of(text, options);
        ASSERT_TRUE(fresh);
        std::vector<Value> inputs;
        for (const Dims& d : rounds[i]) inputs.push_back(random_floats(d, 100 * i + inputs.size()));
        std::vector<Value> a(session->outputs().size()), b(a.size());
        const Status got = session->run_ordered(inputs, a), want = fresh->run_ordered(inputs, b);
        ASSERT_EQ(got, want);
        if (!got.ok()) continue;
        EXPECT_EQ(bytes_of(a), bytes_of(b));
        for (size_t k = 0; k < a.size(); ++k) EXPECT_EQ(dims_of(a[k]), dims_of(b[k]));
      }
    }
}

// Programs with devices have no values from programs for other sizes: their facts have to be filled.
TEST(KeptChoices, DevicesHaveTheSizesOfTheRun) {
  const auto d = SimDevice::make({}).value();
  SimProviderScope provider("SimProvider", d, [](const Graph&, const GraphNode& n) { return n.name == "b"; });
  const SessionOptions options = with_provider("SimProvider");
  const Rounds rounds = {{{4, 6}, {3, 6}}, {{5, 6}, {3, 6}}, {{1, 6}, {3, 6}}, {{7, 6}, {3, 6}},
                         {{9, 6}, {3, 6}}, {{1, 6}, {5, 6}}, {{2, 6}, {4, 6}}, {{8, 6}, {1, 6}}};
  for (const char* op : {"Neg", "Softmax"})
    expect_as_fresh(absl::StrCat("graph(%x: f32[N,6], %z: f32[M,6]) {\n  %a = ", op,
                                 "(%x) \"a\"\n  %b = Abs(%z) \"b\"\n  return %a, %b\n}"),
                    rounds, options);
}

// What data decide is a number where nothing is left to decide, as of a slice of no rows; then all sizes are known by
// formula, and those of the next run are not.
TEST(KeptChoices, WhatDataDecideMayBeANumberForOnce) {
  expect_as_fresh(
      "graph(%x: f32[N,8], %z: f32[M]) {\n"
      "  %m = ReduceMax<keepdims=1>(%z, [0])\n  %f = Add(%m, 2.0)\n  %e = Cast<to=7>(%f)\n"
      "  %a = Slice(%x, [0], %e, [0])\n  %r = Relu(%a)\n  %y = Neg(%z)\n  return %r, %y\n}",
      {{{5, 8}, {3}},
       {{5, 8}, {4}},
       {{0, 8}, {3}},
       {{0, 8}, {5}},
       {{0, 8}, {7}},
       {{6, 8}, {7}},
       {{7, 8}, {7}},
       {{0, 8}, {8}},
       {{3, 8}, {4}}});
}

// A transpose of one column is a view, and of an output too; of more it is none.
TEST(KeptChoices, OutputsThatWereViews) {
  expect_as_fresh(
      "graph(%x: f32[N,M], %z: f32[K]) {\n"
      "  %y = Relu(%x)\n  %t = Transpose(%y)\n  %w = Neg(%z)\n  return %t, %y, %w\n}",
      {{{5, 3}, {4}},
       {{6, 3}, {4}},
       {{5, 1}, {4}},
       {{7, 1}, {4}},
       {{8, 1}, {5}},
       {{9, 3}, {6}},
       {{11, 4}, {6}},
       {{9, 1}, {3}},
       {{10, 5}, {3}}});
}

std::vector<Value> outputs_of(Session& session, const Value& x) {
  std::vector<Value> out(session.outputs().size());
  const Status s = session.run_ordered(std::vector<Value>{x}, out);
  EXPECT_TRUE(s.ok()) << s;
  return out;
}

// Elements of a sequence have buffers of their own, and a view lies in that of what it is a view of.
TEST(KeptChoices, ElementsThatWereViews) {
  const auto session = session_of(
      "graph(%x: f32[N,M]) {\n  %y = Relu(%x)\n  %t = Transpose(%y)\n  %s = SequenceConstruct(%y, %t)\n  return %s\n}");
  ASSERT_TRUE(session);
  for (const auto& [rows, columns] :
       std::vector<std::pair<int, int>>{{5, 3}, {6, 3}, {5, 1}, {7, 1}, {8, 1}, {9, 3}, {11, 4}, {9, 1}, {10, 5}}) {
    SCOPED_TRACE(absl::StrCat(rows, " x ", columns));
    const Value x = random_floats({rows, columns}, static_cast<uint64_t>(rows));
    const std::vector<float> in = floats(x);
    const std::vector<Value> out = outputs_of(*session, x);
    ASSERT_TRUE(out[0].sequence());
    const std::vector<Value>& items = out[0].sequence()->items;
    ASSERT_EQ(items.size(), 2u);
    const std::vector<float> y = floats(items[0]), t = floats(items[1]);
    for (int i = 0; i < rows; ++i)
      for (int k = 0; k < columns; ++k) {
        EXPECT_EQ(y[i * columns + k], std::max(in[i * columns + k], 0.0f));
        EXPECT_EQ(t[k * rows + i], y[i * columns + k]);
      }
  }
  EXPECT_GT(session->summary().plans.steps_kept, 0);
}

// Nodes share a choice only where their kernels would be told the same: those of this graph have operands of the same
// types and dims, and differ in an attribute, in a constant that decides what is done, or in nothing.
TEST(KeptChoices, EqualStepsShareOneChoice) {
  SessionOptions options;
  options.validate_plans = true;
  options.optimization_level = OptimizationLevel::disabled;
  const auto session = session_of(
      "graph(%x: f32[N,4]) {\n"
      "  %a = Slice(%x, [0], [2], [1])\n  %b = Slice(%x, [2], [4], [1])\n  %c = Slice(%x, [2], [4], [1])\n"
      "  %d = LeakyRelu<alpha=0.5>(%x)\n  %e = LeakyRelu<alpha=0.25>(%x)\n  %f = LeakyRelu<alpha=0.5>(%x)\n"
      "  %g = Add(%x, [1.0, 2.0, 3.0, 4.0])\n  %h = Add(%x, [5.0, 6.0, 7.0, 8.0])\n  %i = Add(%x, 9.0)\n"
      "  %j = Concat<axis=1>(%a, %b)\n  %k = Concat<axis=1>(%b, %a)\n  %l = Concat<axis=0>(%c, %a)\n"
      "  return %a, %b, %c, %d, %e, %f, %g, %h, %i, %j, %k, %l\n}",
      options);
  ASSERT_TRUE(session);
  for (const int64_t rows : {3, 1, 5, 3, 2}) {
    SCOPED_TRACE(rows);
    const Value x = random_floats({rows, 4}, static_cast<uint64_t>(rows));
    const std::vector<float> in = floats(x);
    const auto expected = [&](int columns, auto at) {
      std::vector<float> r;
      for (int64_t i = 0; i < rows; ++i)
        for (int k = 0; k < columns; ++k) r.push_back(at(i, k));
      return r;
    };
    const auto cut = [&](int from) { return expected(2, [&](int64_t i, int k) { return in[i * 4 + from + k]; }); };
    const auto leaky = [&](float alpha) {
      return expected(4, [&](int64_t i, int k) { return in[i * 4 + k] < 0 ? alpha * in[i * 4 + k] : in[i * 4 + k]; });
    };
    const auto plus = [&](float first, float step) {
      return expected(4, [&](int64_t i, int k) { return in[i * 4 + k] + (first + step * static_cast<float>(k)); });
    };
    std::vector<float> stacked = cut(2);
    std::ranges::copy(cut(0), std::back_inserter(stacked));
    const std::vector<std::vector<float>> want = {
        cut(0),
        cut(2),
        cut(2),
        leaky(0.5f),
        leaky(0.25f),
        leaky(0.5f),
        plus(1, 1),
        plus(5, 1),
        plus(9, 0),
        in,
        expected(4, [&](int64_t i, int k) { return in[i * 4 + (k + 2) % 4]; }),
        stacked};
    const std::vector<Value> got = outputs_of(*session, x);
    for (size_t k = 0; k < want.size(); ++k) EXPECT_EQ(floats(got[k]), want[k]) << "output " << k;
  }
  // In each of the four plans: %c, %f, %h and %k.
  EXPECT_EQ(session->summary().plans.steps_as_others, 4 * 4);
}

// Other ranks are more than other numbers of dims.
TEST(KeptChoices, NoneForOtherRanks) {
  SessionOptions options;
  options.validate_plans = true;
  options.optimization_level = OptimizationLevel::disabled;
  const auto session = session_of("graph(%x: f32?) {\n  %y = Relu(%x)\n  %t = Transpose(%y)\n  return %t\n}", options);
  ASSERT_TRUE(session);
  for (const Dims& d : {Dims{5}, Dims{5, 3}, Dims{2, 4, 3}, Dims{7}, Dims{3, 1}}) {
    std::vector<Value> out(1);
    ASSERT_TRUE(session->run_ordered(std::vector<Value>{random_floats(d, 1)}, out).ok());
  }
  EXPECT_EQ(session->summary().plans.steps_kept, 0);
}

// The plan that a run has just used stays when room is made for another.
TEST(KeptChoices, TheLeastRecentlyUsedPlanLeaves) {
  SessionOptions options;
  options.plan_cache_capacity = 2;
  const auto session = session_of("graph(%x: f32[N]) {\n  %y = Relu(%x)\n  return %y\n}", options);
  ASSERT_TRUE(session);
  for (const int64_t n : {1, 2, 1, 3, 1, 4, 1, 3}) {
    std::vector<Value> out(1);
    ASSERT_TRUE(session->run_ordered(std::vector<Value>{random_floats({n}, 1)}, out).ok());
  }
  const CacheCounts c = session->summary().plans;
  EXPECT_EQ(c.hits, 3) << "those of 1";
  EXPECT_EQ(c.misses, 5);
  EXPECT_EQ(c.evicted, 3);
}

}  // namespace
}  // namespace forethought
