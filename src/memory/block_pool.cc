// Free lists by size class, threaded through the headers of the blocks, and lists in the order of freeing and taking.
#include "memory/block_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <functional>
#include <map>
#include <new>

#include "base/mutex.h"
#include "memory/size_classes.h"
#include "memory/system.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#define FT_POISON(data, bytes) ASAN_POISON_MEMORY_REGION(data, bytes)
#define FT_UNPOISON(data, bytes) ASAN_UNPOISON_MEMORY_REGION(data, bytes)
#else
#define FT_POISON(data, bytes) static_cast<void>(0)
#define FT_UNPOISON(data, bytes) static_cast<void>(0)
#endif

namespace forethought {
namespace {

// Blocks from the newest to the oldest, chained through two of their members.
template <typename Block, Block* Block::*kNewer, Block* Block::*kOlder>
struct Chain {
  Block *newest = nullptr, *oldest = nullptr;

  void add(Block* block) {
    block->*kNewer = nullptr;
    block->*kOlder = newest;
    (newest ? newest->*kNewer : oldest) = block;
    newest = block;
  }
  void remove(Block* block) {
    (block->*kNewer ? (block->*kNewer)->*kOlder : newest) = block->*kOlder;
    (block->*kOlder ? (block->*kOlder)->*kNewer : oldest) = block->*kNewer;
  }
};

}  // namespace

class BlockPool::Core {
 public:
  Core(std::shared_ptr<MemoryBudget> budget, MemoryRole role, int64_t cap, int reach,
       std::shared_ptr<MemorySource> source)
      : budget_(std::move(budget)), source_(std::move(source)), role_(role), reach_(reach), cap_(cap) {}

  struct Taken {
    void* data;
    int64_t capacity;
    BufferRef owner;
  };
  StatusOr<Taken> take(int64_t bytes, std::string_view who);
  bool gave(const BufferHeader* header) const {
    return header && header->release == on_release && static_cast<const Block*>(header)->core == this;
  }
  int64_t trim(int64_t keep);
  void close();

  struct Counts {
    int64_t live_bytes = 0, live_blocks = 0, retained_bytes = 0;
  };
  Counts counts() const {
    const std::lock_guard lock(mutex_);
    return {live_bytes_, live_blocks_, retained_bytes_};
  }
  std::vector<LiveBlocks> live() const;
  Cap cap_and_cause() const {
    const std::lock_guard lock(mutex_);
    return {cap(), most_live_, cap_ >= 0};
  }
  void set_cap(int64_t cap) {
    Block* evicted = nullptr;
    {
      const std::lock_guard lock(mutex_);
      cap_ = cap;
      evicted = evict_down_to(this->cap());
    }
    destroy_chain(evicted);
  }

 private:
  struct Block : BufferHeader {
    Core* core = nullptr;
    void* data = nullptr;
    int64_t bytes = 0;  // live: needs the lock, since what is over may be cut off
    int size_class = 0;
    int64_t asked = 0, used = 0;  // of a live one: by the caller, and of the class of that; the rest is over
    uint8_t who_length = 0;
    std::array<char, 55> who;
    Block *newer = nullptr, *older = nullptr;              // of kept_, of live_
    Block *class_newer = nullptr, *class_older = nullptr;  // of kept_of_, of over_
  };
  using ByTime = Chain<Block, &Block::newer, &Block::older>;
  using ByClass = Chain<Block, &Block::class_newer, &Block::class_older>;

