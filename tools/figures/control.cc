// figure_control FOLDER RUNS: what a run of a model with bodies asks of memory, copies and takes, as one line of JSON.
#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "memory/memory_calls_testing.h"
#include "tools/figures/model_folder.h"

namespace forethought {
namespace {

int run(const std::string& folder, int runs) {
  SessionOptions options;
  options.intra_op_threads = 1;
  LoadedModel m = must(load_folder(folder, options));
  std::vector<Value> outputs(m.session->outputs().size());
  const auto once = [&] { must(m.session->run_ordered(m.inputs, outputs)); };
  for (int warm = 0; warm < 3; ++warm) {
    for (Value& v : outputs) v = Value();
    once();
  }
  const SessionSummary before = m.session->summary();
  for (Value& v : outputs) v = Value();
  MemoryCallRecorder recorder;
  recorder.start();
  once();
  recorder.stop();
  const SessionSummary after = m.session->summary();
  const MemoryCalls calls = recorder.ours();
  std::vector<double> ns;
  for (int r = 0; r < runs; ++r) {
    const double start = now_ns();
    once();
    ns.push_back(now_ns() - start);
  }
  const nlohmann::json j = {
      {"allocations", calls.allocations},
      {"maps", calls.maps},
      {"copies", after.copies - before.copies},
      {"copied", after.copied_bytes - before.copied_bytes},
      {"ns", ns},
  };
  fmt::print("{}\n", j.dump());
  return 0;
}

}  // namespace
}  // namespace forethought

int main(int argc, char** argv) {
  if (argc != 3) return fmt::print(stderr, "figure_control FOLDER RUNS\n"), 2;
  return forethought::run(argv[1], std::atoi(argv[2]));
}
