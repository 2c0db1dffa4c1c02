// Pools of whole blocks that are taken in one place and come back from anywhere: output buffers and the side arena.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "base/buffer.h"
#include "base/status.h"
#include "memory/budget.h"

namespace forethought {

// A block in use. It goes back to its pool when the last copy of `owner` is gone, on any thread, also after the pool.
struct Lease {
  void* data = nullptr;  // 64-byte aligned, never null; contents undefined
  int64_t capacity = 0;  // bytes of the block; those beyond what was asked for must not be touched
  BufferRef owner;
};

// Sizes are rounded to classes, eight to a doubling, so that at most an eighth is wasted (64 bytes of small ones).
// Blocks that came back are kept for later, up to a cap; what was freed longest ago goes first. Taking a kept block and
// returning it touch no heap and no system call. Thread safe.
class BlockPool {
 public:
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;
  ~BlockPool();

  // `who` names the user in an error: "output 'y'".
  StatusOr<Lease> take(int64_t bytes, std::string_view who);

  // Gives kept blocks back to the system until at most `keep` bytes are kept; returns how much went.
  int64_t trim(int64_t keep = 0);
  void set_retained_cap(int64_t bytes);

  int64_t live_bytes() const;      // of blocks that are out
  int64_t retained_bytes() const;  // of blocks that are kept
  int64_t live_blocks() const;

  // The size of the block that a request gets.
  static int64_t class_bytes(int64_t bytes);

 protected:
  // A kept block serves a request if it is of its class or at most `reach` classes larger.
  BlockPool(std::shared_ptr<MemoryBudget> budget, MemoryRole role, int64_t retained_cap, int reach);

 private:
  class Core;
  Core* core_;  // shared with the blocks that are out; the last of them deletes it
};

// Buffers of graph outputs and of copied inputs. Exact classes: a small output never pins a large block.
class IoPool : public BlockPool {
 public:
  static constexpr int64_t kDefaultCap = int64_t{256} << 20;
  explicit IoPool(std::shared_ptr<MemoryBudget> budget, int64_t retained_cap = kDefaultCap)
      : BlockPool(std::move(budget), MemoryRole::leased, retained_cap, 0) {}
};

// Values whose size only the run tells, and elements of objects. Best fit: the smallest kept block that is large
// enough, up to four times what is needed, since these sizes change from run to run.
class SideArena : public BlockPool {
 public:
  static constexpr int64_t kDefaultCap = int64_t{256} << 20;
  explicit SideArena(std::shared_ptr<MemoryBudget> budget, int64_t retained_cap = kDefaultCap)
      : BlockPool(std::move(budget), MemoryRole::unplanned, retained_cap, 16) {}
};

}  // namespace forethought
