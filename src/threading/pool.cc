// Blocks are dealt out as one contiguous range per thread, kept from loop to loop for the caches' sake, then stolen.
#include "threading/pool.h"

#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/info.h>
#include <oneapi/tbb/parallel_for.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

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

// What oneTBB has for all arenas of the process: it keeps its threads as long as there is one.
struct Workers {
  std::mutex mutex;
  int arenas = 0;
  int granted = 0;  // to all arenas together
  int started = 0;  // that were there, at one time or another since there was no arena
  int allowed = tbb::info::default_concurrency();
  tbb::global_control* control = nullptr;  // never destroyed, or it might be after oneTBB itself

  // oneTBB starts no more threads than the machine has, unless told: a larger pool must get the threads it asked for.
  void allow(int threads) {
    if (threads <= allowed) return;
    auto* larger = new tbb::global_control(tbb::global_control::max_allowed_parallelism, static_cast<size_t>(threads));
    delete control;  // only now: the least of all live controls counts
    control = larger;
    allowed = threads;
  }
};
Workers& workers() {
  static auto* const all = new Workers;
  return *all;
}

// How many threads the system starts at one time, up to `wanted`.
int startable(int wanted) {
  std::mutex gate;  // they wait for each other
  std::vector<std::thread> tried;
  {
    const std::lock_guard closed(gate);
    try {
      tried.reserve(static_cast<size_t>(wanted));
      for (int i = 0; i < wanted; ++i) tried.emplace_back([&gate] { const std::lock_guard pass(gate); });
    } catch (const std::exception&) {
    }
  }
  for (std::thread& t : tried) t.join();
  return static_cast<int>(tried.size());
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
        try {
          body_(block, worker);
        } catch (...) {
          if (!failed_.exchange(true, std::memory_order_relaxed)) failure_ = std::current_exception();
        }
      }
    }
    handover_.fetch_add(1, std::memory_order_release);
  }
  // What the blocks wrote is visible to the caller from here on, and what one of them threw is thrown again.
  void join() const {
    static_cast<void>(handover_.load(std::memory_order_acquire));
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  Range* ranges_;
  int count_;
  const Pool* pool_;
  FunctionRef<void(int64_t, int)> body_;
  std::atomic<int> handover_{0};
  std::atomic<bool> failed_{false};
  std::exception_ptr failure_;  // of the block that set failed_
};

void run_inline(int64_t blocks, int worker, FunctionRef<void(int64_t, int)> body) {
  for (int64_t b = 0; b < blocks; ++b) body(b, worker);
}

}  // namespace

// oneTBB loses its count, and ends the process or hangs, where the system starts no thread for it. So what it is going
// to start is started and ended here first.
void Pool::Arena::make() {
  Workers& all = workers();
  const std::lock_guard lock(all.mutex);
  all.allow(wanted_);
  const auto in_use = [&](int more) { return std::min(all.granted + more, all.allowed - 1); };
  const int needed = in_use(wanted_ - 1);
  const int there = all.started + startable(std::max(0, needed - all.started));
  granted_ = there >= needed ? wanted_ - 1 : std::max(0, there - all.granted);
  if (granted_ == 0) return;
  arena_ = std::make_unique<tbb::task_arena>(granted_ + 1);  // first: without memory for it nothing is granted
  all.started = std::max(all.started, in_use(granted_));
  all.granted += granted_;
  ++all.arenas;
}

Pool::Arena::~Arena() {
  if (!arena_) return;
  arena_.reset();
  Workers& all = workers();
  const std::lock_guard lock(all.mutex);
  all.granted -= granted_;
  if (--all.arenas == 0) all.started = 0;
}

Pool::Pool(int threads) : size_(std::clamp(threads > 0 ? threads : allowed_cores(), 1, kMaxThreads)) {
  if (size_ > 1) arena_ = std::make_unique<Arena>(size_);
}

Pool::~Pool() = default;

void Pool::parallel_for(int64_t blocks, FunctionRef<void(int64_t, int)> body) {
  const Position& here = position();
  const bool in_crew = here.in_crew && here.pool == this;
  tbb::task_arena* const arena = blocks <= 1 || !arena_ || (here.pool && !in_crew) ? nullptr : arena_->get();
  if (!arena) {
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
    arena->execute(split);
  }
  loop.join();
}

}  // namespace forethought
