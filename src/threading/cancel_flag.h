// A flag by which any thread asks a run to stop; the run looks at it between steps.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>

namespace forethought {

// Copies share one flag, which lives as long as any copy.
class CancelFlag {
 public:
  CancelFlag() : flag_(std::make_shared<std::atomic<bool>>(false)) {}
  // One that cannot be set; it takes no memory.
  static CancelFlag never() { return CancelFlag(nullptr); }
  void cancel() const { set(true); }
  void reset() const { set(false); }
  bool cancelled() const { return flag_ && flag_->load(std::memory_order_relaxed); }
  // For the inner loop: valid as long as this copy; null if the flag cannot be set.
  const std::atomic<bool>* raw() const { return flag_.get(); }

 private:
  explicit CancelFlag(std::nullptr_t) {}
  void set(bool value) const {
    if (flag_) flag_->store(value, std::memory_order_relaxed);
  }
  std::shared_ptr<std::atomic<bool>> flag_;
};

}  // namespace forethought
