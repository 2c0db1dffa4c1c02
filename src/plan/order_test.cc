// Orders that are proved once: other sizes get offsets without a packing.
#include "plan/order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "plan/planner.h"
#include "plan/random_problem_for_tests.h"
#include "plan/validator.h"

namespace forethought {
namespace {

PlanProblem problem_with_some_windows(uint64_t seed) {
  PlanProblem p = one_lane_problem(seed);
  if (seed % 4 < 2)
    for (PlanStep& s : p.steps) s.windows.clear();
  return p;
}

// Other sizes for what shares bytes with nothing, those of the others by a factor: sizes of values that a fact names
// compare as before.
PlanProblem resized(PlanProblem p, uint64_t seed) {
  Random random(seed);
  std::vector<uint8_t> named(p.values.size());
  for (const PlanStep& s : p.steps) {
    for (const AliasFact& f : s.aliases) named[f.in] = named[f.out] = 1;
    for (const OverwriteFact& f : s.may_overwrite) named[f.in] = named[f.out] = 1;
    for (const WindowFact& f : s.windows) named[f.in] = named[f.out] = 1;
  }
  p = scaled(std::move(p), 1 + random.below(5));
  for (size_t v = 0; v < p.values.size(); ++v)
    if (!named[v] && p.values[v].bytes > 0) p.values[v].bytes = 1 + random.below(10'000);
  return p;
}

TEST(PlanOrder, B7_OtherSizesGetAValidPlanAtTheLowerBound) {
  int64_t orders = 0, served = 0, asked = 0, overwrites = 0, views = 0, windows = 0, lower = 0, higher = 0;
  for (uint64_t seed = 0; seed < random_cases(1500); ++seed) {
    const PlanProblem first = problem_with_some_windows(seed);
    const auto model = plan(first, Effort::replan);
    ASSERT_TRUE(model.ok()) << seed << ": " << model.status();
    const auto order = PlanOrder::of(first, *model);
    if (!order) continue;
    ++orders;
    for (const PlanProblem& other : {scaled(first, 3), resized(first, seed), resized(first, seed + 1'000'000)}) {
      ++asked;
      const std::optional<Plan> ordered = order->plan_for(other);
      const auto packed = plan(other, Effort::replan);
      ASSERT_TRUE(packed.ok()) << seed << ": " << packed.status();
      if (!ordered) continue;
      ++served;
      const Status verdict = validate(other, *ordered);
      ASSERT_TRUE(verdict.ok()) << seed << ": " << verdict;
      EXPECT_EQ(ordered->peak, ordered->lower_bound);
      EXPECT_EQ(ordered->naive, packed->naive) << seed;
      EXPECT_EQ(ordered->side_values, packed->side_values) << seed;
      windows += std::count(ordered->windows.begin(), ordered->windows.end(), 1);
      higher += ordered->peak > packed->peak;
      if (std::ranges::any_of(other.steps, [](const PlanStep& s) { return !s.windows.empty(); })) continue;
      EXPECT_LE(ordered->peak, packed->peak) << seed;
      EXPECT_EQ(ordered->lower_bound, packed->lower_bound) << seed;
      EXPECT_EQ(ordered->padding, packed->padding) << seed;
      EXPECT_EQ(ordered->aliases, packed->aliases) << seed;
      EXPECT_EQ(ordered->overwrites, packed->overwrites) << seed;
      Plan alike = *packed;  // but for offsets in the slab
      for (size_t v = 0; v < alike.values.size(); ++v)
        if (alike.values[v].arena == ArenaKind::slab) alike.values[v].offset = ordered->values[v].offset;
      EXPECT_EQ(ordered->values, alike.values) << seed;
      lower += ordered->peak < packed->peak;
    }
    overwrites += std::count(model->overwrites.begin(), model->overwrites.end(), 1);
    views += std::count(model->aliases.begin(), model->aliases.end(), 1);
  }
  EXPECT_GT(orders, 500);
  EXPECT_GT(2 * served, asked) << "few are at the bound";
  EXPECT_GT(overwrites, 100);
  EXPECT_GT(views, 100);
  EXPECT_GT(windows, 100);
  EXPECT_LT(100 * higher, served) << "windows that would be given up, or others that would be taken";
  EXPECT_GT(lower, 0) << "a packing anew misses the bound sometimes";
}

TEST(PlanOrder, TheSameSizesGiveTheSamePlan) {
  int64_t orders = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const PlanProblem problem = problem_with_some_windows(seed);
    const auto model = plan(problem, Effort::load);
    ASSERT_TRUE(model.ok());
    const auto order = PlanOrder::of(problem, *model);
    if (!order || model->peak != model->lower_bound) continue;
    ++orders;
    const std::optional<Plan> again = order->plan_for(problem);
    ASSERT_TRUE(again) << seed;
    EXPECT_LE(again->peak, model->peak);
    EXPECT_TRUE(validate(problem, *again).ok());
  }
  EXPECT_GT(orders, 100);
}

// x, a = Relu(x), b = Reshape(a), c = Add(b, b), y = Neg(c), with scratch at the third step: a, b and c share bytes.
struct Chain {
  enum : ValueNo { x, a, b, c, scratch, y };
  PlanProblem p;
  Chain() {
    for (const Role role :
         {Role::input, Role::execution, Role::execution, Role::execution, Role::scratch, Role::output})
      p.values.push_back({.bytes = 256, .role = role});
    p.values[x].index = p.values[y].index = 0;
    p.steps.resize(4);
    p.steps[0].reads = {x};
    p.steps[0].writes = {a};
    p.steps[1].reads = {a};
    p.steps[1].writes = {b};
    p.steps[1].aliases = {{b, a, 0}};
    p.steps[2].reads = {b, x};
    p.steps[2].writes = {c, scratch};
    p.steps[2].may_overwrite = {{c, b}};
    p.steps[3].reads = {c};
    p.steps[3].writes = {y};
  }
};

TEST(PlanOrder, WhereItDoesNotServe) {
  const PlanProblem first = Chain().p;
  const auto model = plan(first, Effort::replan);
  ASSERT_TRUE(model.ok());
  ASSERT_EQ(model->values[Chain::c].root, Chain::a);
  const auto order = PlanOrder::of(first, *model);
  ASSERT_TRUE(order);
  ASSERT_TRUE(order->plan_for(scaled(first, 2)));
  struct Case {
    const char* what;
    std::function<void(PlanProblem&)> change;
  };
  const Case cases[] = {
      {"an output larger than what it overwrites", [](PlanProblem& p) { p.values[Chain::c].bytes = 512; }},
      {"an output smaller than what it overwrites", [](PlanProblem& p) { p.values[Chain::c].bytes = 128; }},
      {"a view smaller than its source", [](PlanProblem& p) { p.values[Chain::b].bytes = 128; }},
      {"a view that begins later", [](PlanProblem& p) { p.steps[1].aliases[0].byte_offset = 64; }},
      {"a view that is none any more", [](PlanProblem& p) { p.steps[1].aliases.clear(); }},
      {"a view of something else", [](PlanProblem& p) { p.steps[1].aliases[0].in = Chain::x; }},
      {"nothing may be overwritten", [](PlanProblem& p) { p.steps[2].may_overwrite.clear(); }},
      {"a window",
       [](PlanProblem& p) {
         p.steps[3].windows.push_back({Chain::c, Chain::y, 0});
       }},
      {"one that is empty", [](PlanProblem& p) { p.values[Chain::scratch].bytes = 0; }},
      {"a size that only the run tells", [](PlanProblem& p) { p.values[Chain::scratch].bytes = kUnknownSize; }},
      {"another role", [](PlanProblem& p) { p.values[Chain::c].role = Role::data_dependent; }},
      {"another alignment", [](PlanProblem& p) { p.values[Chain::a].alignment = 4096; }},
      {"another reader", [](PlanProblem& p) { p.steps[3].reads.push_back(Chain::a); }},
      {"another writer", [](PlanProblem& p) { std::swap(p.steps[0].writes, p.steps[3].writes); }},
      {"lanes", [](PlanProblem& p) { p.lanes = 2; }},
      {"devices", [](PlanProblem& p) { p.devices = 1; }},
      {"a device", [](PlanProblem& p) { p.values[Chain::a].device = 0; }},
      {"another granule", [](PlanProblem& p) { p.granule = 128; }},
      {"more than can be counted", [](PlanProblem& p) { p.values[Chain::scratch].bytes = int64_t{1} << 60; }},
      {"more values", [](PlanProblem& p) { p.values.emplace_back(); }},
      {"fewer steps", [](PlanProblem& p) { p.steps.pop_back(); }},
  };
  for (const Case& c : cases) {
    PlanProblem other = first;
    c.change(other);
    EXPECT_FALSE(order->plan_for(other)) << c.what;
  }
}

// a and b are born in the halves of c.
TEST(PlanOrder, AWindowThatMovesOverAnotherEndsIt) {
  enum : ValueNo { x, a, b, c, y };
  PlanProblem p;
  for (const int64_t bytes : {256, 128, 128, 256, 256}) p.values.push_back({.bytes = bytes});
  p.values[x].role = Role::input;
  p.values[y].role = Role::output;
  p.values[x].index = p.values[y].index = 0;
  p.steps.resize(4);
  p.steps[0].reads = {x};
  p.steps[0].writes = {a};
  p.steps[1].reads = {x};
  p.steps[1].writes = {b};
  p.steps[2].reads = {a, b};
  p.steps[2].writes = {c};
  p.steps[2].windows = {{a, c, 0}, {b, c, 128}};
  p.steps[3].reads = {c};
  p.steps[3].writes = {y};
  const auto model = plan(p, Effort::replan);
  ASSERT_TRUE(model.ok()) << model.status();
  ASSERT_EQ(model->values[a].root, c);
  ASSERT_EQ(model->values[b].root, c);
  const auto order = PlanOrder::of(p, *model);
  ASSERT_TRUE(order) << PlanOrder::refusal(p, *model);
  EXPECT_TRUE(order->plan_for(scaled(p, 3)));
  p.steps[2].windows[1].byte_offset = 64;
  EXPECT_FALSE(order->plan_for(p));
}

TEST(PlanOrder, WhatFitsNowAndDidNotIsPlannedAnew) {
  PlanProblem p = Chain().p;
  p.values[Chain::c].bytes = 512;  // larger than b
  const auto order = PlanOrder::of(p, *plan(p, Effort::replan));
  ASSERT_TRUE(order);
  EXPECT_TRUE(order->plan_for(scaled(p, 2)));
  p.values[Chain::c].bytes = 256;
  EXPECT_FALSE(order->plan_for(p)) << "c may be written over b";
}

TEST(PlanOrder, KeepsAlignment) {
  PlanProblem p = Chain().p;
  p.steps[1].aliases.clear();
  p.steps[2].may_overwrite.clear();
  p.values[Chain::b].alignment = 256;
  const auto model = plan(p, Effort::replan);
  ASSERT_TRUE(model.ok());
  ASSERT_EQ(model->values[Chain::b].offset, 256) << "above a";
  const auto order = PlanOrder::of(p, *model);
  ASSERT_TRUE(order);
  EXPECT_TRUE(order->plan_for(scaled(p, 2)));
  p.values[Chain::a].bytes = p.values[Chain::c].bytes = p.values[Chain::scratch].bytes = 64;
  const std::optional<Plan> ordered = order->plan_for(p);
  EXPECT_FALSE(ordered && ordered->values[Chain::b].offset % 256 != 0);
  EXPECT_FALSE(ordered) << "b cannot lie at 64, so the slab would be above the lower bound";
}

TEST(PlanOrder, ThereIsNoneWhereSizesDecideMore) {
  const auto order_of = [](const PlanProblem& p) { return PlanOrder::of(p, *plan(p, Effort::replan)); };
  PlanProblem p = Chain().p;
  EXPECT_TRUE(order_of(p));
  p.values[Chain::c].bytes = 128;  // in place, if that takes no more at any step
  EXPECT_FALSE(order_of(p));
  p = Chain().p;
  p.lanes = 2;
  EXPECT_FALSE(order_of(p));
  p = Chain().p;
  p.devices = 1;
  EXPECT_FALSE(order_of(p));
}

}  // namespace
}  // namespace forethought
