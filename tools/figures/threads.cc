// figure_threads FOLDER: whether outputs have the same bits for 1, 2, 4 and 8 threads, alone and beside other runs.
#include <fmt/core.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <thread>

#include "tools/figures/model_folder.h"

namespace forethought {
namespace {

constexpr int kOthers = 2;
constexpr int kBusyRuns = 3;

// Runs of the same session beside others that never pause.
std::vector<std::vector<Value>> run_beside_others(LoadedModel& m) {
  std::atomic<bool> stop{false};
  std::atomic<int> started{0};
  std::vector<std::thread> others;
  for (int i = 0; i < kOthers; ++i) {
    others.emplace_back([&] {
      std::vector<Value> outputs(m.session->outputs().size());
      while (!stop) {
        for (Value& v : outputs) v = Value();
        must(m.session->run_ordered(m.inputs, outputs));
        ++started;
      }
    });
  }
  while (started < kOthers) std::this_thread::yield();
  std::vector<std::vector<Value>> results;
  for (int r = 0; r < kBusyRuns; ++r) results.push_back(must(run_once(*m.session, m.inputs)));
  stop = true;
  for (std::thread& t : others) t.join();
  return results;
}

bool finite(const std::vector<Value>& values) {
  for (const Value& v : values) {
    const Tensor& t = v.tensor();
    if (t.dtype != DType::kFloat) continue;
    for (int64_t i = 0; i < t.elements(); ++i)
      if (!(t.as<float>()[i] - t.as<float>()[i] == 0)) return false;
  }
  return true;
}

int run(const std::string& folder) {
  std::vector<Value> reference;
  nlohmann::json j;
  for (const int threads : {1, 2, 4, 8}) {
    SessionOptions options;
    options.intra_op_threads = threads;
    LoadedModel m = must(load_folder(folder, options));
    const std::vector<Value> alone = must(run_once(*m.session, m.inputs));
    if (reference.empty()) {
      reference = alone;
      j["finite"] = finite(reference);
    }
    bool equal = same_bits(alone, reference);
    j["alone"][std::to_string(threads)] = equal;
    bool busy = true;
    for (const auto& result : run_beside_others(m)) busy = busy && same_bits(result, reference);
    j["busy"][std::to_string(threads)] = busy;
  }
  j["hash"] = fmt::format("{:016x}", hash_of(reference));
  fmt::print("{}\n", j.dump());
  return 0;
}

}  // namespace
}  // namespace forethought

int main(int argc, char** argv) {
  if (argc != 2) return fmt::print(stderr, "figure_threads FOLDER\n"), 2;
  return forethought::run(argv[1]);
}
