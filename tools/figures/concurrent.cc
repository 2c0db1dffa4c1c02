// figure_concurrent: one session and many threads. FOLDER THREADS RUNS [MODE]: throughput, equal bits and waits for
// locks (MODE: run, async).
#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/mutex.h"
#include "tools/figures/model_folder.h"

namespace forethought {
namespace {

// Inputs of thread `t`: floats scaled, all else as it is.
std::vector<Value> inputs_of(const std::vector<Value>& inputs, int t) {
  std::vector<Value> own;
  for (const Value& v : inputs) {
    own.push_back(v);
    if (!v.is_tensor() || v.tensor().dtype != DType::kFloat) continue;
    Tensor copy = must(make_tensor(DType::kFloat, v.tensor().dims));
    for (int64_t i = 0; i < copy.elements(); ++i)
      copy.as<float>()[i] = v.tensor().as<float>()[i] * (1 - static_cast<float>(t) / 16);
    own.back() = Value(std::move(copy));
  }
  return own;
}

void drop(std::vector<Value>& values) {
  for (Value& v : values) v = Value();
}

int64_t serve(Session& session, const std::vector<Value>& inputs, const std::vector<Value>& expected, int runs) {
  int64_t wrong = 0;
  std::vector<Value> outputs(session.outputs().size());
  for (int r = 0; r < runs; ++r) {
    drop(outputs);
    must(session.run_ordered(inputs, outputs));
    wrong += !same_bits(outputs, expected);
  }
  return wrong;
}

// With a few runs of each thread under way at a time.
int64_t serve_async(Session& session, const std::vector<Value>& inputs, const std::vector<Value>& expected, int runs) {
  int64_t wrong = 0;
  std::deque<AsyncRun> under_way;
  for (int r = 0; r < runs || !under_way.empty(); ++r) {
    if (r < runs) {
      AsyncRequest request;
      for (size_t i = 0; i < inputs.size(); ++i)
        if (!inputs[i].is_none()) request.feeds.emplace_back(session.inputs()[i].name, inputs[i]);
      under_way.push_back(must(session.run_async(std::move(request))));
    }
    if (r < runs && under_way.size() < 4) continue;
    must(under_way.front().wait());
    wrong += !same_bits(under_way.front().outputs(), expected);
    under_way.pop_front();
  }
  return wrong;
}

int throughput(const std::string& folder, int threads, int runs, const std::string& mode) {
  LoadedModel m = must(load_folder(folder, {}));
  std::vector<std::vector<Value>> inputs, expected;
  for (int t = 0; t < threads; ++t) {
    inputs.push_back(inputs_of(m.inputs, t));
    expected.push_back(must(run_once(*m.session, inputs.back())));
  }
  const auto one_round = [&](int count) {
    std::atomic<int64_t> wrong{0};
    std::vector<std::thread> all;
    for (int t = 0; t < threads; ++t) {
      all.emplace_back([&, t] {
        wrong += mode == "async" ? serve_async(*m.session, inputs[t], expected[t], count)
                                 : serve(*m.session, inputs[t], expected[t], count);
      });
    }
    for (std::thread& t : all) t.join();
    return wrong.load();
  };
  int64_t wrong = one_round(2);
  const LockWaits before = Mutex::waits();
  const double start = now_ns();
  wrong += one_round(runs);
  const double ns = now_ns() - start;
  const LockWaits after = Mutex::waits();
  nlohmann::json j = {{"runs", threads * runs},
                      {"ms", ns / 1e6},
                      {"wrong", wrong},
                      {"lock waits", after.count - before.count},
                      {"lock ms", static_cast<double>(after.ns - before.ns) / 1e6}};
  fmt::print("{}\n", j.dump());
  return 0;
}

}  // namespace
}  // namespace forethought

int main(int argc, char** argv) {
  if (argc < 4) return fmt::print(stderr, "figure_concurrent FOLDER THREADS RUNS [run|async]\n"), 2;
  return forethought::throughput(argv[1], std::atoi(argv[2]), std::atoi(argv[3]), argc > 4 ? argv[4] : "run");
}
