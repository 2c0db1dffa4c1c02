#include "kernel_api/instance_cache.h"

#include "base/thread_clock.h"
#include "kernel_api/run_ctx.h"

namespace forethought {
namespace {

constexpr int64_t kEntryBytes = 160;  // list and index nodes, control block

// An instance may be made of others: only the outermost maker's time counts.
thread_local int making = 0;

class MakingTimer {
 public:
  MakingTimer() { ++making; }
  ~MakingTimer() { --making; }
  int64_t ns() const { return making > 1 ? 0 : thread_cpu_ns() - start_; }

 private:
  int64_t start_ = thread_cpu_ns();
};

}  // namespace

StatusOr<std::shared_ptr<const Runnable>> InstanceCache::get(
    const InstanceKey& key, int64_t bytes, FunctionRef<StatusOr<std::shared_ptr<const Runnable>>()> make) {
  {
    std::lock_guard lock(mutex_);
    if (auto it = index_.find(key.bytes()); it != index_.end()) {
      ++counts_.hits;
      order_.splice(order_.begin(), order_, it->second);
      return it->second->instance;
    }
    ++counts_.misses;
  }
  const MakingTimer timer;
  ASSIGN_OR_RETURN(std::shared_ptr<const Runnable> made, make());
  const int64_t ns = timer.ns(), all = bytes + kEntryBytes + static_cast<int64_t>(key.bytes().size());
  std::list<Entry> dropped;  // destroyed after the lock is gone
  std::lock_guard lock(mutex_);
  counts_.making_ns += ns;
  if (auto it = index_.find(key.bytes()); it != index_.end()) return it->second->instance;  // another thread was faster
  if (all > most_bytes_) return made;
  while (counts_.bytes + all > most_bytes_) {
    index_.erase(order_.back().key);
    counts_.bytes -= order_.back().bytes;
    ++counts_.evicted;
    dropped.splice(dropped.end(), order_, std::prev(order_.end()));
  }
  order_.push_front({key.bytes(), std::move(made), all});
  index_.emplace(order_.front().key, order_.begin());
  counts_.bytes += all;
  return order_.front().instance;
}

InstanceCache::Counts InstanceCache::counts() const {
  std::lock_guard lock(mutex_);
  Counts c = counts_;
  c.size = static_cast<int64_t>(order_.size());
  return c;
}

StatusOr<std::shared_ptr<const Runnable>> cached_instance(
    InstanceCache* cache, const InstanceKey& key, int64_t bytes,
    FunctionRef<StatusOr<std::shared_ptr<const Runnable>>()> make) {
  return cache ? cache->get(key, bytes, make) : make();
}

}  // namespace forethought
