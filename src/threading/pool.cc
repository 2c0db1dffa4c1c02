// Blocks are dealt out as one contiguous range per thread, kept from loop to loop for the caches' sake, then stolen.
#include "threading/pool.h"

#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/info.h>
#include <oneapi/tbb/parallel_for.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <mutex>
#include <new>

#include "base/cpu.h"
#include "threading/pool_inside.h"
#include "threading/thread_scope.h"

namespace forethought {

threading::Position& threading::position() {
  thread_local Position here;
  return here;
}

namespace {

using threading::position;
using threading::Position;
using threading::PositionScope;

// oneTBB starts no more threads than the machine has, unless told: a larger pool must get the threads it asked for.
// The control of the largest pool so far stays for the process, so that it is never destroyed after oneTBB itself.
void allow_threads(int threads) {
  static std::mutex mutex;
  static tbb::global_control* control = nullptr;
  static int allowed = tbb::info::default_concurrency();
  const std::lock_guard lock(mutex);
  if (threads <= allowed) return;
  auto* larger = new tbb::global_control(tbb::global_control::max_allowed_parallelism, static_cast<size_t>(threads));
  delete control;  // only now: the least of all live controls counts
  control = larger;
  allowed = threads;
}

struct alignas(64) Range {
  Range(int64_t begin, int64_t e) : next(begin), end(e) {}
  std::atomic<int64_t> next;
  int64_t end;
};
struct RangeStorage {
  alignas(Range) std::byte bytes[sizeof(Range) * Pool::kMaxThreads];
};

// One running loop, on the stack of its caller.
class Loop {
 public:
  Loop(const Pool* pool, int64_t blocks, int ranges, FunctionRef<void(int64_t, int)> body, RangeStorage& storage)
      : ranges_(reinterpret_cast<Range*>(storage.bytes)), count_(ranges), pool_(pool), body_(body) {
    const int64_t share = blocks / ranges, rest = blocks % ranges;
    int64_t begin = 0;
    for (int i = 0; i < ranges; ++i) {
      const int64_t end = begin + share + (i < rest ? 1 : 0);
      new (&ranges_[i]) Range(begin, end);
      begin = end;
    }
    handover_.store(1, std::memory_order_release);
  }

  // Takes blocks until none is left, first from the worker's own range.
  void work(int worker) noexcept {
    // oneTBB orders this too, but in a library that a race checker does not see.
    static_cast<void>(handover_.load(std::memory_order_acquire));
    const ThreadScope scope;
    const PositionScope inside({pool_, worker, false});
    for (int i = 0; i < count_; ++i) {
      Range& range = ranges_[(worker + i) % count_];
      for (;;) {
        if (range.next.load(std::memory_order_relaxed) >= range.end) break;
        const int64_t block = range.next.fetch_add(1, std::memory_order_relaxed);
        if (block >= range.end) break;
        body_(block, worker);
      }
    }
    handover_.fetch_add(1, std::memory_order_release);
  }
  // What the blocks wrote is visible to the caller from here on.
  void join() const { static_cast<void>(handover_.load(std::memory_order_acquire)); }

 private:
  Range* ranges_;
  int count_;
  const Pool* pool_;
  FunctionRef<void(int64_t, int)> body_;
  std::atomic<int> handover_{0};
};

void run_inline(int64_t blocks, int worker, FunctionRef<void(int64_t, int)> body) noexcept {
  for (int64_t b = 0; b < blocks; ++b) body(b, worker);
}

}  // namespace

Pool::Pool(int threads) : size_(std::clamp(threads > 0 ? threads : allowed_cores(), 1, kMaxThreads)) {
  if (size_ == 1) return;
  allow_threads(size_);
  arena_ = std::make_unique<Arena>(size_);
}

Pool::~Pool() = default;

void Pool::parallel_for(int64_t blocks, FunctionRef<void(int64_t, int)> body) {
  const Position& here = position();
  const bool in_crew = here.in_crew && here.pool == this;
  if (blocks <= 1 || !arena_ || (here.pool && !in_crew)) {
    // The outer body's number, so that bodies which run side by side never share a scratch.
    run_inline(blocks, here.pool == this ? here.worker : 0, body);
    return;
  }
  const int ranges = static_cast<int>(std::min<int64_t>(blocks, size_));
  RangeStorage storage;
  Loop loop(this, blocks, ranges, body, storage);
  const auto split = [&] {
    tbb::parallel_for(
        0, ranges, [&](int) { loop.work(tbb::this_task_arena::current_thread_index()); }, tbb::simple_partitioner());
  };
  if (in_crew) {
    tbb::this_task_arena::isolate(split);  // or this thread might begin another task of the crew in the middle of one
  } else {
    arena_->arena.execute(split);
  }
  loop.join();
}

}  // namespace forethought
