// Time to plan graphs of 1,000 and 10,000 values at each effort, and to validate the plan.
#include <benchmark/benchmark.h>

#include "plan/planner.h"
#include "plan/random_problem_for_tests.h"
#include "plan/validator.h"

namespace forethought {
namespace {

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

void BM_Replan(benchmark::State& state) { run(state, net_like_problem(state.range(0)), Effort::replan); }
void BM_ReplanTwoLanes(benchmark::State& state) { run(state, net_like_problem(state.range(0), 2), Effort::replan); }
void BM_ReplanLongLived(benchmark::State& state) { run(state, long_lived_problem(state.range(0)), Effort::replan); }
void BM_Load(benchmark::State& state) { run(state, net_like_problem(state.range(0)), Effort::load); }
void BM_LoadLongLived(benchmark::State& state) { run(state, long_lived_problem(state.range(0)), Effort::load); }

void BM_Validate(benchmark::State& state) {
  const PlanProblem problem = net_like_problem(state.range(0));
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
