// Plans inside other plans: smaller sizes at the places of larger ones.
#include <gtest/gtest.h>

#include <algorithm>

#include "plan/planner.h"
#include "plan/random_problem_for_tests.h"
#include "plan/validator.h"

namespace forethought {
namespace {

TEST(PlanInside, Check26_SmallerSizesTakeThePlacesOfLargerOnes) {
  int64_t shared = 0;
  for (uint64_t seed = 0; seed < 600; ++seed) {
    const PlanProblem small = one_lane_problem(seed), large = scaled(small, 3);
    const auto model = plan(large, Effort::replan);
    ASSERT_TRUE(model.ok()) << seed << ": " << model.status();
    const auto inside = plan_inside(small, large, *model);
    ASSERT_TRUE(inside.ok()) << seed << ": " << inside.status();
    ASSERT_TRUE(inside->has_value()) << seed;
    const Status verdict = validate(small, **inside);
    ASSERT_TRUE(verdict.ok()) << seed << ": " << verdict;
    EXPECT_EQ((*inside)->peak, model->peak);
    EXPECT_EQ((*inside)->aliases, model->aliases);
    EXPECT_EQ((*inside)->overwrites, model->overwrites);
    EXPECT_EQ((*inside)->windows, model->windows);
    for (size_t v = 0; v < small.values.size(); ++v) {
      const ValuePlace &a = (*inside)->values[v], &b = model->values[v];
      EXPECT_EQ(a.root, b.root);
      if (a.arena == ArenaKind::slab && a.root == static_cast<ValueNo>(v)) {
        EXPECT_EQ(a.offset, b.offset);
      }
    }
    shared += std::count(model->overwrites.begin(), model->overwrites.end(), 1) +
              std::count(model->windows.begin(), model->windows.end(), 1);
  }
  EXPECT_GT(shared, 1000);
}

TEST(PlanInside, TheSameSizesGiveTheSamePlan) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const PlanProblem problem = one_lane_problem(seed);
    const auto model = plan(problem, Effort::replan);
    const auto inside = plan_inside(problem, problem, *model);
    ASSERT_TRUE(model.ok() && inside.ok() && inside->has_value()) << seed;
    EXPECT_EQ(**inside, *model) << seed;
  }
}

// Facts that hold only at the smaller sizes (a transposition that moves nothing, say) do no harm.
TEST(PlanInside, FactsThatTheModelDoesNotListAreNotTaken) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const PlanProblem small = one_lane_problem(seed);
    PlanProblem large = scaled(small, 2);
    Random random(seed);
    for (PlanStep& s : large.steps) {
      if (random.one_in(2)) s.aliases.clear();
      if (random.one_in(2)) s.windows.clear();
      if (random.one_in(3)) s.may_overwrite.clear();
    }
    const auto model = plan(large, Effort::replan);
    ASSERT_TRUE(model.ok());
    const auto inside = plan_inside(small, large, *model);
    ASSERT_TRUE(inside.ok() && inside->has_value()) << seed;
    const Status verdict = validate(small, **inside);
    ASSERT_TRUE(verdict.ok()) << seed << ": " << verdict;
    EXPECT_EQ((*inside)->peak, model->peak);
  }
}

// What is larger somewhere, or has other facts, is refused or placed safely: never placed wrongly.
TEST(PlanInside, OtherProblemsAreRefusedOrPlacedSafely) {
  int64_t refused = 0;
  for (uint64_t seed = 0; seed < 600; ++seed) {
    PlanProblem problem = one_lane_problem(seed);
    const auto model = plan(problem, Effort::replan);
    ASSERT_TRUE(model.ok());
    const PlanProblem before = problem;
    Random random(seed);
    if (seed % 3 == 0) problem = scaled(problem, 2);
    if (seed % 3 == 1) {
      PlanValue& v = problem.values[4 + random.below(static_cast<int64_t>(problem.values.size()) - 4)];
      v.bytes = random.one_in(3) ? kUnknownSize : v.bytes + 64 * random.below(4);
    }
    if (seed % 3 == 2) {
      for (PlanStep& s : problem.steps) {
        if (s.may_overwrite.size() > 1 && random.one_in(2)) std::swap(s.may_overwrite[0], s.may_overwrite[1]);
        if (!s.windows.empty() && random.one_in(3)) s.windows.clear();
        if (!s.aliases.empty() && random.one_in(3)) s.aliases.clear();
      }
    }
    const auto inside = plan_inside(problem, before, *model);
    if (!inside.ok()) continue;  // the change made the problem wrong
    if (!inside->has_value()) {
      ++refused;
      continue;
    }
    const Status verdict = validate(problem, **inside);
    ASSERT_TRUE(verdict.ok()) << seed << ": " << verdict;
  }
  EXPECT_GT(refused, 200);
}

// The model gave the bytes to others when the value was dead there.
TEST(PlanInside, AValueThatLivesLongerKeepsItsBytes) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const PlanProblem before = one_lane_problem(seed);
    const auto model = plan(before, Effort::replan);
    ASSERT_TRUE(model.ok());
    for (size_t s = 0; s + 1 < before.steps.size(); ++s) {
      for (const ValueNo v : before.steps[s].writes) {
        if (before.values[v].role != Role::execution) continue;
        PlanProblem problem = before;
        auto& reads = problem.steps.back().reads;
        if (std::ranges::count(reads, v) > 0) continue;
        reads.push_back(v);
        const auto inside = plan_inside(problem, before, *model);
        if (!inside.ok() || !inside->has_value()) continue;
        const Status verdict = validate(problem, **inside);
        ASSERT_TRUE(verdict.ok()) << seed << ", value " << v << ": " << verdict;
      }
    }
  }
}

}  // namespace
}  // namespace forethought
