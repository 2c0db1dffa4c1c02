// A mutex that counts how often and how long threads wait for it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>

namespace forethought {

// Of all mutexes of this kind in the process.
struct LockWaits {
  int64_t count = 0;  // times that a thread found one taken
  int64_t ns = 0;     // that threads waited then, all together
};

// std::mutex, but a thread that has to wait is counted. One that has not pays nothing for it.
class Mutex {
 public:
  void lock() {
    if (!mutex_.try_lock()) wait();
  }
  bool try_lock() { return mutex_.try_lock(); }
  void unlock() { mutex_.unlock(); }

  static LockWaits waits() { return {count_.load(std::memory_order_relaxed), ns_.load(std::memory_order_relaxed)}; }

 private:
  void wait() {
    const auto begin = std::chrono::steady_clock::now();
    mutex_.lock();
    const auto waited = std::chrono::steady_clock::now() - begin;
    count_.fetch_add(1, std::memory_order_relaxed);
    ns_.fetch_add(std::chrono::nanoseconds(waited).count(), std::memory_order_relaxed);
  }

  std::mutex mutex_;
  inline static std::atomic<int64_t> count_{0}, ns_{0};
};

}  // namespace forethought
