// Gives kept memory back once a session has been idle for a while.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>

#include "base/mutex.h"
#include "base/status.h"
#include "threading/forks.h"

namespace forethought {

// A thread that calls `trim` once after every stretch of at least `ms` milliseconds without a run. A process that was
// forked from the one that started it has no such thread, and nothing is given back there.
class IdleTrimmer {
 public:
  static StatusOr<std::unique_ptr<IdleTrimmer>> start(int ms, std::function<void()> trim);
  ~IdleTrimmer();
  IdleTrimmer(const IdleTrimmer&) = delete;
  IdleTrimmer& operator=(const IdleTrimmer&) = delete;

  void run_begins() {
    under_way_.fetch_add(1, std::memory_order_relaxed);
    runs_.fetch_add(1, std::memory_order_relaxed);
  }
  void run_ends() {
    runs_.fetch_add(1, std::memory_order_relaxed);
    under_way_.fetch_sub(1, std::memory_order_relaxed);
  }

 private:
  // What the thread holds when it waits: in a forked process none of it can end.
  struct Watch {
    Mutex mutex;
    Condition ended;
    bool ending = false;
    std::thread thread;
  };
  IdleTrimmer(int ms, std::function<void()> trim) : wait_(ms), trim_(std::move(trim)) {}
  void watch();

  const std::chrono::milliseconds wait_;
  const std::function<void()> trim_;
  std::atomic<int64_t> under_way_{0}, runs_{0};  // runs_ counts beginnings and ends
  const int depth_ = fork_depth();
  std::unique_ptr<Watch> watch_ = std::make_unique<Watch>();
};

}  // namespace forethought
