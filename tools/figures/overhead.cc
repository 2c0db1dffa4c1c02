// figure_overhead MODEL BLOCKS RUNS: nanoseconds of a run with bound inputs and outputs, by block, as JSON.
#include <fmt/core.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "tools/figures/model_folder.h"

namespace forethought {
namespace {

int run(const std::string& path, int blocks, int runs) {
  SessionOptions options;
  options.optimization_level = OptimizationLevel::disabled;
  options.intra_op_threads = 1;
  const auto session = must(Session::load(path, options));
  const auto ones = [](const NodeArg& a) {
    Tensor t = must(make_tensor(DType::kFloat, *a.shape.numbers()));
    for (int64_t i = 0; i < t.elements(); ++i) t.as<float>()[i] = 1;
    return Value(std::move(t));
  };
  std::vector<Value> inputs, outputs;
  for (const NodeArg& a : session->inputs()) inputs.push_back(ones(a));
  for (const NodeArg& a : session->outputs()) outputs.push_back(ones(a));
  for (int r = 0; r < runs; ++r) must(session->run_ordered(inputs, outputs));
  nlohmann::json j;
  for (int b = 0; b < blocks; ++b) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const double start = now_ns();
    for (int r = 0; r < runs; ++r) must(session->run_ordered(inputs, outputs));
    j["ns"].push_back((now_ns() - start) / runs);
  }
  j["nodes"] = session->summary().nodes;
  j["first"] = outputs[0].tensor().as<float>()[0];
  fmt::print("{}\n", j.dump());
  return 0;
}

}  // namespace
}  // namespace forethought

int main(int argc, char** argv) {
  if (argc != 4) return fmt::print(stderr, "figure_overhead MODEL BLOCKS RUNS\n"), 2;
  return forethought::run(argv[1], std::atoi(argv[2]), std::atoi(argv[3]));
}
