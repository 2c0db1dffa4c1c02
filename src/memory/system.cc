// Calls to mmap and the heap, behind one point at which tests let them fail.
#include "memory/system.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "base/checked.h"

namespace forethought {
namespace {

// From this size on, blocks are whole pages: a page or two of a heap block would be shared with strangers otherwise.
constexpr int64_t kHeapBlockLimit = 32 << 10;
constexpr size_t kBlockAlignment = 64;

std::atomic<bool> requests_watched{false};  // keeps the usual path to one load
std::atomic<int64_t> requests_left{0};
std::atomic<bool> fail_all_after{false}, failure_seen{false};

void* map_anonymous(int64_t bytes) {
  if (system_request_fails()) return nullptr;
  void* p = ::mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return p == MAP_FAILED ? nullptr : p;
}

// False if the system has no memory for the pages. Kernels before 5.14 lack the advice, so there each page is written.
bool populate(std::byte* data, int64_t size) {
#ifdef MADV_POPULATE_WRITE
  if (::madvise(data, static_cast<size_t>(size), MADV_POPULATE_WRITE) == 0) return true;
  if (errno != EINVAL) return false;
#endif
  for (int64_t i = 0; i < size; i += page_size()) *reinterpret_cast<volatile std::byte*>(data + i) = std::byte{0};
  return true;
}

std::string system_error(std::string_view what) {
  const int error = errno;
  return fmt::format("{}: {}", what, std::strerror(error));
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

StatusOr<Pages> Pages::map(std::shared_ptr<MemoryBudget> budget, MemoryRole role, int64_t bytes, std::string_view who,
                           PageOptions options) {
  if (bytes == 0) return Pages();
  if (bytes < 0 || bytes > std::numeric_limits<int64_t>::max() - page_size()) {
    return exhausted(fmt::format("{} needs {} bytes, which is no size of memory", who, bytes));
  }
  const auto size = static_cast<int64_t>(round_up(static_cast<size_t>(bytes), static_cast<size_t>(page_size())));
  RETURN_IF_ERROR(budget->reserve(role, size, who));
  auto* data = static_cast<std::byte*>(map_anonymous(size));
  if (!data) {
    budget->release(role, size);
    return exhausted(fmt::format("{} needs {}, which the system does not have", who, readable_bytes(size)));
  }
  Pages pages;
  pages.data_ = data;
  pages.size_ = size;
  pages.role_ = role;
  pages.budget_ = std::move(budget);
  if (options.huge) static_cast<void>(::madvise(data, static_cast<size_t>(size), MADV_HUGEPAGE));  // advice only
  if (options.populate && !populate(data, size)) {
    return exhausted(fmt::format("{} needs {}, which the system cannot supply now", who, readable_bytes(size)));
  }
  return pages;
}

Pages::~Pages() {
  if (!data_) return;
  ::munmap(data_, static_cast<size_t>(size_));
  budget_->release(role_, size_);
}

StatusOr<MappedFile> MappedFile::open(const std::string& path, std::shared_ptr<MemoryBudget> budget) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) {
    const bool missing = errno == ENOENT;
    const std::string message = system_error(fmt::format("cannot open {}", path));
    return missing ? not_found(message) : invalid(message);
  }
  auto file = map(descriptor, path, std::move(budget));
  ::close(descriptor);
  return file;
}

StatusOr<MappedFile> MappedFile::map(int descriptor, std::string_view path, std::shared_ptr<MemoryBudget> budget) {
  struct stat facts;
  if (::fstat(descriptor, &facts) != 0) return invalid(system_error(fmt::format("cannot examine {}", path)));
  if (!S_ISREG(facts.st_mode)) return invalid(fmt::format("{} is no regular file", path));
  MappedFile file;
  if (facts.st_size == 0) return file;
  if (budget) RETURN_IF_ERROR(budget->reserve(MemoryRole::files, facts.st_size, path));
  void* p = system_request_fails()
                ? MAP_FAILED
                : ::mmap(nullptr, static_cast<size_t>(facts.st_size), PROT_READ, MAP_PRIVATE, descriptor, 0);
  if (p == MAP_FAILED) {
    if (budget) budget->release(MemoryRole::files, facts.st_size);
    return exhausted(fmt::format("cannot map {} ({}) into memory", path, readable_bytes(facts.st_size)));
  }
  file.data_ = static_cast<const std::byte*>(p);
  file.size_ = facts.st_size;
  if (budget) budget->use(MemoryRole::files, file.size_);
  file.budget_ = std::move(budget);
  return file;
}

MappedFile::~MappedFile() {
  if (!data_) return;
  ::munmap(const_cast<std::byte*>(data_), static_cast<size_t>(size_));
  if (!budget_) return;
  budget_->unuse(MemoryRole::files, size_);
  budget_->release(MemoryRole::files, size_);
}

void* allocate_block(int64_t bytes) {
  if (bytes >= kHeapBlockLimit) return map_anonymous(bytes);
  if (system_request_fails()) return nullptr;
  return std::aligned_alloc(kBlockAlignment, round_up(static_cast<size_t>(bytes), kBlockAlignment));
}

void free_block(void* data, int64_t bytes) {
  if (bytes >= kHeapBlockLimit) {
    ::munmap(data, static_cast<size_t>(bytes));
  } else {
    std::free(data);
  }
}

}  // namespace forethought
