// Choosing among idle slabs, and letting them go.
#include "memory/slab_pool.h"

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

namespace forethought {

std::unique_ptr<Slab> SlabPool::take(int64_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    auto best = idle_.end();
    for (auto s = idle_.begin(); s != idle_.end(); ++s) {
      const int64_t has = (*s)->capacity(), best_has = best == idle_.end() ? -1 : (*best)->capacity();
      const bool better = has >= bytes ? best_has < bytes || has <= best_has : has >= best_has;
      if (best == idle_.end() || better) best = s;
    }
    if (best != idle_.end()) {
      std::unique_ptr<Slab> slab = std::move(*best);
      idle_.erase(best);
      idle_bytes_ -= slab->capacity();
      return slab;
    }
  }
  return std::make_unique<Slab>(budget_, options_, source_);
}

void SlabPool::give_back(std::unique_ptr<Slab> slab) {
  Slabs dropped;
  const std::lock_guard lock(mutex_);
  const int64_t bytes = slab->capacity();
  try {
    idle_.push_back(std::move(slab));
    idle_bytes_ += bytes;
  } catch (const std::bad_alloc&) {  // then it is not kept
  }
  dropped = drop_down_to(cap_);
}

int64_t SlabPool::idle_bytes() const {
  const std::lock_guard lock(mutex_);
  return idle_bytes_;
}

int64_t SlabPool::trim(int64_t keep) {
  Slabs dropped;
  const std::lock_guard lock(mutex_);
  const int64_t before = idle_bytes_;
  dropped = drop_down_to(keep);
  return before - idle_bytes_;
}

void SlabPool::set_cap(int64_t bytes) {
  Slabs dropped;
  const std::lock_guard lock(mutex_);
  cap_ = bytes;
  dropped = drop_down_to(cap_);
}

SlabPool::Slabs SlabPool::drop_down_to(int64_t bytes) {
  Slabs dropped;
  if (idle_bytes_ <= bytes || idle_.empty()) return dropped;
  try {
    dropped.reserve(idle_.size());
  } catch (const std::bad_alloc&) {  // then they go with the lock held
  }
  size_t n = 0;
  while (idle_bytes_ > bytes && n < idle_.size()) idle_bytes_ -= idle_[n++]->capacity();
  if (dropped.capacity() >= n)
    std::move(idle_.begin(), idle_.begin() + static_cast<std::ptrdiff_t>(n), std::back_inserter(dropped));
  idle_.erase(idle_.begin(), idle_.begin() + n);
  return dropped;
}

}  // namespace forethought
