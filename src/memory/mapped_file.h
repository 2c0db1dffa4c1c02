// Files mapped for reading, once for all sessions of the process that map them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "memory/budget.h"

namespace forethought {

// A regular file mapped read-only, private. `hold(std::move(file))` makes it the owner of tensors that point into it.
// The process's account holds its pages once, however many objects show the same file (same device, inode, size, and
// times of change); the budget that is given counts its share. Objects whose budget streams files
// (MemoryBudget::stream_files) count in neither. The file must not be shortened while it is mapped: the system then
// ends the process that reads the lost part.
class MappedFile {
 public:
  // The budget may be null.
  static StatusOr<MappedFile> open(const std::string& path, std::shared_ptr<MemoryBudget> budget = nullptr,
                                   MemoryRole role = MemoryRole::weights);
  // The same of an open descriptor, which stays the caller's; `path` is for messages.
  static StatusOr<MappedFile> map(int descriptor, std::string_view path, std::shared_ptr<MemoryBudget> budget = nullptr,
                                  MemoryRole role = MemoryRole::weights);

  std::span<const std::byte> bytes() const;
  int64_t size() const { return static_cast<int64_t>(bytes().size()); }

  class Mapping;

 private:
  std::shared_ptr<Mapping> mapping_;    // null: an empty file
  std::shared_ptr<const void> charge_;  // to the process's account, one of all that hold it
  MemoryShare share_;
};

// The number of the mapping that the bytes lie in; 0: they lie in no file that is mapped now. No two mappings of a
// process's life have the same number.
int64_t mapping_of(const void* data, int64_t bytes);
inline bool lies_in_mapped_file(const void* data, int64_t bytes) { return mapping_of(data, bytes) != 0; }

// Lets the system drop the whole pages of these bytes from memory, if they lie in a mapped file; they are read again
// from the file when they are touched. Returns the bytes of those pages.
int64_t forget_mapped_bytes(const void* data, int64_t bytes);

// The whole pages that these bytes of a mapped file touch; empty if there are none.
std::span<const std::byte> pages_of(std::span<const std::byte> bytes);
// Those and the pages around them, of their mapping, that the system may bring in together with them.
std::span<const std::byte> pages_around(std::span<const std::byte> bytes);
// Starts to read whole pages of a mapped file, if the system will; and lets the system drop them again from this
// process. Neither changes what they hold: another thread that reads them meanwhile reads the same bytes.
void ask_for_pages(std::span<const std::byte> pages);
void drop_pages(std::span<const std::byte> pages);

}  // namespace forethought
