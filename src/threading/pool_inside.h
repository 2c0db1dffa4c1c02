// What the files of the pool share: its oneTBB arena, and where in the pool a thread is.
#pragma once

#include <oneapi/tbb/task_arena.h>

#include <memory>

#include "base/once.h"
#include "threading/pool.h"

namespace forethought {

// Made when it is first asked for, so that a process may fork until then.
struct Pool::Arena {
  explicit Arena(int threads) : wanted_(threads) {}
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  // With as many threads as the system gives, up to those wanted; null if it gives none beside the caller.
  tbb::task_arena* get() {
    once_.call([this] { make(); });
    return arena_.get();
  }

 private:
  void make();

  const int wanted_;
  Once once_;
  int granted_ = 0;  // threads beside the caller's
  std::unique_ptr<tbb::task_arena> arena_;
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
