// Overhead of a step: a chain of 1,000 adds of 16 floats, and a program of one step.
#include <benchmark/benchmark.h>

#include "exec/program_builder_for_tests.h"

namespace forethought {
namespace {

std::shared_ptr<const Program> chain(int64_t steps) {
  ProgramBuilder b;
  const int32_t x = b.input("x", DType::kFloat, {16});
  const int32_t one = b.weight(tensor_of<float>({16}, std::vector<float>(16, 1.0f)));
  int32_t last = x;
  for (int64_t i = 0; i < steps; ++i) {
    const int32_t next = i + 1 == steps ? b.output("y", DType::kFloat, {16}) : b.slab(i % 2 * 64, DType::kFloat, {16});
    b.step("add", {last, one}, {next}, add_f32);
    last = next;
  }
  return b.done();
}

void chain_of_adds(benchmark::State& state) {
  TestExecutor e;
  const auto program = chain(state.range(0));
  const std::vector<Value> inputs{tensor_of<float>({16}, std::vector<float>(16, 0.5f))};
  std::vector<Value> outputs(1);
  for (auto _ : state) {
    outputs[0] = Value();
    if (!e.executor->run(program, inputs, outputs).ok()) state.SkipWithError("the run failed");
  }
  state.counters["ns_a_step"] = benchmark::Counter(static_cast<double>(state.iterations() * state.range(0)) * 1e-9,
                                                   benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
BENCHMARK(chain_of_adds)->Arg(1)->Arg(10)->Arg(1000)->UseRealTime();

}  // namespace
}  // namespace forethought
