// The memory of one frame: a single region in which a plan's values lie at their offsets.
#pragma once

#include <memory>

#include "memory/system.h"

namespace forethought {

// Grows when a larger plan needs it and then stays; what the system gives is the size asked for, rounded to a page.
// Used by one thread at a time.
class Slab {
 public:
  explicit Slab(std::shared_ptr<MemoryBudget> budget, PageOptions options = {})
      : budget_(std::move(budget)), options_(options) {}
  ~Slab() { set_in_use(false); }
  Slab(const Slab&) = delete;
  Slab& operator=(const Slab&) = delete;

  // Makes room for `bytes`. Keeps the region if it is large enough; otherwise the old one is given back first, its
  // contents are lost, and after an error the slab is empty.
  Status ensure(int64_t bytes, std::string_view who = "the execution slab");

  std::byte* data() const { return pages_.data(); }  // page-aligned; null while the capacity is 0
  int64_t capacity() const { return pages_.size(); }

  // Whether the bytes count as live or as retained.
  void set_in_use(bool in_use);
  int64_t trim();  // gives everything back; returns how much. Not while it is in use.

 private:
  std::shared_ptr<MemoryBudget> budget_;
  PageOptions options_;
  Pages pages_;
  bool in_use_ = false;
};

}  // namespace forethought
