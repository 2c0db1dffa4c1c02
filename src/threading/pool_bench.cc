// The cost of a loop itself: what a kernel pays to be split.
#include <benchmark/benchmark.h>

#include "threading/pool.h"

namespace forethought {
namespace {

void loop_overhead(benchmark::State& state) {
  Pool pool(static_cast<int>(state.range(0)));
  const int64_t blocks = state.range(1);
  for (auto _ : state) {
    pool.parallel_for(blocks, [](int64_t block, int) { benchmark::DoNotOptimize(block); });
  }
}
BENCHMARK(loop_overhead)->ArgsProduct({{1, 2}, {1, 2, 16, 256}})->UseRealTime();

}  // namespace
}  // namespace forethought
