// Pools of whole blocks that are taken in one place and come back from anywhere: output buffers and the side arena.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/buffer.h"
#include "base/status.h"
#include "memory/budget.h"

namespace forethought {

class MemorySource;

// A block in use, by its one holder. It goes back to its pool exactly once, when the lease ends or, after share(), when
// the last copy of that reference does: on any thread, also after the pool and its session are gone. Moving and ending
// touch no heap. What was moved from is empty: no data, no bytes, nothing to give back.
class Lease {
 public:
  Lease() = default;
  Lease(Lease&& o) noexcept { *this = std::move(o); }
  Lease& operator=(Lease&& o) noexcept {
    owner_ = std::move(o.owner_);
    data_ = std::exchange(o.data_, nullptr);
    capacity_ = std::exchange(o.capacity_, 0);
    return *this;
  }

  void* data() const { return data_; }            // 64-byte aligned, null only if empty; contents undefined at first
  int64_t capacity() const { return capacity_; }  // bytes of the block; those beyond what was asked for stay untouched
  explicit operator bool() const { return data_ != nullptr; }
  void release() { *this = Lease(); }
  BufferRef share() && {
    data_ = nullptr;
    capacity_ = 0;
    return std::move(owner_);
  }

 private:
  friend class BlockPool;
  Lease(void* data, int64_t capacity, BufferRef owner) : data_(data), capacity_(capacity), owner_(std::move(owner)) {}
  void* data_ = nullptr;
  int64_t capacity_ = 0;
  BufferRef owner_;
};
static_assert(sizeof(Lease) == 24 && !std::is_copy_constructible_v<Lease>);

// Live blocks that were taken under one name.
struct LiveBlocks {
  std::string who;                // its first 55 bytes
  int64_t bytes = 0, blocks = 0;  // without padding
};

// Sizes are rounded to classes, eight to a doubling: of no block that is out more than an eighth of what was asked for
// is wasted (of one below 512 bytes: 63 bytes; an empty one takes 64). Blocks that came back are kept for later, up to
// a cap; what was freed longest ago goes first. Taking a kept block and returning it touch no heap and no system call.
// Thread safe.
class BlockPool {
 public:
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;
  ~BlockPool();

  // `who` names the user in an error: "output 'y'".
  StatusOr<Lease> take(int64_t bytes, std::string_view who);

  // Gives kept blocks back to the system until at most `keep` bytes are kept; returns how much went.
  int64_t trim(int64_t keep = 0);
  // kRetainPlanned: twice the most that was live at once since the last trim to nothing, since a block of one size is
  // no help for several smaller ones, and no less than kRetainAlways.
  void set_retained_cap(int64_t bytes);

  // How much is kept at most, and what that follows from unless it was set.
  struct Cap {
    int64_t bytes = 0, most_live = 0;
    bool is_set = false;
  };
  Cap cap() const;

  int64_t live_bytes() const;      // of blocks that are out
  int64_t retained_bytes() const;  // of blocks that are kept, and what is over of those that are out
  int64_t live_blocks() const;
  std::vector<LiveBlocks> live() const;  // largest first

  // Whether the block that `owner` keeps is one of this pool's.
  bool gave(const BufferRef& owner) const;

  // The size of the block that a request gets.
  static int64_t class_bytes(int64_t bytes);

 protected:
  // A kept block serves a request if it is of its class or, where both are pages of the system, at most `reach` classes
  // larger. What is over then counts as kept, not as padding, and goes first when less is to be kept: it is cut off the
  // block, whoever holds that. `source` null: the system.
  BlockPool(std::shared_ptr<MemoryBudget> budget, MemoryRole role, int64_t retained_cap, int reach,
            std::shared_ptr<MemorySource> source);

 private:
  class Core;
  Core* core_;  // shared with the blocks that are out; the last of them deletes it
};

// Buffers of graph outputs and of copied inputs. Exact classes: a small output never pins a large block.
class IoPool : public BlockPool {
 public:
  static constexpr int64_t kDefaultCap = int64_t{256} << 20;
  explicit IoPool(std::shared_ptr<MemoryBudget> budget, int64_t retained_cap = kDefaultCap,
                  std::shared_ptr<MemorySource> source = nullptr)
      : BlockPool(std::move(budget), MemoryRole::leased, retained_cap, 0, std::move(source)) {}
};

// Values whose size only the run tells, and elements of objects. Best fit: the smallest kept block that is large
// enough, up to four times what is needed where it can be cut, since these sizes change from run to run.
class SideArena : public BlockPool {
 public:
  static constexpr int64_t kDefaultCap = int64_t{256} << 20;
  explicit SideArena(std::shared_ptr<MemoryBudget> budget, int64_t retained_cap = kDefaultCap,
                     std::shared_ptr<MemorySource> source = nullptr)
      : BlockPool(std::move(budget), MemoryRole::unplanned, retained_cap, 16, std::move(source)) {}
};

}  // namespace forethought
