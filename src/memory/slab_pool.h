// Slabs between runs: those that idle are kept for the next run, up to a cap.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "memory/slab.h"

namespace forethought {

// Thread safe; a slab that was taken is its taker's until it is given back.
class SlabPool {
 public:
  explicit SlabPool(std::shared_ptr<MemoryBudget> budget, PageOptions options = {},
                    std::shared_ptr<MemorySource> source = nullptr)
      : budget_(std::move(budget)), source_(std::move(source)), options_(options) {}

  // The smallest idle slab with room for `bytes`, of equal ones that used last; the largest where none has room; a new
  // one where none idles. Slab::ensure is the taker's to call.
  std::unique_ptr<Slab> take(int64_t bytes);
  void give_back(std::unique_ptr<Slab> slab);  // not in use

  int64_t idle_bytes() const;
  // Gives idle slabs back to the system, those used longest ago first, until at most `keep` bytes idle; returns how
  // much went.
  int64_t trim(int64_t keep);
  void set_cap(int64_t bytes);  // of idle_bytes(); what is over goes at once

 private:
  using Slabs = std::vector<std::unique_ptr<Slab>>;
  Slabs drop_down_to(int64_t bytes);  // needs the lock

  const std::shared_ptr<MemoryBudget> budget_;
  const std::shared_ptr<MemorySource> source_;
  const PageOptions options_;
  mutable Mutex mutex_;
  int64_t cap_ = 0, idle_bytes_ = 0;
  Slabs idle_;  // most recently used last
};

}  // namespace forethought
