// What moving and ending a lease costs, by the size of its block.
#include <algorithm>
#include <vector>

#include "memory/block_pool.h"
#include "memory/memory_calls_testing.h"
#include "tools/figures/arenas.h"
#include "tools/figures/model_folder.h"

namespace forethought {
namespace {

constexpr int kRounds = 200, kMoves = 1000;

nlohmann::json measure(int64_t bytes) {
  // Address space alone is taken for the large ones: nothing is written.
  auto budget = std::make_shared<MemoryBudget>();
  IoPool pool(budget, int64_t{8} << 30);
  const int at_once = bytes >= int64_t{64} << 20 ? 2 : 16;
  std::vector<Lease> leases(static_cast<size_t>(at_once));
  const auto take_all = [&] {
    for (Lease& l : leases) l = must(pool.take(bytes, "a figure"));
  };
  take_all();
  for (Lease& l : leases) l.release();
  double move = 1e18, end = 1e18;
  MemoryCallRecorder recorder;
  recorder.start();
  for (int round = 0; round < kRounds; ++round) {
    take_all();
    double start = now_ns();
    Lease there;
    for (int k = 0; k < kMoves; ++k) {
      there = std::move(leases[0]);
      asm volatile("" : : "r"(&there), "r"(leases.data()) : "memory");  // as if others looked at both
      leases[0] = std::move(there);
      asm volatile("" : : "r"(&there), "r"(leases.data()) : "memory");
    }
    move = std::min(move, (now_ns() - start) / (2 * kMoves));
    start = now_ns();
    for (Lease& l : leases) l.release();
    end = std::min(end, (now_ns() - start) / at_once);
  }
  recorder.stop();
  const MemoryCalls calls = recorder.ours();
  return {{"bytes", bytes},
          {"move ns", move},
          {"release ns", end},
          {"heap and map calls", calls.allocations + calls.frees + calls.maps + calls.unmaps}};
}

}  // namespace

nlohmann::json check_leases() {
  nlohmann::json rows = nlohmann::json::array();
  for (int64_t bytes = int64_t{1} << 10; bytes <= int64_t{1} << 30; bytes <<= 5) rows.push_back(measure(bytes));
  return rows;
}

}  // namespace forethought
