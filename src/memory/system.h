// Memory straight from the system: anonymous pages, and files mapped for reading; all of it counted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "memory/budget.h"

namespace forethought {

int64_t page_size();

struct PageOptions {
  bool huge = false;      // advise the system to use huge pages
  bool populate = false;  // fault every page in now, so that no run does
};

// Anonymous zeroed pages, writable, private. Move-only; given back by the destructor. A budget counts them as retained
// until their owner says otherwise.
class Pages {
 public:
  Pages() = default;
  Pages(Pages&& o) noexcept { swap(o); }
  Pages& operator=(Pages&& o) noexcept {
    Pages(std::move(o)).swap(*this);
    return *this;
  }
  ~Pages();

  // `bytes` is rounded up to whole pages; 0 gives an empty object. `who` names the user in an error.
  static StatusOr<Pages> map(std::shared_ptr<MemoryBudget> budget, MemoryRole role, int64_t bytes, std::string_view who,
                             PageOptions options = {});

  std::byte* data() const { return data_; }
  int64_t size() const { return size_; }

 private:
  void swap(Pages& o) {
    std::swap(data_, o.data_);
    std::swap(size_, o.size_);
    std::swap(role_, o.role_);
    std::swap(budget_, o.budget_);
  }
  std::byte* data_ = nullptr;
  int64_t size_ = 0;
  MemoryRole role_ = MemoryRole::planned;
  std::shared_ptr<MemoryBudget> budget_;
};

// A regular file mapped read-only, private. `hold(std::move(file))` makes it the owner of tensors that point into it.
// The file must not be shortened while it is mapped: the system then ends the process that reads the lost part.
class MappedFile {
 public:
  MappedFile() = default;
  MappedFile(MappedFile&& o) noexcept { swap(o); }
  MappedFile& operator=(MappedFile&& o) noexcept {
    MappedFile(std::move(o)).swap(*this);
    return *this;
  }
  ~MappedFile();

  // The budget may be null.
  static StatusOr<MappedFile> open(const std::string& path, std::shared_ptr<MemoryBudget> budget = nullptr);
  // The same of an open descriptor, which stays the caller's; `path` is for messages.
  static StatusOr<MappedFile> map(int descriptor, std::string_view path,
                                  std::shared_ptr<MemoryBudget> budget = nullptr);

  std::span<const std::byte> bytes() const { return {data_, static_cast<size_t>(size_)}; }
  int64_t size() const { return size_; }

 private:
  void swap(MappedFile& o) {
    std::swap(data_, o.data_);
    std::swap(size_, o.size_);
    std::swap(budget_, o.budget_);
  }
  const std::byte* data_ = nullptr;
  int64_t size_ = 0;
  std::shared_ptr<MemoryBudget> budget_;
};

// Blocks for pools, 64-byte aligned: small ones from the heap, the rest in whole pages. Null if there is no memory. Not
// counted: the pool does that.
void* allocate_block(int64_t bytes);
void free_block(void* data, int64_t bytes);

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
