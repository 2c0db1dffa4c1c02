// Random problems of every shape: each plan is safe, none exceeds the naive bytes, and equal problems give equal plans.
#include <gtest/gtest.h>

#include "plan/planner.h"
#include "plan/random_problem_for_tests.h"
#include "plan/report.h"
#include "plan/validator.h"

namespace forethought {
namespace {

constexpr Effort kEfforts[] = {Effort::replan, Effort::load, Effort::slots, Effort::off};

RandomProblemOptions options(uint64_t seed, int steps) {
  RandomProblemOptions o;
  o.seed = seed;
  o.steps = steps;
  o.lanes = static_cast<int>(seed % 4) + 1;
  o.reach = 2 + static_cast<int>(seed % 13);
  o.facts = seed % 7 != 0;
  o.apart = seed % 3 != 0;
  o.regions = seed % 5 == 4;
  return o;
}

int64_t count(const std::vector<uint8_t>& flags) { return std::count(flags.begin(), flags.end(), 1); }

TEST(RandomPlans, AreSafeAtEveryEffort) {
  int64_t views = 0, overwrites = 0, windows = 0, regions = 0;
  for (uint64_t seed = 0; seed < random_cases(1500); ++seed) {
    const PlanProblem problem = random_problem(options(seed, 4 + static_cast<int>(seed % 60)));
    for (const Effort effort : kEfforts) {
      if (effort == Effort::load && seed % 25 != 0) continue;
      const auto made = plan(problem, effort);
      ASSERT_TRUE(made.ok()) << seed << ": " << made.status();
      const Status verdict = validate(problem, *made);
      ASSERT_TRUE(verdict.ok()) << "seed " << seed << " effort " << static_cast<int>(effort) << ": " << verdict;
      EXPECT_LE(made->lower_bound, made->peak) << seed;
      regions += made->region > 0 ? made->regions() : 0;
      if (made->region > 0) continue;
      EXPECT_LE(made->peak, made->naive) << seed;
      if (effort == Effort::off) {
        EXPECT_EQ(made->peak, made->naive) << seed;
      }
      views += count(made->aliases);
      overwrites += count(made->overwrites);
      windows += count(made->windows);
    }
  }
  EXPECT_GT(views, 1000);
  EXPECT_GT(overwrites, 1000);
  EXPECT_GT(windows, 1000);
  EXPECT_GT(regions, 1000);
}

// Values of several devices: each device has a slab of its own, and nothing shares bytes across two of them.
TEST(RandomPlans, SlabsOfSeveralDevicesAreSafe) {
  int64_t on_devices = 0, shared = 0, moved = 0, in_regions = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    RandomProblemOptions o = options(seed, 5 + static_cast<int>(seed % 40));
    o.devices = 1 + static_cast<int>(seed % 2);
    const PlanProblem problem = random_problem(o);
    for (const Effort effort : {Effort::replan, Effort::slots, Effort::off}) {
      const auto made = plan(problem, effort);
      ASSERT_TRUE(made.ok()) << seed << ": " << made.status();
      const Status verdict = validate(problem, *made);
      ASSERT_TRUE(verdict.ok()) << "seed " << seed << ": " << verdict;
      ASSERT_EQ(made->devices.size(), static_cast<size_t>(o.devices));
      for (const SlabFigures& f : made->devices) {
        EXPECT_LE(f.lower_bound, f.peak) << seed;
        if (f.region == 0) {
          EXPECT_LE(f.peak, f.naive) << seed;
        }
        in_regions += f.region > 0;
        on_devices += f.peak;
      }
      shared += count(made->aliases) + count(made->overwrites) + count(made->windows);
    }
    // The validator notices a value in another device's slab, and bytes shared with another device's value.
    Plan wrong = *plan(problem, Effort::replan);
    for (size_t v = 0; v < problem.values.size(); ++v) {
      if (wrong.values[v].arena != ArenaKind::slab || problem.values[v].device == kNoId) continue;
      wrong.values[v].index = kNoId;
      EXPECT_FALSE(validate(problem, wrong).ok()) << seed;
      ++moved;
      break;
    }
  }
  EXPECT_GT(on_devices, 0);
  EXPECT_GT(shared, 500);
  EXPECT_GT(moved, 200);
  EXPECT_GT(in_regions, 100);
}

TEST(RandomPlans, LargeOnesAreSafeToo) {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    const PlanProblem problem = random_problem(options(seed, 700));
    const auto made = plan(problem, Effort::replan);
    ASSERT_TRUE(made.ok()) << made.status();
    const Status verdict = validate(problem, *made);
    EXPECT_TRUE(verdict.ok()) << "seed " << seed << ": " << verdict;
  }
}

TEST(RandomPlans, EqualProblemsGiveIdenticalBytes) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const PlanProblem problem = random_problem(options(seed, 40));
    const auto first = plan(problem, Effort::replan);
    ASSERT_TRUE(first.ok());
    const std::string text = to_json(problem, *first);
    for (int again = 0; again < 10; ++again) {
      const auto other = plan(random_problem(options(seed, 40)), Effort::replan);
      ASSERT_TRUE(other.ok());
      EXPECT_EQ(*first, *other);
      EXPECT_EQ(text, to_json(problem, *other));
    }
  }
  const PlanProblem hard = random_problem(options(24, 200));
  EXPECT_EQ(*plan(hard, Effort::load), *plan(hard, Effort::load));
}

// Views, overwrites and windows, as decided, never raise the most bytes live at one step.
TEST(RandomPlans, SharingNeverRaisesTheBound) {
  for (uint64_t seed = 0; seed < 400; ++seed) {
    RandomProblemOptions o = options(seed, 30);
    o.facts = true;
    o.apart = o.regions = false;
    PlanProblem problem = random_problem(o);
    const auto shared = plan(problem, Effort::replan);
    for (PlanStep& step : problem.steps) step.windows.clear();
    const auto no_windows = plan(problem, Effort::replan);
    for (PlanStep& step : problem.steps) step.may_overwrite.clear();
    const auto views_only = plan(problem, Effort::replan);
    ASSERT_TRUE(shared.ok() && no_windows.ok() && views_only.ok());
    EXPECT_LE(shared->lower_bound, no_windows->lower_bound) << seed;
    EXPECT_LE(no_windows->lower_bound, views_only->lower_bound) << seed;
  }
}

}  // namespace
}  // namespace forethought