  static void on_release(BufferHeader* header) {
    auto* block = static_cast<Block*>(header);
    block->core->give_back(block);
  }
  void give_back(Block* block);
  void drop() {
    if (users_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }
  StatusOr<Block*> make_block(int size_class, std::string_view who);
  Block* unlink_for_recast(int size_class);                           // needs the lock; null: there is none
  Block* recast(Block* block, int size_class, std::string_view who);  // null: the block is gone
  void destroy(Block* block);
  void destroy_chain(Block* first);
  Block* find_kept(int size_class);  // the rest need the lock, too
  int64_t cap() const { return cap_ >= 0 ? cap_ : std::max(kRetainAlways, 2 * most_live_); }
  void go_live(Block* block, int size_class, int64_t asked, std::string_view who);
  void end_life(Block* block);
  void cut(Block* block);  // to what is used of it
  void keep(Block* block);
  void unlink(Block* block);
  Block* evict_down_to(int64_t bytes);  // unlinked blocks, chained by class_older

  const std::shared_ptr<MemoryBudget> budget_;
  const std::shared_ptr<MemorySource> source_;
  const MemoryRole role_;
  const int reach_;
  std::atomic<int64_t> users_{1};  // the pool, and each block that is out

  mutable Mutex mutex_;
  int64_t cap_;
  // What is over of live blocks counts as retained.
  int64_t live_bytes_ = 0, live_blocks_ = 0, retained_bytes_ = 0, most_live_ = 0;
  bool closed_ = false;
  ByTime kept_, live_;  // by time of freeing, of taking
  std::array<ByClass, kClasses> kept_of_{};
  ByClass over_;  // live blocks of which something is over
  std::array<uint64_t, (kClasses + 63) / 64> nonempty_{};
};

BlockPool::Core::Block* BlockPool::Core::find_kept(int size_class) {
  const int64_t wanted = size_of_class(size_class);
  const bool can_cut = !source_ && kind_of_block(wanted) == BlockKind::pages && wanted % page_size() == 0;
  const int last = std::min(size_class + (can_cut ? reach_ : 0), kClasses - 1);
  for (int word = size_class / 64; word <= last / 64; ++word) {
    uint64_t bits = nonempty_[word];
    if (word == size_class / 64) bits &= ~uint64_t{0} << (size_class % 64);
    if (bits == 0) continue;
    const int found = word * 64 + std::countr_zero(bits);
    return found <= last ? kept_of_[found].newest : nullptr;
  }
  return nullptr;
}

void BlockPool::Core::keep(Block* block) {
  const int c = block->size_class;
  kept_of_[c].add(block);
  nonempty_[c / 64] |= uint64_t{1} << (c % 64);
  kept_.add(block);
  retained_bytes_ += block->bytes;
}

void BlockPool::Core::unlink(Block* block) {
  const int c = block->size_class;
  kept_of_[c].remove(block);
  if (!kept_of_[c].newest) nonempty_[c / 64] &= ~(uint64_t{1} << (c % 64));
  kept_.remove(block);
  retained_bytes_ -= block->bytes;
}

void BlockPool::Core::cut(Block* block) {
  const int64_t over = block->bytes - block->used;
  auto* const from = static_cast<std::byte*>(block->data) + block->used;
  over_.remove(block);
  retained_bytes_ -= over;
  block->bytes = block->used;
  block->size_class = class_of(block->used);
  FT_UNPOISON(from, static_cast<size_t>(over));
  forethought::give_back(nullptr, BlockKind::pages, from, over);
  budget_->release(role_, over);
}

BlockPool::Core::Block* BlockPool::Core::evict_down_to(int64_t bytes) {
  while (over_.oldest && retained_bytes_ > bytes) cut(over_.oldest);  // first, since it serves nobody else
  Block* evicted = nullptr;
  while (kept_.oldest && retained_bytes_ > bytes) {
    Block* block = kept_.oldest;
    unlink(block);
    block->class_older = evicted;
    evicted = block;
  }
  return evicted;
}

StatusOr<BlockPool::Core::Block*> BlockPool::Core::make_block(int size_class, std::string_view who) {
  const int64_t bytes = size_of_class(size_class);
  RETURN_IF_ERROR(budget_->reserve(role_, bytes, who));
  Block* block = system_request_fails() ? nullptr : new (std::nothrow) Block;
  StatusOr<void*> data = block ? obtain(source_.get(), kind_of_block(bytes), bytes, who)
                               : exhausted(fmt::format("{}: the system has no memory", who));
  if (!data.ok()) {
    delete block;
    budget_->release(role_, bytes);
    return data.status();
  }
  block->release = on_release;
  block->core = this;
  block->data = *data;
  block->bytes = bytes;
  block->size_class = size_class;
  return block;
}

// A block of a new size pushes kept ones out when it comes back. Where it would, the pages of one of them serve it at
// once, since faulting pages in may take as long as what is computed into them.
BlockPool::Core::Block* BlockPool::Core::unlink_for_recast(int size_class) {
  const int64_t bytes = size_of_class(size_class);
  if (source_ || kind_of_block(bytes) != BlockKind::pages || retained_bytes_ + bytes <= cap()) return nullptr;
  const auto of_class = [&](int c) -> Block* {
    Block* block = kept_of_[c].newest;
    return block && kind_of_block(block->bytes) == BlockKind::pages ? block : nullptr;
  };
  Block* block = nullptr;
  for (int c = size_class + 1; c < kClasses && !block; ++c) block = of_class(c);
  for (int c = size_class - 1; c >= 0 && !block; --c) block = of_class(c);
  if (block) unlink(block);
  return block;
}

BlockPool::Core::Block* BlockPool::Core::recast(Block* block, int size_class, std::string_view who) {
  const int64_t bytes = size_of_class(size_class), grown = bytes - block->bytes;
  const bool reserved = grown <= 0 || budget_->reserve(role_, grown, who).ok();
  FT_UNPOISON(block->data, static_cast<size_t>(block->bytes));
  void* const data = reserved ? resize_pages(block->data, block->bytes, bytes) : nullptr;
  if (!data) {
    if (reserved && grown > 0) budget_->release(role_, grown);
    destroy(block);
    return nullptr;
  }
  if (grown < 0) budget_->release(role_, -grown);
  block->data = data;
  block->bytes = bytes;
  block->size_class = size_class;
  return block;
}

void BlockPool::Core::destroy(Block* block) {
  FT_UNPOISON(block->data, static_cast<size_t>(block->bytes));
  forethought::give_back(source_.get(), kind_of_block(block->bytes), block->data, block->bytes);
  budget_->release(role_, block->bytes);
  delete block;
}

void BlockPool::Core::destroy_chain(Block* first) {
  while (first) {
    Block* next = first->class_older;
    destroy(first);
    first = next;
  }
}

void BlockPool::Core::go_live(Block* block, int size_class, int64_t asked, std::string_view who) {
  block->asked = asked;
  block->used = size_of_class(size_class);
  block->who_length = static_cast<uint8_t>(std::min(who.size(), block->who.size()));
  std::copy_n(who.data(), block->who_length, block->who.data());
  live_.add(block);
  live_bytes_ += block->used;
  ++live_blocks_;
  most_live_ = std::max(most_live_, live_bytes_);
  if (block->bytes == block->used) return;
  over_.add(block);
  retained_bytes_ += block->bytes - block->used;
}

void BlockPool::Core::end_life(Block* block) {
  live_.remove(block);
  live_bytes_ -= block->used;
  --live_blocks_;
  if (block->bytes == block->used) return;
  over_.remove(block);
  retained_bytes_ -= block->bytes - block->used;
}

std::vector<LiveBlocks> BlockPool::Core::live() const {
  std::map<std::string, LiveBlocks, std::less<>> by_name;
  {
    const std::lock_guard lock(mutex_);
    for (const Block* b = live_.newest; b; b = b->older) {
      LiveBlocks& sum = by_name[std::string(b->who.data(), b->who_length)];
      sum.bytes += b->asked;
      ++sum.blocks;
    }
  }
  std::vector<LiveBlocks> list;
  for (auto& [who, sum] : by_name) list.push_back({who, sum.bytes, sum.blocks});
  std::ranges::stable_sort(list, std::greater(), &LiveBlocks::bytes);
  return list;
}

StatusOr<BlockPool::Core::Taken> BlockPool::Core::take(int64_t bytes, std::string_view who) {
  if (bytes < 0 || bytes > kMaxBlock) {
    return exhausted(fmt::format("{} needs {} bytes, which is no size of memory", who, bytes));
  }
  const int size_class = class_of(std::max(bytes, kMinBlock));
  Block *block = nullptr, *other = nullptr;
  {
    const std::lock_guard lock(mutex_);
    block = find_kept(size_class);
    if (block) {
      unlink(block);
      go_live(block, size_class, bytes, who);
    } else {
      other = unlink_for_recast(size_class);
    }
  }
  if (!block) {
    if (other) block = recast(other, size_class, who);
    if (!block) {
      auto made = make_block(size_class, who);
      if (!made.ok() && trim(0) > 0) made = make_block(size_class, who);  // what is kept may be what is missing
      if (!made.ok()) return made.status();
      block = *made;
    }
    const std::lock_guard lock(mutex_);
    go_live(block, size_class, bytes, who);
  }
  users_.fetch_add(1, std::memory_order_relaxed);
  const int64_t used = block->used;
  budget_->use(role_, bytes, used - bytes);
  FT_UNPOISON(block->data, static_cast<size_t>(std::max<int64_t>(bytes, 1)));
  if (bytes < used) {
    FT_POISON(static_cast<std::byte*>(block->data) + std::max<int64_t>(bytes, 1),
              static_cast<size_t>(used - std::max<int64_t>(bytes, 1)));
  }
#ifdef FORETHOUGHT_DEBUG_CHECKS
  std::fill_n(static_cast<unsigned char*>(block->data), bytes, 0xff);  // NaN, so that reading before writing shows
#endif
  return Taken{block->data, used, BufferRef(block)};
}

void BlockPool::Core::give_back(Block* block) {
  FT_POISON(block->data, static_cast<size_t>(block->used));
  budget_->unuse(role_, block->asked, block->used - block->asked);
  Block* evicted = nullptr;
  {
    const std::lock_guard lock(mutex_);
    end_life(block);
    if (closed_ || block->bytes > cap()) {
      block->class_older = nullptr;
      evicted = block;
    } else {
      keep(block);
      evicted = evict_down_to(cap());
    }
  }
  destroy_chain(evicted);
  drop();
}

int64_t BlockPool::Core::trim(int64_t keep_bytes) {
  Block* evicted = nullptr;
  int64_t freed = 0;
  {
    const std::lock_guard lock(mutex_);
    freed = retained_bytes_;
    evicted = evict_down_to(keep_bytes);
    freed -= retained_bytes_;
    if (keep_bytes == 0) most_live_ = live_bytes_;
  }
  destroy_chain(evicted);
  return freed;
}

void BlockPool::Core::close() {
  Block* evicted = nullptr;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    evicted = evict_down_to(0);
  }
  destroy_chain(evicted);
  drop();
}

BlockPool::BlockPool(std::shared_ptr<MemoryBudget> budget, MemoryRole role, int64_t retained_cap, int reach,
                     std::shared_ptr<MemorySource> source)
    : core_(new Core(std::move(budget), role, std::max(retained_cap, kRetainPlanned), reach, std::move(source))) {}
BlockPool::~BlockPool() { core_->close(); }

StatusOr<Lease> BlockPool::take(int64_t bytes, std::string_view who) {
  ASSIGN_OR_RETURN(Core::Taken taken, core_->take(bytes, who));
  return Lease(taken.data, taken.capacity, std::move(taken.owner));
}
int64_t BlockPool::trim(int64_t keep) { return core_->trim(std::max<int64_t>(keep, 0)); }
void BlockPool::set_retained_cap(int64_t bytes) { core_->set_cap(std::max(bytes, kRetainPlanned)); }
BlockPool::Cap BlockPool::cap() const { return core_->cap_and_cause(); }
bool BlockPool::gave(const BufferRef& owner) const { return core_->gave(owner.header()); }
int64_t BlockPool::live_bytes() const { return core_->counts().live_bytes; }
int64_t BlockPool::retained_bytes() const { return core_->counts().retained_bytes; }
int64_t BlockPool::live_blocks() const { return core_->counts().live_blocks; }
std::vector<LiveBlocks> BlockPool::live() const { return core_->live(); }
int64_t BlockPool::class_bytes(int64_t bytes) {
  return size_of_class(class_of(std::clamp(bytes, kMinBlock, kMaxBlock)));
}

}  // namespace forethought
