// A mutex that counts how often and how long threads wait for it.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <utility>

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
  friend class Condition;
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

// std::condition_variable for such a mutex. What a thread waits here, for others to get on, counts as no wait for a
// mutex.
class Condition {
 public:
  void notify_one() { changed_.notify_one(); }
  void notify_all() { changed_.notify_all(); }
  template <typename Until>
  void wait(std::unique_lock<Mutex>& lock, Until until) {
    with_native(lock, [&](auto& native) { changed_.wait(native, std::move(until)); });
  }
  template <typename Time>
  void wait_until(std::unique_lock<Mutex>& lock, const Time& time) {
    with_native(lock, [&](auto& native) { changed_.wait_until(native, time); });
  }
  // Whether it came to that.
  template <typename Time, typename Until>
  bool wait_until(std::unique_lock<Mutex>& lock, const Time& time, Until until) {
    return with_native(lock, [&](auto& native) { return changed_.wait_until(native, time, std::move(until)); });
  }

 private:
  // Lends the mutex, which `lock` holds before and after.
  template <typename F>
  static auto with_native(std::unique_lock<Mutex>& lock, F f) {
    std::unique_lock<std::mutex> native(lock.mutex()->mutex_, std::adopt_lock);
    struct Back {
      std::unique_lock<std::mutex>& native;
      ~Back() { native.release(); }
    } const back{native};
    return f(native);
  }

  std::condition_variable changed_;
};

}  // namespace forethought
