// What the files of the pool share: its oneTBB arena, and where in the pool a thread is.
#pragma once

#include <oneapi/tbb/task_arena.h>

#include "threading/pool.h"

namespace forethought {

struct Pool::Arena {
  explicit Arena(int threads) : arena(threads) {}
  tbb::task_arena arena;
};

namespace threading {

// The body or crew task that this thread is in, if any. A loop that a body starts runs on this thread alone; one that a
// crew task starts is split over the pool.
struct Position {
  const Pool* pool = nullptr;
  int worker = 0;
  bool in_crew = false;
};
Position& position();  // of the calling thread

// Puts a thread somewhere for as long as it lives.
class PositionScope {
 public:
  explicit PositionScope(Position here) : before_(position()) { position() = here; }
  ~PositionScope() { position() = before_; }
  PositionScope(const PositionScope&) = delete;
  PositionScope& operator=(const PositionScope&) = delete;

 private:
  Position before_;
};

}  // namespace threading
}  // namespace forethought
