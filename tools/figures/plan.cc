// figure_plan MODEL… : plans of models with sharing on and off, and faults that the validator rejects, as JSON.
#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "plan/seeded_faults_for_tests.h"
#include "plan/validator.h"
#include "tools/figures/model_folder.h"

namespace forethought {
namespace {

nlohmann::json plan_of(const std::string& path, bool share, PlanMode mode = PlanMode::packed) {
  SessionOptions options;
  options.plan = mode;
  options.share = share;
  options.intra_op_threads = 1;
  options.validate_plans = true;
  const auto session = must(Session::load(path, options));
  const SessionSummary s = session->summary();
  if (!s.planned) must(invalid(fmt::format("{} is not planned at load", path)));
  return {{"naive", s.naive}, {"lower_bound", s.lower_bound}, {"peak", s.peak}, {"slots", s.slots}};
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
    j["models"].push_back({{"path", paths[i]},
                           {"shared", plan_of(paths[i], true)},
                           {"apart", plan_of(paths[i], false)},
                           {"slots", plan_of(paths[i], true, PlanMode::slots)},
                           {"slots apart", plan_of(paths[i], false, PlanMode::slots)}});
  j["faults"] = faults();
  fmt::print("{}\n", j.dump());
  return 0;
}

}  // namespace
}  // namespace forethought

int main(int argc, char** argv) { return forethought::run(argc - 1, argv + 1); }
