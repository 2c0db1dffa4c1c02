// A flag by which any thread asks a run to stop; the run looks at it between steps.
#pragma once

#include <atomic>
#include <memory>

namespace forethought {

// Copies share one flag, which lives as long as any copy.
class CancelFlag {
 public:
  CancelFlag() : flag_(std::make_shared<std::atomic<bool>>(false)) {}
  void cancel() const { flag_->store(true, std::memory_order_relaxed); }
  void reset() const { flag_->store(false, std::memory_order_relaxed); }
  bool cancelled() const { return flag_->load(std::memory_order_relaxed); }
  // For the inner loop: valid as long as this copy.
  const std::atomic<bool>* raw() const { return flag_.get(); }

 private:
  std::shared_ptr<std::atomic<bool>> flag_;
};

}  // namespace forethought
