// Waits between lanes: every read is ordered behind its write, and no wait is left that another path implies.
#include "plan/waits.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "plan/planner.h"
#include "plan/random_problem_for_tests.h"
#include "plan/validator.h"

namespace forethought {
namespace {

PlanProblem steps(int32_t lanes, const std::vector<std::pair<int32_t, ValueNos>>& list) {
  PlanProblem p;
  p.lanes = lanes;
  for (const auto& [lane, reads] : list) {  // step s writes value s
    PlanStep step;
    step.lane = lane;
    step.reads = reads;
    step.writes = {static_cast<ValueNo>(p.steps.size())};
    p.steps.push_back(step);
    p.values.push_back({.bytes = 64});
  }
  return p;
}

TEST(Waits, OneLaneNeedsNone) {
  PlanProblem p = steps(1, {{0, {}}, {0, {0}}, {0, {0, 1}}});
  p.steps[1].waits = {3};
  EXPECT_EQ(add_waits(p), WaitCounts{});
  EXPECT_TRUE(p.steps[1].waits.empty());
}

TEST(Waits, A44_TheOrderWithinALaneAndEarlierWaitsImplyOthers) {
  // 2 waits for 1, which is behind 0. 3 comes behind 2. 4 waits for 3, which knows of 0 and 1.
  PlanProblem p = steps(3, {{0, {}}, {0, {}}, {1, {0, 1}}, {1, {0}}, {2, {0, 3}}});
  EXPECT_EQ(add_waits(p), (WaitCounts{.edges = 5, .waits = 2, .notifications = 2}));
  EXPECT_EQ(p.steps[1].signals, Notifications{0});
  EXPECT_EQ(p.steps[2].waits, Notifications{0});
  EXPECT_EQ(p.steps[3].signals, Notifications{1});
  EXPECT_EQ(p.steps[4].waits, Notifications{1});
}

TEST(Waits, OneNotificationServesAllThatWaitForAStep) {
  PlanProblem p = steps(3, {{0, {}}, {1, {0}}, {2, {0}}});
  EXPECT_EQ(add_waits(p), (WaitCounts{.edges = 2, .waits = 2, .notifications = 1}));
}

TEST(Waits, Check29_RandomProblemsStaySafeAndNoWaitIsTooMany) {
  int64_t edges = 0, waits = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    RandomProblemOptions o;
    o.seed = 70'000 + seed;
    o.steps = 5 + static_cast<int>(seed % 40);
    o.lanes = 2 + static_cast<int>(seed % 3);
    o.devices = static_cast<int>(seed % 2);
    PlanProblem problem = random_problem(o);
    const WaitCounts counts = add_waits(problem);
    EXPECT_LE(counts.waits, counts.edges);
    edges += counts.edges;
    waits += counts.waits;
    const auto made = plan(problem, Effort::replan);
    ASSERT_TRUE(made.ok()) << seed << ": " << made.status();
    ASSERT_TRUE(validate(problem, *made).ok()) << seed;
    // Without any one of the waits, some read is no longer behind its write.
    for (PlanStep& step : problem.steps) {
      for (size_t w = 0; w < step.waits.size(); ++w) {
        const int32_t wait = step.waits[w];
        step.waits.erase(step.waits.begin() + static_cast<std::ptrdiff_t>(w));
        EXPECT_FALSE(plan(problem, Effort::off).ok()) << "seed " << seed << ": notification " << wait;
        step.waits.insert(step.waits.begin() + static_cast<std::ptrdiff_t>(w), wait);
      }
    }
  }
  EXPECT_LT(waits, edges * 9 / 10) << "most problems have waits that others imply";
}

}  // namespace
}  // namespace forethought
