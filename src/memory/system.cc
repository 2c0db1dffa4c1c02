// Calls to mmap and the heap, behind one point at which tests let them fail.
#include "memory/system.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>

#include "base/checked.h"
#include "base/knobs.h"

namespace forethought {
namespace {

constexpr size_t kBlockAlignment = 64;

std::atomic<bool> requests_watched{false};  // keeps the usual path to one load
std::atomic<int64_t> requests_left{0};
std::atomic<bool> fail_all_after{false}, failure_seen{false};

std::atomic<int64_t> obtained{0}, obtained_heap{0};

// False if the system has no memory for the pages. Kernels before 5.14 lack the advice, so there each page is written.
bool populate(std::byte* data, int64_t size) {
#ifdef MADV_POPULATE_WRITE
  if (::madvise(data, static_cast<size_t>(size), MADV_POPULATE_WRITE) == 0) return true;
  if (errno != EINVAL) return false;
#endif
  for (int64_t i = 0; i < size; i += page_size()) *reinterpret_cast<volatile std::byte*>(data + i) = std::byte{0};
  return true;
}

}  // namespace

bool system_request_fails() {
  if (!requests_watched.load(std::memory_order_relaxed)) [[likely]]
    return false;
  const int64_t left = requests_left.fetch_sub(1, std::memory_order_relaxed);
  const bool fails = left == 1 || (left < 1 && fail_all_after.load(std::memory_order_relaxed));
  if (fails) failure_seen.store(true, std::memory_order_relaxed);
  return fails;
}

FailSystemRequests::FailSystemRequests(int64_t nth, bool all) {
  FT_CHECK(!requests_watched.load());
  requests_left = nth;
  fail_all_after = all;
  failure_seen = false;
  requests_watched = true;
}
FailSystemRequests::~FailSystemRequests() { requests_watched = false; }
bool FailSystemRequests::triggered() const { return failure_seen; }

int64_t page_size() {
  static const int64_t size = ::sysconf(_SC_PAGESIZE);
  return size;
}

namespace {

void* map_pages(size_t bytes) {
  void* p = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return p == MAP_FAILED ? nullptr : p;
}

// Systems align mappings to huge pages only where their size is a multiple of one, and older ones never: so more is
// mapped than is kept. A block that begins at a huge page shares none with its neighbours, whose bytes would keep it.
void* map_huge_pages(size_t bytes) {
  const size_t spare = static_cast<size_t>(kHugePage - page_size());
  auto* const room = static_cast<std::byte*>(map_pages(bytes + spare));
  if (!room) return map_pages(bytes);
  const size_t before = (0 - reinterpret_cast<uintptr_t>(room)) % static_cast<size_t>(kHugePage);
  std::byte* const data = room + before;
  if (before > 0) ::munmap(room, before);
  if (before < spare) ::munmap(data + bytes, spare - before);
  static_cast<void>(::madvise(data, bytes, MADV_HUGEPAGE));  // advice: refused where the system has no such pages
  return data;
}

void* of_system(BlockKind kind, int64_t bytes) {
  if (system_request_fails()) return nullptr;
  if (kind == BlockKind::heap) {
    return std::aligned_alloc(kBlockAlignment, round_up(static_cast<size_t>(bytes), kBlockAlignment));
  }
  const size_t size = round_up(static_cast<size_t>(bytes), static_cast<size_t>(page_size()));
  return bytes >= kHugeBlock && knob_bool(Knob::kHugePages) ? map_huge_pages(size) : map_pages(size);
}

void to_system(BlockKind kind, void* data, int64_t bytes) {
  if (kind == BlockKind::pages) {
    ::munmap(data, static_cast<size_t>(bytes));
  } else {
    std::free(data);
  }
}

}  // namespace

void* allocate_block(int64_t bytes) { return of_system(kind_of_block(bytes), bytes); }
void free_block(void* data, int64_t bytes) { to_system(kind_of_block(bytes), data, bytes); }

int64_t obtained_bytes() { return obtained.load(std::memory_order_relaxed); }
int64_t obtained_heap_bytes() { return obtained_heap.load(std::memory_order_relaxed); }

StatusOr<void*> obtain(MemorySource* source, BlockKind kind, int64_t bytes, std::string_view who) {
  void* data = nullptr;
  if (source) {
    const size_t alignment = kind == BlockKind::pages ? static_cast<size_t>(page_size()) : kBlockAlignment;
    data = system_request_fails() ? nullptr : source->allocate(static_cast<size_t>(bytes), alignment);
    if (data && reinterpret_cast<uintptr_t>(data) % alignment != 0) {
      source->release(data, static_cast<size_t>(bytes));
      return invalid(fmt::format(
          "{} needs {} at a multiple of {} bytes; the allocator that was brought for it gave an address that is none",
          who, readable_bytes(bytes), alignment));
    }
  } else {
    data = of_system(kind, bytes);
  }
  if (!data) {
    return exhausted(fmt::format("{} needs {}, which the {} does not have", who, readable_bytes(bytes),
                                 source ? "allocator that was brought for it" : "system"));
  }
  obtained.fetch_add(bytes, std::memory_order_relaxed);
  if (!source && kind == BlockKind::heap) obtained_heap.fetch_add(bytes, std::memory_order_relaxed);
  return data;
}

void give_back(MemorySource* source, BlockKind kind, void* data, int64_t bytes) {
  obtained.fetch_sub(bytes, std::memory_order_relaxed);
  if (!source && kind == BlockKind::heap) obtained_heap.fetch_sub(bytes, std::memory_order_relaxed);
  if (source) {
    source->release(data, static_cast<size_t>(bytes));
  } else {
    to_system(kind, data, bytes);
  }
}

void* resize_pages(void* data, int64_t bytes, int64_t wanted) {
#ifdef __SANITIZE_THREAD__
  return nullptr;  // the sanitizer does not know that pages move
#else
  if (system_request_fails()) return nullptr;
  void* p = ::mremap(data, static_cast<size_t>(bytes), static_cast<size_t>(wanted), MREMAP_MAYMOVE);
  if (p == MAP_FAILED) return nullptr;
  obtained.fetch_add(wanted - bytes, std::memory_order_relaxed);
  return p;
#endif
}

void* map_file_pages(int descriptor, int64_t size) {
  if (system_request_fails()) return nullptr;
  void* p = ::mmap(nullptr, static_cast<size_t>(size), PROT_READ, MAP_PRIVATE, descriptor, 0);
  return p == MAP_FAILED ? nullptr : p;
}

void unmap_file_pages(const void* data, int64_t size) { ::munmap(const_cast<void*>(data), static_cast<size_t>(size)); }

void count_file_pages(int64_t bytes) { obtained.fetch_add(bytes, std::memory_order_relaxed); }

int64_t Pages::rounded(int64_t bytes) {
  return static_cast<int64_t>(round_up(static_cast<size_t>(bytes), static_cast<size_t>(page_size())));
}

StatusOr<Pages> Pages::map(std::shared_ptr<MemoryBudget> budget, MemoryRole role, int64_t bytes, std::string_view who,
                           PageOptions options, std::shared_ptr<MemorySource> source) {
  if (bytes == 0) return Pages();
  if (bytes < 0 || bytes > std::numeric_limits<int64_t>::max() - page_size()) {
    return exhausted(fmt::format("{} needs {} bytes, which is no size of memory", who, bytes));
  }
  const int64_t size = rounded(bytes);
  RETURN_IF_ERROR(budget->reserve(role, size, who));
  const auto data = obtain(source.get(), BlockKind::pages, size, who);
  if (!data.ok()) {
    budget->release(role, size);
    return data.status();
  }
  Pages pages;
  pages.data_ = static_cast<std::byte*>(*data);
  pages.size_ = size;
  pages.role_ = role;
  pages.budget_ = std::move(budget);
  pages.source_ = std::move(source);
  if (pages.source_) return pages;
  if (options.populate && !populate(pages.data_, size)) {
    return exhausted(fmt::format("{} needs {}, which the system cannot supply now", who, readable_bytes(size)));
  }
  return pages;
}

Pages::~Pages() {
  if (!data_) return;
  give_back(source_.get(), BlockKind::pages, data_, size_);
  budget_->release(role_, size_);
}

namespace {

struct CountedHeader : BufferHeader {
  std::shared_ptr<MemoryBudget> budget;
  ListedUse listed;
  MemoryRole role;
  void* data;
  int64_t bytes, asked;
};

void release_counted(BufferHeader* header) {
  auto* const h = static_cast<CountedHeader*>(header);
  give_back(nullptr, kind_of_block(h->bytes), h->data, h->bytes);
  h->budget->unuse(h->role, h->asked, h->bytes - h->asked);
  h->budget->release(h->role, h->bytes);
  delete h;
}

}  // namespace

int64_t counted_block_bytes(int64_t bytes) {
  if (kind_of_block(bytes) == BlockKind::pages) return Pages::rounded(bytes);
  return static_cast<int64_t>(round_up(static_cast<size_t>(std::max<int64_t>(bytes, 1)), kBlockAlignment));
}

StatusOr<CountedBlock> counted_block(std::shared_ptr<MemoryBudget> budget, MemoryRole role, int64_t bytes,
                                     std::string_view who) {
  if (bytes < 0 || bytes > std::numeric_limits<int64_t>::max() - page_size()) {
    return exhausted(fmt::format("{} needs {} bytes, which is no size of memory", who, bytes));
  }
  const int64_t size = counted_block_bytes(bytes);
  RETURN_IF_ERROR(budget->reserve(role, size, who));
  auto* const header = system_request_fails() ? nullptr : new (std::nothrow) CountedHeader;
  StatusOr<void*> data = header ? obtain(nullptr, kind_of_block(size), size, who)
                                : exhausted(fmt::format("{}: the system has no memory", who));
  if (!data.ok()) {
    delete header;
    budget->release(role, size);
    return data.status();
  }
  if (kind_of_block(size) == BlockKind::heap) std::memset(*data, 0, static_cast<size_t>(size));
  budget->use(role, bytes, size - bytes);
  header->release = release_counted;
  header->role = role;
  header->data = *data;
  header->bytes = size;
  header->asked = bytes;
  header->budget = std::move(budget);
  CountedBlock block{*data, BufferRef(header)};
  header->listed = ListedUse(header->budget.get(), role, bytes, who);
  return block;
}

namespace {

struct Adopted {
  Adopted(std::shared_ptr<MemoryBudget> b, ListedUse use, MemoryRole r, BufferRef ref, int64_t n)
      : budget(std::move(b)), listed(std::move(use)), role(r), block(std::move(ref)), bytes(n) {
    obtained.fetch_add(bytes, std::memory_order_relaxed);
    budget->use(role, bytes, 0);
  }
  Adopted(Adopted&&) = default;
  ~Adopted() {
    if (!budget) return;  // moved from
    obtained.fetch_sub(bytes, std::memory_order_relaxed);
    budget->unuse(role, bytes, 0);
    budget->release(role, bytes);
  }
  std::shared_ptr<MemoryBudget> budget;
  ListedUse listed;
  MemoryRole role;
  BufferRef block;
  int64_t bytes;
};

}  // namespace

CountedBlock zeros(int64_t bytes) {
  struct Space {
    explicit Space(int64_t n) : size(static_cast<size_t>(Pages::rounded(std::max<int64_t>(n, 1)))) {
      void* p = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      data = p == MAP_FAILED ? nullptr : p;
    }
    Space(Space&& o) noexcept : size(o.size), data(std::exchange(o.data, nullptr)) {}
    ~Space() {
      if (data) ::munmap(data, size);
    }
    size_t size;
    void* data;
  };
  Space space(bytes);
  void* const data = space.data;
  return {data, data ? hold(std::move(space)) : BufferRef()};
}

StatusOr<BufferRef> adopt_block(std::shared_ptr<MemoryBudget> budget, MemoryRole role, BufferRef block, int64_t bytes,
                                std::string_view who) {
  ListedUse listed(budget.get(), role, bytes, who);
  RETURN_IF_ERROR(budget->reserve(role, bytes, who));
  return hold(Adopted(std::move(budget), std::move(listed), role, std::move(block), bytes));
}

}  // namespace forethought
