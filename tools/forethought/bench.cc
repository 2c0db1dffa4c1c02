// forethought bench: how long a run takes, and which operators take it.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "exec/profile.h"
#include "tools/forethought/command.h"

namespace forethought {
namespace {

struct BenchArguments {
  ModelArguments model;
  int runs = 0, warmup = 3;
  double seconds = 2;
  bool json = false, nodes = false;
};

double now_ms() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Share {
  int64_t ns = 0;
  int64_t count = 0;
};

// "name (Op)" → "Op"
std::string operator_of(const std::string& step) {
  const size_t open = step.rfind('(');
  return open == std::string::npos ? step : step.substr(open + 1, step.size() - open - 2);
}

Status profile(Session& s, std::span<const Value> inputs, int runs, bool nodes,
               std::vector<std::pair<std::string, Share>>* table) {
  ProfileRecorder recorder;
  RunOptions options;
  options.sink = &recorder;
  for (int r = 0; r < runs; ++r) {
    std::vector<Value> outputs(s.outputs().size());
    RETURN_IF_ERROR(s.run_ordered(inputs, outputs, options));
  }
  std::map<std::string, Share> shares;
  for (const ProfileRecorder::Entry& e : recorder.take()) {
    if (e.depth > 0) continue;  // inside the time of the node that holds the body
    Share& share = shares[nodes ? e.name : operator_of(e.name)];
    share.ns += e.end_ns - e.begin_ns;
    ++share.count;
  }
  table->assign(shares.begin(), shares.end());
  std::sort(table->begin(), table->end(), [](const auto& a, const auto& b) { return a.second.ns > b.second.ns; });
  return absl::OkStatus();
}

int run(const BenchArguments& a) {
  auto options = session_options(a.model);
  if (!options.ok()) return fail(options.status(), kUsage);
  auto loaded = load_session(a.model, *options);
  if (!loaded.ok()) return fail(loaded.status(), kBadInput);
  Session& s = **loaded;
  auto dims = input_dims(a.model, s);
  if (!dims.ok()) return fail(dims.status(), kUsage);
  auto made = random_inputs(s, *dims);
  if (!made.ok()) return fail(made.status(), kBadInput);
  const std::vector<Value>& inputs = *made;
  std::vector<double> times;
  auto once = [&]() -> Status {
    std::vector<Value> outputs(s.outputs().size());
    const double start = now_ms();
    RETURN_IF_ERROR(s.run_ordered(inputs, outputs));
    times.push_back(now_ms() - start);
    return absl::OkStatus();
  };
  for (int w = 0; w < std::max(1, a.warmup); ++w)
    if (Status st = once(); !st.ok()) return fail(st, kRunFailed);
  const double first = times.front();
  times.clear();
  const double begin = now_ms();
  while (a.runs > 0 ? static_cast<int>(times.size()) < a.runs : times.empty() || now_ms() - begin < a.seconds * 1000) {
    if (Status st = once(); !st.ok()) return fail(st, kRunFailed);
    progress(fmt::format("{} runs", times.size()));
  }
  progress("");
  std::sort(times.begin(), times.end());
  auto quantile = [&](double q) {
    return times[std::min(times.size() - 1, static_cast<size_t>(q * static_cast<double>(times.size())))];
  };
  std::vector<std::pair<std::string, Share>> table;
  const int profiled = static_cast<int>(std::min<size_t>(times.size(), 10));
  if (Status st = profile(s, inputs, profiled, a.nodes, &table); !st.ok()) return fail(st, kRunFailed);
  int64_t total = 0;
  for (const auto& [name, share] : table) total += share.ns;
  const SessionSummary sum = s.summary();
  if (a.json) {
    nlohmann::json j = {{"runs", times.size()},    {"min_ms", times.front()}, {"median_ms", quantile(0.5)},
                        {"p10_ms", quantile(0.1)}, {"p90_ms", quantile(0.9)}, {"first_ms", first},
                        {"load_ms", sum.load_ms},  {"peak_bytes", sum.peak}};
    for (const auto& [name, bytes] : named(s.memory_statistics())) j["memory"][name] = bytes;
    for (const auto& [name, share] : table)
      j["operators"].push_back(
          {{"name", name}, {"calls", share.count / profiled}, {"ms", static_cast<double>(share.ns) / 1e6 / profiled}});
    fmt::print("{}\n", j.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
    return kOk;
  }
  fmt::print(
      "load {:.2f} ms, first run {:.3f} ms\n{} runs: min {:.3f}  p10 {:.3f}  median {:.3f}  p90 {:.3f}  max {:.3f} "
      "ms\n",
      sum.load_ms, first, times.size(), times.front(), quantile(0.1), quantile(0.5), quantile(0.9), times.back());
  fmt::print("\n{:>10} {:>7} {:>7}  {}\n", "ms a run", "%", "calls", a.nodes ? "node" : "operator");
  for (const auto& [name, share] : table)
    fmt::print("{:>10.4f} {:>7.2f} {:>7}  {}\n", static_cast<double>(share.ns) / 1e6 / profiled,
               total ? 100.0 * static_cast<double>(share.ns) / static_cast<double>(total) : 0.0, share.count / profiled,
               name);
  return kOk;
}

}  // namespace

void add_bench(CLI::App& app, int* code) {
  auto* a = new BenchArguments;
  CLI::App* c = app.add_subcommand("bench", "Time of a run on random inputs, with a table by operator");
  add_model_options(*c, &a->model);
  c->add_option("--runs", a->runs, "How many timed runs; 0: as many as --seconds allows")
      ->check(CLI::Range(0, 1000000))
      ->capture_default_str();
  c->add_option("--seconds", a->seconds, "How long to measure")->check(CLI::Range(0.0, 3600.0))->capture_default_str();
  c->add_option("--warmup", a->warmup, "Runs before the timed ones")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  c->add_flag("--nodes", a->nodes, "A table by node instead of by operator");
  c->add_flag("--json", a->json, "As JSON");
  c->footer(footer({"bench model.onnx --threads 2 --runs 50", "bench model.onnx --shape x=1,3,48,320 --nodes",
                    "bench model.onnx --plan-mode off --json"}));
  c->callback([a, code] { *code = run(*a); });
}

}  // namespace forethought
