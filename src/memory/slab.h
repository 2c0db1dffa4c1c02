// The memory of one frame: one region, or several where one cannot be had, in which a plan's values lie at offsets.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "memory/system.h"

namespace forethought {

// Where a slab lies. Each region but the last has region_bytes; 0: there is one.
struct SlabPlace {
  std::span<std::byte* const> regions;
  int64_t region_bytes = 0;
  std::byte* at(int64_t offset) const {
    if (region_bytes == 0) return regions[0] + offset;
    const int64_t r = std::min(offset / region_bytes, static_cast<int64_t>(regions.size()) - 1);  // no bytes at the end
    return regions[static_cast<size_t>(r)] + (offset - r * region_bytes);
  }
};

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

  // Makes room for `bytes`, in one block or, with `region_bytes` (whole pages), in blocks of so many each. Keeps what
  // it has if that will do; otherwise the old is given back first, its contents are lost, and after an error the slab
  // is empty. is_no_block() tells whether a block could not be had that no limit refused.
  Status ensure(int64_t bytes, std::string_view who = "the execution slab", int64_t region_bytes = 0);

  // For the plan that ensure() was last called for; page-aligned; one null region while the capacity is 0.
  SlabPlace place() const { return {addresses_, region_bytes_}; }
  std::byte* data() const { return addresses_[0]; }  // of the first region
  int64_t capacity() const { return capacity_; }
  int64_t excess() const { return capacity_ - Pages::rounded(asked_); }  // beyond what ensure() was last asked for

  // In use, the bytes that ensure() was last asked for are live and the rest of their page is padding; all else is
  // retained.
  void set_in_use(bool in_use);
  int64_t trim();  // gives everything back; returns how much. Not while it is in use.

 private:
  bool serves(int64_t bytes, int64_t region_bytes) const;
  Status map(int64_t bytes, std::string_view who, int64_t block_bytes);
  void clear();

  std::shared_ptr<MemoryBudget> budget_;
  std::shared_ptr<MemorySource> source_;
  PageOptions options_;
  std::vector<Pages> blocks_;
  std::vector<std::byte*> addresses_{nullptr};  // of the regions
  int64_t capacity_ = 0, block_bytes_ = 0;      // of all blocks; of each but the last, 0: there is one
  int64_t region_bytes_ = 0;
  int64_t asked_ = 0;
  bool in_use_ = false;
};

// Whether a slab's block could not be had, for want of address space or because a source had none of that size: smaller
// ones may be had.
bool is_no_block(const Status& status);

}  // namespace forethought
