// The memory of one frame: a single region in which a plan's values lie at their offsets.
#pragma once

#include <memory>

#include "memory/system.h"

namespace forethought {

// Grows when a larger plan needs it and then stays; what the system gives is the size asked for, rounded to a page.
// Used by one thread at a time.
class Slab {
 public:
  // `source` null: pages of the system.
  explicit Slab(std::shared_ptr<MemoryBudget> budget, PageOptions options = {},
                std::shared_ptr<MemorySource> source = nullptr)
      : budget_(std::move(budget)), source_(std::move(source)), options_(options) {}
  ~Slab() { set_in_use(false); }
  Slab(const Slab&) = delete;
  Slab& operator=(const Slab&) = delete;

  // Makes room for `bytes`. Keeps the region if it is large enough; otherwise the old one is given back first, its
  // contents are lost, and after an error the slab is empty.
  Status ensure(int64_t bytes, std::string_view who = "the execution slab");

  std::byte* data() const { return pages_.data(); }  // page-aligned; null while the capacity is 0
  int64_t capacity() const { return pages_.size(); }

  // In use, the bytes that ensure() was last asked for are live and the rest of their page is padding; all else is
  // retained.
  void set_in_use(bool in_use);
  int64_t trim();  // gives everything back; returns how much. Not while it is in use.

 private:
  std::shared_ptr<MemoryBudget> budget_;
  std::shared_ptr<MemorySource> source_;
  PageOptions options_;
  Pages pages_;
  int64_t asked_ = 0;
  bool in_use_ = false;
};

}  // namespace forethought
