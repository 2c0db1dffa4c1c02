// figure_plan MODEL… : plans of models with sharing on and off, planner times, packing and validator checks, as JSON.
#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "plan/packing_rules_for_tests.h"
#include "plan/seeded_faults_for_tests.h"
#include "plan/validator.h"
#include "tools/figures/model_folder.h"

namespace forethought {
namespace {

nlohmann::json plan_of(const std::string& path, bool share) {
  SessionOptions options;
  options.share = share;
  options.intra_op_threads = 1;
  options.validate_plans = true;
  const auto session = must(Session::load(path, options));
  const SessionSummary s = session->summary();
  if (!s.planned) must(invalid(fmt::format("{} is not planned at load", path)));
  return {{"naive", s.naive}, {"lower_bound", s.lower_bound}, {"peak", s.peak}};
}

// At least `values` values, like those of everyday graphs: short lifetimes, some long ones, views, scratch.
PlanProblem graph_like(int64_t values) {
  PlanProblem problem;
  for (int64_t steps = values / 2; static_cast<int64_t>(problem.values.size()) < values; steps += values / 50) {
    RandomProblemOptions o;
    o.seed = 7;
    o.steps = static_cast<int>(steps);
    o.reach = 6;
    problem = random_problem(o);
  }
  return problem;
}

// Lifetimes with random ends: the most conflicts.
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

nlohmann::json time_of(const char* kind, const PlanProblem& problem) {
  std::vector<double> ms;
  for (int r = 0; r < 30; ++r) {
    const double start = now_ns();
    const auto made = plan(problem, Effort::replan);
    ms.push_back((now_ns() - start) / 1e6);
    must(made.status());
  }
  std::sort(ms.begin(), ms.end());
  return {{"kind", kind}, {"values", problem.values.size()}, {"min_ms", ms.front()}, {"median_ms", ms[ms.size() / 2]}};
}

nlohmann::json packing() {
  using namespace planning;
  int64_t sets = 0, at_bound = 0, worse_than_fit = 0, worse_than_size = 0, worse_than_slots = 0;
  for (uint64_t seed = 0; seed < 1000; ++seed, ++sets) {
    const Intervals all = random_intervals(seed);
    const PackProblem p = problem_of(all);
    const int64_t height = pack(p, Effort::replan).height;
    const std::vector<int> by_birth = order_of(all, false);
    worse_than_size += height > offsets_in_order(all, order_of(all, true), false);
    worse_than_fit += height > offsets_in_order(all, by_birth, true);
    worse_than_slots += height > slots_in_order(all, by_birth);
    at_bound += height == p.lower_bound;
  }
  return {{"sets", sets},
          {"at the lower bound", at_bound},
          {"worse than best fit", worse_than_fit},
          {"worse than largest first", worse_than_size},
          {"worse than slots", worse_than_slots}};
}

nlohmann::json faults() {
  nlohmann::json rows;
  for (const seeded::Kind& kind : seeded::kKinds) {
    int64_t seeds = 0, rejected = 0;
    for (uint64_t seed = 0; seed < 400; ++seed) {
      seeded::Subject subject = seeded::subject(seed);
      Random rng(seed * 31 + 7);
      if (!kind.seed(subject, rng)) continue;
      ++seeds;
      rejected += !validate(subject.problem, subject.plan).ok();
    }
    rows.push_back({{"fault", kind.name}, {"seeded", seeds}, {"rejected", rejected}});
  }
  return rows;
}

int run(int count, char** paths) {
  nlohmann::json j;
  for (int i = 0; i < count; ++i)
    j["models"].push_back(
        {{"path", paths[i]}, {"shared", plan_of(paths[i], true)}, {"apart", plan_of(paths[i], false)}});
  j["times"] = {time_of("like a net", graph_like(1000)), time_of("like a net", graph_like(10000)),
                time_of("lifetimes at random", long_lived(1000)), time_of("lifetimes at random", long_lived(10000))};
  j["packing"] = packing();
  j["faults"] = faults();
  fmt::print("{}\n", j.dump());
  return 0;
}

}  // namespace
}  // namespace forethought

int main(int argc, char** argv) { return forethought::run(argc - 1, argv + 1); }
