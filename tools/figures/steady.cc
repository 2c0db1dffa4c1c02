// figure_steady FOLDER THREADS: what repeated runs of one shape ask of the system, as one line of JSON.
#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <thread>

#include "memory/memory_calls_testing.h"
#include "memory/system.h"
#include "session/compile.h"
#include "tools/figures/model_folder.h"

namespace forethought {
namespace {

constexpr double kMostWarmUpNs = 1.5e9;

struct Copies {
  int64_t outputs = 0;  // bytes that a run copies when it hands outputs over
  int64_t views = 0;    // bytes of outputs that could be views and are copied
};

Copies copies_of(const CompiledProgram& p) {
  Copies c;
  for (const auto& copy : p.copies) c.outputs += p.values[copy.from].bytes;
  const PlanProblem problem = p.problem();
  for (size_t s = 0; s < problem.steps.size(); ++s) {
    const auto& aliases = problem.steps[s].aliases;
    for (size_t a = 0; a < aliases.size(); ++a)
      if (!p.plan.alias_honoured(static_cast<StepNo>(s), a)) c.views += problem.values[aliases[a].out].bytes;
  }
  return c;
}

nlohmann::json json_of(const MemoryCalls& c) {
  return {{"allocations", c.allocations}, {"frees", c.frees}, {"maps", c.maps}, {"unmaps", c.unmaps}};
}

// Memory for every output, from a run that has been: runs that write there lease nothing.
std::vector<Value> bound_like(const std::vector<Value>& outputs) {
  std::vector<Value> bound;
  for (const Value& v : outputs) bound.emplace_back(must(make_tensor(v.tensor().dtype, v.tensor().dims)));
  return bound;
}

// What the first run maps: with outputs bound this is the slab alone.
int64_t mapped_by_first_run(const std::string& folder, const SessionOptions& options) {
  LoadedModel m = must(load_folder(folder, options));
  std::vector<Value> outputs = bound_like(must(run_once(*m.session, m.inputs)));
  m = must(load_folder(folder, options));
  MemoryCallRecorder recorder;
  recorder.start();
  const Status status = m.session->run_ordered(m.inputs, outputs);
  recorder.stop();
  must(status);
  return recorder.ours().mapped_bytes;
}

struct Window {
  MemoryCalls ours, onednn, onetbb, openmp;
  int64_t faults = 0;
  std::string first;
};

Window measure(LoadedModel& m, std::vector<Value>& outputs, int runs) {
  Window w;
  MemoryCallRecorder recorder;
  Status status;
  recorder.start();
  const int64_t before = minor_faults();
  for (int r = 0; r < runs && status.ok(); ++r) {
    for (Value& v : outputs) v = Value();
    status = m.session->run_ordered(m.inputs, outputs);
  }
  w.faults = minor_faults() - before;
  recorder.stop();
  must(status);
  w.ours = recorder.ours();
  w.onednn = recorder.of("libdnnl");
  w.onetbb = recorder.of("libtbb");
  w.openmp = recorder.of("libgomp");
  w.first = recorder.first_of_ours();
  return w;
}

int64_t faults_of_an_empty_loop(int runs) {
  int64_t faults = 0;
  for (int round = 0; round < 2; ++round) {  // the first brings in the code
    const int64_t before = minor_faults();
    for (int r = 0; r < runs; ++r) std::this_thread::yield();
    faults = minor_faults() - before;
  }
  return faults;
}

int run(const std::string& folder, int threads) {
  SessionOptions options;
  options.intra_op_threads = threads;
  const int64_t mapped = mapped_by_first_run(folder, options);
  LoadedModel m = must(load_folder(folder, options));
  std::vector<Value> outputs(m.session->outputs().size());
  double best = 1e18;
  for (int warm = 0; warm < 5; ++warm) {
    const double begin = now_ns();
    must(m.session->run_ordered(m.inputs, outputs));
    best = std::min(best, now_ns() - begin);
  }
  const int runs = static_cast<int>(std::clamp(4e9 / best, 10.0, 100.0));
  // Threads that come to help late find their libraries' state made, too.
  const double start = now_ns();
  for (int warm = 0; warm < runs && now_ns() - start < kMostWarmUpNs; ++warm)
    must(m.session->run_ordered(m.inputs, outputs));
  const int64_t empty = faults_of_an_empty_loop(runs);
  const Window first = measure(m, outputs, runs), second = measure(m, outputs, runs);
  std::vector<Dims> dims;
  for (const Value& v : m.inputs) dims.push_back(v.is_tensor() ? v.tensor().dims : Dims());
  const auto program = must(m.session->plan_for(dims));
  const Copies copies = copies_of(*program);
  const SessionSummary summary = m.session->summary();
  const int64_t peak = summary.peak;
  const nlohmann::json j = {
      {"runs", runs},
      {"ms", best / 1e6},
      {"ours", json_of(second.ours)},
      {"faults", second.faults - empty},
      {"copied at the border", copies.outputs},
      {"views copied", copies.views},
      {"onednn", json_of(second.onednn)},
      {"onetbb", json_of(second.onetbb)},
      {"openmp", json_of(second.openmp)},
      {"libraries constant",
       first.onednn == second.onednn && first.onetbb == second.onetbb && first.openmp == second.openmp},
      {"peak", peak},
      {"mapped", mapped},
      {"mapped is peak", mapped == (peak + page_size() - 1) / page_size() * page_size()},
  };
  fmt::print("{}\n", j.dump());
  const auto tell = [&](const char* library, const MemoryCalls& a, const MemoryCalls& b) {
    if (a == b) return;
    fmt::print(stderr, "{}: {} made {} and {} allocations of {} and {} bytes in two windows\n", folder, library,
               a.allocations, b.allocations, a.heap_bytes, b.heap_bytes);
  };
  tell("oneDNN", first.onednn, second.onednn);
  tell("oneTBB", first.onetbb, second.onetbb);
  tell("OpenMP", first.openmp, second.openmp);
  if (!second.ours.none()) fmt::print(stderr, "{}: calls of ours\n{}", folder, second.first);
  return 0;
}

}  // namespace
}  // namespace forethought

int main(int argc, char** argv) {
  if (argc != 3) return fmt::print(stderr, "figure_steady FOLDER THREADS\n"), 2;
  return forethought::run(argv[1], std::atoi(argv[2]));
}
