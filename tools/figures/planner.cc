// figure_planner HARD_SETS MODEL : hard sets of buffers, packing rules, planner times, equal reports, Concat, as JSON.
#include "plan/planner.h"

#include <fmt/core.h>
#include <time.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>

#include "exec/profile.h"
#include "plan/hard_sets_for_tests.h"
#include "plan/packing_rules_for_tests.h"
#include "plan/report.h"
#include "session/compile.h"
#include "tensor/shape.h"
#include "tools/figures/model_folder.h"

namespace forethought {
namespace {

// Of the calling thread: what a core was busy with it, whatever else the machine does.
double cpu_ms() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_nsec) / 1e6;
}

// Check 4.
nlohmann::json hard_sets(const std::string& folder) {
  using namespace planning;
  nlohmann::json rows;
  for (const auto& file : hard_set_files(folder)) {
    const PackProblem p = read_hard_set(file, kHardSetCapacity);
    const int64_t quick = pack(p, Effort::replan).height;
    const double start = cpu_ms();
    const int64_t height = pack(p, Effort::exact).height;
    rows.push_back({{"set", file.stem().stem().string()},
                    {"buffers", p.items.size()},
                    {"quick orders", quick},
                    {"exact", height},
                    {"fits", height <= kHardSetCapacity},
                    {"ms", cpu_ms() - start}});
  }
  return rows;
}

// Check 3.
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
    worse_than_slots += height > sum_of(slots_in_order(all, by_birth, false));
    at_bound += height == p.lower_bound;
  }
  return {{"sets", sets},
          {"at the lower bound", at_bound},
          {"worse than best fit", worse_than_fit},
          {"worse than largest first", worse_than_size},
          {"worse than slots", worse_than_slots}};
}

// Check 5.
nlohmann::json time_of(const char* kind, const PlanProblem& problem) {
  std::vector<double> ms;
  for (int r = 0; r < 30; ++r) {
    const double start = cpu_ms();
    const auto made = plan(problem, Effort::replan);
    ms.push_back(cpu_ms() - start);
    must(made.status());
  }
  std::sort(ms.begin(), ms.end());
  return {{"kind", kind}, {"values", problem.values.size()}, {"min_ms", ms.front()}, {"median_ms", ms[ms.size() / 2]}};
}

std::shared_ptr<const CompiledProgram> program_of(const Session& session) {
  std::vector<Dims> dims;
  for (const NodeArg& input : session.inputs()) {
    const auto numbers = input.shape.numbers();
    if (!numbers) must(invalid(fmt::format("input '{}' has no fixed shape", input.name)));
    dims.emplace_back(numbers->begin(), numbers->end());
  }
  return must(session.plan_for(dims));
}

// Check 6: how many of 100 reports of one problem equal the first.
int64_t equal_reports(const PlanProblem& problem, Effort effort) {
  int64_t equal = 0;
  std::string first;
  for (int r = 0; r < 100; ++r) {
    const std::string report = to_json(problem, must(plan(problem, effort)));
    if (r == 0) first = report;
    equal += report == first;
  }
  return equal;
}

bool is_concat(std::string_view step) { return step.find("Concat") != step.npos; }

class ConcatTimes final : public StepSink {
 public:
  void on_step(const StepEvent& e) override {
    const std::string_view name = e.program->steps[e.step].name;
    (is_concat(name) ? concat_ns : other_ns) += e.end_ns - e.begin_ns;
  }
  int64_t concat_ns = 0, other_ns = 0;
};

// What the Concat steps of a net copy and take; without sharing beside.
nlohmann::json concat_row(const std::string& path, OptimizationLevel level, bool share) {
  SessionOptions options;
  options.optimization_level = level;
  options.share = share;
  options.intra_op_threads = 1;
  const auto session = must(Session::load(path, options));
  const auto program = program_of(*session);
  const PlanProblem problem = program->problem();
  int64_t steps = 0, inputs = 0, placed = 0, copied = 0;
  for (size_t s = 0; s < program->steps.size(); ++s) {
    if (!is_concat(program->steps[s].name)) continue;
    const PlanStep& step = problem.steps[s];
    ++steps;
    std::vector<ValueNo> born;
    for (size_t w = 0; w < step.windows.size(); ++w) {
      if (program->plan.window_honoured(static_cast<StepNo>(s), w)) born.push_back(step.windows[w].in);
    }
    for (const ValueNo in : step.reads) {
      ++inputs;
      const bool inside = std::find(born.begin(), born.end(), in) != born.end();
      placed += inside;
      copied += inside ? 0 : problem.values[in].bytes;
    }
  }
  std::vector<Value> feeds;
  std::vector<std::vector<float>> data;
  for (const NodeArg& input : session->inputs()) {
    const auto numbers = input.shape.numbers();
    data.emplace_back(
        static_cast<size_t>(std::accumulate(numbers->begin(), numbers->end(), int64_t{1}, std::multiplies<>())), 0.5f);
    Tensor t;
    t.dtype = DType::kFloat;
    t.dims.assign(numbers->begin(), numbers->end());
    t.data = data.back().data();
    feeds.emplace_back(std::move(t));
  }
  constexpr int kRuns = 5;
  ConcatTimes best;
  for (int r = 0; r < kRuns; ++r) {
    ConcatTimes times;
    RunOptions run;
    run.sink = &times;
    std::vector<Value> outputs(session->outputs().size());
    must(session->run_ordered(feeds, outputs, run));
    if (r == 0 || times.concat_ns < best.concat_ns) best = std::move(times);
  }
  return {{"level", level == OptimizationLevel::all ? "all (blocked channels)" : "basic (plain)"},
          {"sharing", share},
          {"Concat steps", steps},
          {"inputs", inputs},
          {"born in place", placed},
          {"bytes copied", copied},
          {"us", static_cast<double>(best.concat_ns) / 1e3},
          {"us of a step", steps ? static_cast<double>(best.concat_ns) / 1e3 / static_cast<double>(steps) : 0.0},
          {"net us", static_cast<double>(best.concat_ns + best.other_ns) / 1e3}};
}

int run(const std::string& sets, const std::string& model) {
  nlohmann::json j;
  j["hard sets"] = hard_sets(sets);
  j["packing"] = packing();
  j["times"] = {time_of("like a net", net_like_problem(1000)), time_of("like a net", net_like_problem(10000)),
                time_of("lifetimes at random", long_lived_problem(1000)),
                time_of("lifetimes at random", long_lived_problem(10000))};
  SessionOptions options;
  options.intra_op_threads = 1;
  const auto session = must(Session::load(model, options));
  const auto program = program_of(*session);
  j["equal reports"] = {{"the model, replan", equal_reports(program->problem(), Effort::replan)},
                        {"the model, load", equal_reports(program->problem(), Effort::load)},
                        {"1,000 values, replan", equal_reports(net_like_problem(1000), Effort::replan)}};
  for (const OptimizationLevel level : {OptimizationLevel::basic, OptimizationLevel::all}) {
    for (const bool share : {true, false}) j["concat"].push_back(concat_row(model, level, share));
  }
  fmt::print("{}\n", j.dump());
  return 0;
}

}  // namespace
}  // namespace forethought

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  return forethought::run(argv[1], argv[2]);
}
