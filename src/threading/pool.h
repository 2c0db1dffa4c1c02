// The threads that kernels share: loops over fixed blocks on a oneTBB arena.
#pragma once

#include <cstdint>
#include <memory>

#include "base/function_ref.h"

namespace forethought {

// Any number of sessions and of runs may use one pool at the same time. Idle threads spin for a short, bounded time and
// then sleep. All members may be called from any thread.
class Pool {
 public:
  // `threads` counts the calling thread; 0 means one for each core that this process may use. Values are clamped
  // to 1..kMaxThreads. Where the system starts fewer threads for the first loop, all loops get by with those.
  static constexpr int kMaxThreads = 256;
  explicit Pool(int threads = 0);
  ~Pool();  // no loop may be running
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  int size() const { return size_; }

  // Calls body(block, worker) once for every block in 0..blocks-1 and returns when all are done. The caller derives the
  // number of blocks from shapes alone; which worker takes which block is free. 0 <= worker < size(), and no two
  // blocks of one call run at the same time under one worker number. Runs on the calling thread alone if there is one
  // block or one thread, or when called from within a body (then under that body's worker number). A task of a Crew is
  // no body: its loops are split. Allocates nothing (oneTBB keeps a cache of tasks). What a body throws is thrown again
  // when no block is at work any more; of several, one.
  void parallel_for(int64_t blocks, FunctionRef<void(int64_t block, int worker)> body);

 private:
  friend class Crew;
  struct Arena;
  int size_;
  std::unique_ptr<Arena> arena_;  // null for one thread
};

}  // namespace forethought
