// Lanes of the host: chains stay whole, branches part where that pays, and the choice says why.
#include "session/host_lanes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "plan/waits.h"

namespace forethought {
namespace {

using testing::HasSubstr;

// Step s writes value s.
PlanProblem steps(const std::vector<ValueNos>& reads) {
  PlanProblem p;
  for (const auto& r : reads) {
    PlanStep step;
    step.reads = r;
    step.writes = {static_cast<ValueNo>(p.steps.size())};
    p.steps.push_back(step);
    p.values.push_back({.bytes = 64});
  }
  return p;
}

HostLanes choose(const PlanProblem& p, StepCost cost, int wanted, int workers) {
  const std::vector<StepCost> costs(p.steps.size(), cost);
  const std::vector<int32_t> host(p.steps.size(), -1);
  return choose_host_lanes(p, costs, host, wanted, workers);
}

// A trunk, two branches of `n` steps, and what joins them.
PlanProblem two_branches(int n) {
  std::vector<ValueNos> reads = {{}};
  for (int b = 0; b < 2; ++b)
    for (int i = 0; i < n; ++i) reads.push_back({i == 0 ? 0 : static_cast<StepNo>(reads.size()) - 1});
  reads.push_back({n, 2 * n});
  return steps(reads);
}

constexpr StepCost kWhole = {100'000, 100'000};  // cannot be split
constexpr StepCost kHalves = {100'000, 52'000};  // two threads do it in half the time

TEST(HostLanes, BranchesOfStepsThatDoNotSplitGetLanes) {
  const HostLanes h = choose(two_branches(5), kWhole, 0, 2);
  EXPECT_EQ(h.lanes, 2);
  EXPECT_EQ(h.lane, (std::vector<int32_t>{0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1}));
  EXPECT_LT(h.ns, h.one_ns * 0.65);
  EXPECT_THAT(h.reason, HasSubstr("2 lanes are expected"));
}

TEST(HostLanes, A23_AutomaticStaysAtOneLaneWhereNothingIsToGain) {
  struct {
    PlanProblem problem;
    StepCost cost;
    int workers;
    const char* reason;
  } const rows[] = {
      {two_branches(5), kHalves, 2, "too little to gain"},
      {two_branches(5), kWhole, 1, "one thread"},
      {two_branches(1), {1'000, 1'000}, 2, "no branches"},  // a hand-over costs more than the branch
      {steps({{}, {0}, {1}, {2}}), kWhole, 4, "longest chain"},
      {two_branches(5), {100'000, 100'000, false}, 2, "only the run tells"},
      {steps({}), kWhole, 2, "longest chain"},
  };
  for (const auto& r : rows) {
    const HostLanes h = choose(r.problem, r.cost, 0, r.workers);
    EXPECT_EQ(h.lanes, 1) << r.reason;
    EXPECT_TRUE(std::ranges::all_of(h.lane, [](int32_t l) { return l == 0; }));
    EXPECT_THAT(h.reason, HasSubstr(r.reason));
  }
}

TEST(HostLanes, AsManyAsAskedForWhereThereIsWorkForThem) {
  EXPECT_EQ(choose(two_branches(5), kHalves, 2, 2).lanes, 2);
  EXPECT_EQ(choose(two_branches(5), kHalves, 1, 2).lanes, 1);
  EXPECT_THAT(choose(two_branches(5), kHalves, 2, 2).reason, HasSubstr("as asked"));
  EXPECT_EQ(choose(two_branches(5), kWhole, 4, 1).lanes, 2);
  EXPECT_EQ(choose(steps({{}, {0}, {1}}), kWhole, 4, 2).lanes, 1);
}

TEST(HostLanes, FlopsAndCosts) {
  const int64_t image[] = {1, 16, 8, 8}, weights[] = {32, 16, 3, 3}, row[] = {4, 100}, matrix[] = {100, 7};
  EXPECT_EQ(flops_of(work_of("Conv"), image, weights, 2048), 2.0 * 16 * 9 * 2048);
  EXPECT_EQ(flops_of(work_of("MatMul"), row, matrix, 28), 2.0 * 100 * 28);
  EXPECT_EQ(flops_of(work_of("Relu"), row, {}, 400), 4.0 * 400);
  const StepCost small = step_cost(1'000, 100, 2), large = step_cost(1e9, 100, 2);
  EXPECT_EQ(small.alone, small.split) << "not worth a loop over the pool";
  EXPECT_LT(large.split, large.alone * 0.6);
  EXPECT_EQ(step_cost(1e9, 100, 1).split, large.alone);
}

TEST(HostLanes, StepsOfDevicesAreLeftOut) {
  const PlanProblem p = two_branches(3);
  const std::vector<StepCost> costs(p.steps.size(), kWhole);
  std::vector<int32_t> device(p.steps.size(), -1);
  device[4] = device[5] = device[6] = 0;
  const HostLanes h = choose_host_lanes(p, costs, device, 2, 2);
  EXPECT_EQ(h.lanes, 1);
}

TEST(HostLanes, RandomGraphsKeepEveryLaneBusyAndEveryStepOrdered) {
  std::mt19937_64 random(3);
  for (int graph = 0; graph < 200; ++graph) {
    std::vector<ValueNos> reads;
    for (int s = 0; s < 60; ++s) {
      reads.emplace_back();
      for (int i = 0; s > 0 && i < 2; ++i)
        reads.back().push_back(static_cast<StepNo>(random() % static_cast<uint64_t>(s)));
    }
    PlanProblem p = steps(reads);
    std::vector<StepCost> costs;
    for (size_t s = 0; s < p.steps.size(); ++s) {
      const double alone = 1'000 + static_cast<double>(random() % 200'000);
      costs.push_back({alone, random() % 2 ? alone : alone / 2 + 2'000});
    }
    const std::vector<int32_t> host(p.steps.size(), -1);
    for (const int wanted : {2, 3, 4}) {
      const HostLanes h = choose_host_lanes(p, costs, host, wanted, 4);
      EXPECT_LE(h.lanes, wanted);
      EXPECT_GT(h.ns, 0);
      double alone = 0;
      for (const StepCost& c : costs) alone += c.alone;
      EXPECT_LT(h.ns, alone * 1.3) << "worse than on one thread";
      for (size_t s = 0; s < p.steps.size(); ++s) p.steps[s].lane = h.lane[s];
      p.lanes = h.lanes;
      const WaitCounts waits = add_waits(p);
      EXPECT_LE(waits.waits, waits.edges);
      const HostLanes again = choose_host_lanes(p, costs, host, wanted, 4);
      EXPECT_EQ(again.lane, h.lane);
    }
  }
}

}  // namespace
}  // namespace forethought
