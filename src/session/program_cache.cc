#include "session/program_cache.h"

#include <iterator>
#include <mutex>
#include <utility>

#include "base/hash.h"

namespace forethought {

size_t ProgramCache::KeyHash::operator()(const Key& k) const {
  return hash_bytes(k.data(), k.size() * sizeof(int64_t));
}

std::shared_ptr<const CompiledProgram> ProgramCache::find(const Key& key) {
  const std::lock_guard lock(mutex_);
  const auto it = index_.find(key);
  if (it == index_.end()) {
    ++counts_.misses;
    return nullptr;
  }
  ++counts_.hits;
  order_.splice(order_.begin(), order_, it->second);
  return it->second->second;
}

void ProgramCache::leave(size_t kept) {
  std::list<Entry> leaving;  // their memory goes back without the lock
  const std::lock_guard lock(mutex_);
  while (order_.size() > kept) {
    index_.erase(order_.back().first);
    leaving.splice(leaving.begin(), order_, std::prev(order_.end()));
    ++counts_.evicted;
  }
}

void ProgramCache::keep(Key key, std::shared_ptr<const CompiledProgram> program) {
  {
    const std::lock_guard lock(mutex_);
    if (index_.contains(key)) return;
    order_.emplace_front(std::move(key), std::move(program));
    index_.emplace(order_.front().first, order_.begin());
  }
  leave(capacity_);
}

ProgramCache::Counts ProgramCache::counts() const {
  const std::lock_guard lock(mutex_);
  Counts counts = counts_;
  counts.size = static_cast<int64_t>(order_.size());
  return counts;
}

}  // namespace forethought
