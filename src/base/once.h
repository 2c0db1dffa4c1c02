// Does something once, whoever comes first; others wait for it.
#pragma once

#include <atomic>
#include <mutex>

#include "base/mutex.h"

namespace forethought {

// As std::once_flag, also where what is done throws: then the next caller tries again. After an exception,
// std::call_once hangs under the thread sanitizer and with some C libraries.
class Once {
 public:
  template <typename F>
  void call(F&& f) {
    if (done_.load(std::memory_order_acquire)) return;
    const std::lock_guard lock(mutex_);
    if (done_.load(std::memory_order_relaxed)) return;
    f();
    done_.store(true, std::memory_order_release);
  }
  // Whether it was done, and may be read of.
  bool done() const { return done_.load(std::memory_order_acquire); }

 private:
  std::atomic<bool> done_{false};
  Mutex mutex_;
};

}  // namespace forethought
