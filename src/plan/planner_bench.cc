// Time to plan graphs of 1,000 and 10,000 values at each effort, and to validate the plan.
#include <benchmark/benchmark.h>

#include "plan/planner.h"
#include "plan/random_problem_for_tests.h"
#include "plan/validator.h"

namespace forethought {
namespace {

// A graph with about `values` values: short lifetimes with some long ones, views, overwrites, windows and scratch.
PlanProblem graph_like(int64_t values, int lanes) {
  RandomProblemOptions o;
  o.seed = 7;
  o.steps = static_cast<int>(values * 10 / 14);
  o.lanes = lanes;
  o.reach = 6;
  return random_problem(o);
}

// Lifetimes with uniformly random ends: the worst case for the number of conflicts.
PlanProblem long_lived(int64_t values) {
  Random rng(3);
  PlanProblem p;
  p.values.resize(values);
  p.steps.resize(2 * values);
  for (int64_t v = 0; v < values; ++v) {
    p.values[v].bytes = 64 * (1 + rng.below(1000));
    const int64_t a = rng.below(2 * values), b = rng.below(2 * values);
    p.steps[std::min(a, b)].writes.push_back(static_cast<ValueNo>(v));
    if (a != b) p.steps[std::max(a, b)].reads.push_back(static_cast<ValueNo>(v));
  }
  return p;
}

void run(benchmark::State& state, const PlanProblem& problem, Effort effort) {
  int64_t peak = 0, bound = 1;
  for (auto _ : state) {
    const auto made = plan(problem, effort);
    if (!made.ok()) return state.SkipWithError(std::string(made.status().message()).c_str());
    peak = made->peak;
    bound = made->lower_bound;
  }
  state.counters["values"] = static_cast<double>(problem.values.size());
  state.counters["peak/bound"] = static_cast<double>(peak) / static_cast<double>(bound);
}

void BM_Replan(benchmark::State& state) { run(state, graph_like(state.range(0), 1), Effort::replan); }
void BM_ReplanTwoLanes(benchmark::State& state) { run(state, graph_like(state.range(0), 2), Effort::replan); }
void BM_ReplanLongLived(benchmark::State& state) { run(state, long_lived(state.range(0)), Effort::replan); }
void BM_Load(benchmark::State& state) { run(state, graph_like(state.range(0), 1), Effort::load); }
void BM_LoadLongLived(benchmark::State& state) { run(state, long_lived(state.range(0)), Effort::load); }

void BM_Validate(benchmark::State& state) {
  const PlanProblem problem = graph_like(state.range(0), 1);
  const auto made = plan(problem, Effort::replan);
  for (auto _ : state) benchmark::DoNotOptimize(validate(problem, *made));
}

BENCHMARK(BM_Replan)->Arg(1000)->Arg(10000)->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_ReplanTwoLanes)->Arg(1000)->Arg(10000)->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_ReplanLongLived)->Arg(1000)->Arg(10000)->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_Load)->Arg(1000)->Arg(10000)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_LoadLongLived)->Arg(400)->Arg(1000)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_Validate)->Arg(1000)->Arg(10000)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace forethought
