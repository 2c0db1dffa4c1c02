// Memory straight from the system, or from a source that a caller brings: pages and blocks, all of it counted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "base/buffer.h"
#include "base/status.h"
#include "memory/budget.h"

namespace forethought {

int64_t page_size();

struct PageOptions {
  bool populate = false;  // fault every page in now, so that no run does
};

// Where an arena's bytes come from, if not from the system. Calls come from any thread, and releases also after the
// session is gone: whoever took memory keeps the source alive. Neither call may throw.
class MemorySource {
 public:
  virtual ~MemorySource() = default;
  // At least `bytes` bytes at a multiple of `alignment` (a power of two), or null.
  virtual void* allocate(size_t bytes, size_t alignment) = 0;
  virtual void release(void* data, size_t bytes) = 0;
};

enum class BlockKind : uint8_t { heap, pages };  // 64-byte aligned; or whole pages

// Blocks of this size are pages: a page or two of a heap block would be shared with strangers otherwise.
constexpr int64_t kPageBlock = 32 << 10;
// With the knob FORETHOUGHT_HUGE_PAGES, blocks of this size begin at a multiple of a huge page and ask for such pages:
// a fault then brings 2 MiB in, not 4 KiB. They take not a byte more for it, but what is cut off in the middle of a
// huge page (resize_pages) goes back only when the system is short of memory.
constexpr int64_t kHugePage = 2 << 20, kHugeBlock = 2 * kHugePage;
inline BlockKind kind_of_block(int64_t bytes) { return bytes < kPageBlock ? BlockKind::heap : BlockKind::pages; }

// Bytes from the source, or from the system if it is null. Not counted in a budget: the caller does that. An error says
// that there is no memory, or that the source gave an address that will not do.
StatusOr<void*> obtain(MemorySource* source, BlockKind kind, int64_t bytes, std::string_view who);
void give_back(MemorySource* source, BlockKind kind, void* data, int64_t bytes);
// Makes pages that obtain() gave, without a source, larger or smaller; what both sizes have stays faulted in, perhaps
// at another address. Null: it cannot be, and all is as before.
void* resize_pages(void* data, int64_t bytes, int64_t wanted);

// A block of the system for what keeps accounts of its own, a device for instance: counted neither here nor in a
// budget.
void* allocate_block(int64_t bytes);
void free_block(void* data, int64_t bytes);

// A whole file of `size` bytes for reading, or null.
void* map_file_pages(int descriptor, int64_t size);
void unmap_file_pages(const void* data, int64_t size);
void count_file_pages(int64_t bytes);  // that somebody is charged for from now on, or no more

// What this room holds of the system and of sources now, in bytes: counted where the calls are made, apart from all
// budgets, so that a test can compare the two. Of mapped files, those that are charged.
int64_t obtained_bytes();
int64_t obtained_heap_bytes();  // those of them that are blocks of the C heap

// Zeroed pages, writable, private. Move-only; given back by the destructor. A budget counts them as retained until
// their owner says otherwise.
class Pages {
 public:
  Pages() = default;
  Pages(Pages&& o) noexcept { swap(o); }
  Pages& operator=(Pages&& o) noexcept {
    Pages(std::move(o)).swap(*this);
    return *this;
  }
  ~Pages();

  // `bytes` is rounded up to whole pages; 0 gives an empty object. `who` names the user in an error. Pages of a source
  // hold what it left in them.
  static StatusOr<Pages> map(std::shared_ptr<MemoryBudget> budget, MemoryRole role, int64_t bytes, std::string_view who,
                             PageOptions options = {}, std::shared_ptr<MemorySource> source = nullptr);
  static int64_t rounded(int64_t bytes);

  std::byte* data() const { return data_; }
  int64_t size() const { return size_; }

 private:
  void swap(Pages& o) {
    std::swap(data_, o.data_);
    std::swap(size_, o.size_);
    std::swap(role_, o.role_);
    std::swap(budget_, o.budget_);
    std::swap(source_, o.source_);
  }
  std::byte* data_ = nullptr;
  int64_t size_ = 0;
  MemoryRole role_ = MemoryRole::planned;
  std::shared_ptr<MemoryBudget> budget_;
  std::shared_ptr<MemorySource> source_;
};

// A block that is live in `budget` as long as its owner is: zeroed, 64-byte aligned, of pages where it is large.
struct CountedBlock {
  void* data = nullptr;
  BufferRef owner;
};
int64_t counted_block_bytes(int64_t bytes);  // what a block of so many bytes takes
StatusOr<CountedBlock> counted_block(std::shared_ptr<MemoryBudget> budget, MemoryRole role, int64_t bytes,
                                     std::string_view who);

// Address space that reads as zeros and takes no memory, as long as its owner lives; not counted. Null: there is none.
CountedBlock zeros(int64_t bytes);

// Takes a block that was allocated elsewhere into the account, as live, as long as the reference that comes back lives.
// After a refusal the block is as it was.
StatusOr<BufferRef> adopt_block(std::shared_ptr<MemoryBudget> budget, MemoryRole role, BufferRef block, int64_t bytes,
                                std::string_view who);

// For tests: lets the n-th request to the system from now on fail (n = 1: the next), and all later ones too if `all`.
// Every request of this room counts, also those for small headers. The destructor ends it. One at a time.
class FailSystemRequests {
 public:
  explicit FailSystemRequests(int64_t nth, bool all = false);
  ~FailSystemRequests();
  FailSystemRequests(const FailSystemRequests&) = delete;
  FailSystemRequests& operator=(const FailSystemRequests&) = delete;
  bool triggered() const;  // a request failed because of this object
};
// Asked before each request: true if it is to fail.
bool system_request_fails();

}  // namespace forethought
