// Reports of a plan: what they say of a small one, in text and JSON, for all of it, one value and one step.
#include "plan/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "plan/planner.h"
#include "plan/random_problem_for_tests.h"
#include "plan/sharers.h"

namespace forethought {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// x -> Conv -> c -> Relu (in place) -> r -> Reshape (view) -> v -> Gemm -> y
struct Example {
  PlanProblem problem;
  Plan plan;

  Example() {
    const auto add = [&](const char* name, Role role, int32_t index) {
      PlanValue v;
      v.name = name;
      v.bytes = 256;
      v.role = role;
      v.index = index;
      problem.values.push_back(v);
    };
    add("x", Role::input, 0);
    add("c", Role::execution, kNoId);
    add("r", Role::execution, kNoId);
    add("v", Role::execution, kNoId);
    add("y", Role::output, 0);
    const char* names[] = {"Conv", "Relu", "Reshape", "Gemm"};
    for (int i = 0; i < 4; ++i) {
      PlanStep step;
      step.name = names[i];
      step.reads = {i};
      step.writes = {i + 1};
      problem.steps.push_back(step);
    }
    problem.steps[1].may_overwrite = {{2, 1}};
    problem.steps[2].aliases = {{3, 2, 0}};
    plan = *forethought::plan(problem, Effort::load);
  }
};

bool common_bytes(const ValuePlace& a, const ValuePlace& b) {
  if (a.arena == ArenaKind::none || a.arena == ArenaKind::weights || a.bytes == 0 || b.bytes == 0) return false;
  if (a.arena != b.arena || a.index != b.index) return false;
  const auto reaches = [](const ValuePlace& x, const ValuePlace& y) {
    return x.bytes == kUnknownSize || x.offset + x.bytes > y.offset;
  };
  return reaches(a, b) && reaches(b, a);
}

TEST(Report, TextSaysWhereAndWhy) {
  const Example e;
  const std::string text = to_text(e.problem, e.plan);
  for (const char* part :
       {"4 steps in 1 lane, 5 values", "naive 768 B, lower bound 256 B, peak 256 B (peak / lower bound 1.000)",
        "step #1 Relu lane 0: %1 c -> %2 r", "overwrite %2 r of %1 c at 0: honoured",
        "view %3 v of %2 r at 0: honoured",
        "value %2 r: execution, slab at 0, 256 B, steps 1..2, root %1 c; written over %1 c; shares with %1 c, %3 v",
        "value %0 x: input, input 0 at 0, 256 B, steps 0..0; the caller's input",
        "value %4 y: output, output 0 at 0, 256 B, steps 3..3; an output's buffer"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

TEST(Report, ScopesSelect) {
  const Example e;
  const std::string value = to_text(e.problem, e.plan, {.value = 3});
  EXPECT_THAT(value, HasSubstr("value %3 v"));
  EXPECT_THAT(value, HasSubstr("step #2 Reshape"));
  EXPECT_THAT(value, HasSubstr("step #3 Gemm"));
  EXPECT_THAT(value, Not(HasSubstr("step #0")));
  EXPECT_THAT(value, Not(HasSubstr("value %1")));
  const std::string step = to_text(e.problem, e.plan, {.step = 0});
  EXPECT_THAT(step, HasSubstr("value %0 x"));
  EXPECT_THAT(step, Not(HasSubstr("value %2")));
  EXPECT_THAT(to_text(e.problem, e.plan, {.value = 99}), Not(HasSubstr("value %")));
  EXPECT_THAT(to_text(e.problem, e.plan, {.step = 99}), Not(HasSubstr("value %")));
}

TEST(Report, JsonHoldsThePlan) {
  const Example e;
  const auto json = nlohmann::json::parse(to_json(e.problem, e.plan));
  EXPECT_EQ(json["peak"], 256);
  EXPECT_EQ(json["steps"].size(), 4u);
  ASSERT_EQ(json["values"].size(), 5u);
  const auto& r = json["values"][2];
  EXPECT_EQ(r["role"], "execution");
  EXPECT_EQ(r["arena"], "slab");
  EXPECT_EQ(r["place"], "over");
  EXPECT_EQ(r["root"], 1);
  EXPECT_EQ(r["sharers"], nlohmann::json({1, 3}));
  EXPECT_EQ(json["steps"][2]["facts"][0]["honoured"], true);
}

TEST(Report, LiveBytesReachTheLowerBound) {
  const Example e;
  EXPECT_THAT(live_bytes(e.problem, e.plan), ElementsAre(256, 256, 256, 256));
  EXPECT_EQ(nlohmann::json::parse(to_json(e.problem, e.plan))["live"], nlohmann::json({256, 256, 256, 256}));
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const PlanProblem problem =
        random_problem({.seed = seed, .lanes = 1 + static_cast<int>(seed % 2), .devices = static_cast<int>(seed % 3)});
    const Plan made = *forethought::plan(problem, Effort::replan);
    const std::vector<int64_t> live = live_bytes(problem, made);
    ASSERT_EQ(live.size(), problem.steps.size());
    EXPECT_EQ(*std::max_element(live.begin(), live.end()), made.lower_bound) << seed;
    for (size_t d = 0; d < made.devices.size(); ++d) {
      const std::vector<int64_t> there = live_bytes(problem, made, static_cast<int32_t>(d));
      EXPECT_EQ(*std::max_element(there.begin(), there.end()), made.devices[d].lower_bound) << seed;
    }
  }
}

TEST(Report, SharersAreThoseWithCommonBytes) {
  const Example e;
  const Sharers sharers(e.plan);
  EXPECT_THAT(sharers.nearest(1, 9), ElementsAre(2, 3));
  EXPECT_THAT(sharers.nearest(1, 1), ElementsAre(2));
  EXPECT_EQ(sharers.count(0), 0);
  int64_t pairs = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const PlanProblem problem = random_problem({.seed = seed});
    const Plan made = *forethought::plan(problem, Effort::replan);
    const Sharers all(made);
    for (size_t v = 0; v < made.values.size(); ++v) {
      std::vector<ValueNo> expected;
      for (size_t w = 0; w < made.values.size(); ++w) {
        if (v != w && common_bytes(made.values[v], made.values[w])) expected.push_back(static_cast<ValueNo>(w));
      }
      EXPECT_EQ(all.nearest(static_cast<ValueNo>(v), made.values.size()), expected) << seed << " %" << v;
      EXPECT_EQ(all.count(static_cast<ValueNo>(v)), static_cast<int64_t>(expected.size())) << seed << " %" << v;
      pairs += static_cast<int64_t>(expected.size());
    }
  }
  EXPECT_GT(pairs, 1000);
}

TEST(Report, NamesThatAreNoTextDoNotBreakJson) {
  Example e;
  e.problem.values[1].name = "\xff\xfe\"";
  EXPECT_TRUE(nlohmann::json::accept(to_json(e.problem, e.plan)));
}

}  // namespace
}  // namespace forethought
