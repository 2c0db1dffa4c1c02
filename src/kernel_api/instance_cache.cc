#include "kernel_api/instance_cache.h"

#include "kernel_api/run_ctx.h"

namespace forethought {

StatusOr<std::shared_ptr<const Runnable>> InstanceCache::get(
    const InstanceKey& key, FunctionRef<StatusOr<std::shared_ptr<const Runnable>>()> make) {
  {
    std::lock_guard lock(mutex_);
    if (auto it = index_.find(key.bytes()); it != index_.end()) {
      ++counts_.hits;
      order_.splice(order_.begin(), order_, it->second);
      return it->second->second;
    }
    ++counts_.misses;
  }
  ASSIGN_OR_RETURN(std::shared_ptr<const Runnable> made, make());
  std::lock_guard lock(mutex_);
  if (auto it = index_.find(key.bytes()); it != index_.end()) return it->second->second;  // another thread was faster
  order_.emplace_front(key.bytes(), std::move(made));
  index_.emplace(order_.front().first, order_.begin());
  if (order_.size() > capacity_) {
    index_.erase(order_.back().first);
    order_.pop_back();
    ++counts_.evicted;
  }
  return order_.front().second;
}

InstanceCache::Counts InstanceCache::counts() const {
  std::lock_guard lock(mutex_);
  Counts c = counts_;
  c.size = static_cast<int64_t>(order_.size());
  return c;
}

StatusOr<std::shared_ptr<const Runnable>> cached_instance(
    InstanceCache* cache, const InstanceKey& key, FunctionRef<StatusOr<std::shared_ptr<const Runnable>>()> make) {
  return cache ? cache->get(key, make) : make();
}

}  // namespace forethought
