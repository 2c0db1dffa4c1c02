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
// The process's account holds its pages as weights once, however many objects show the same file (same device, inode,
// size, and times of change); the budget that is given counts its share. The file must not be shortened while it is
// mapped: the system then ends the process that reads the lost part.
class MappedFile {
 public:
  // The budget may be null.
  static StatusOr<MappedFile> open(const std::string& path, std::shared_ptr<MemoryBudget> budget = nullptr);
  // The same of an open descriptor, which stays the caller's; `path` is for messages.
  static StatusOr<MappedFile> map(int descriptor, std::string_view path,
                                  std::shared_ptr<MemoryBudget> budget = nullptr);

  std::span<const std::byte> bytes() const;
  int64_t size() const { return static_cast<int64_t>(bytes().size()); }

  class Mapping;

 private:
  std::shared_ptr<const Mapping> mapping_;  // null: an empty file
  MemoryShare share_;
};

// The number of the mapping that the bytes lie in; 0: they lie in no file that is mapped now. No two mappings of a
// process's life have the same number.
int64_t mapping_of(const void* data, int64_t bytes);
inline bool lies_in_mapped_file(const void* data, int64_t bytes) { return mapping_of(data, bytes) != 0; }

// Lets the system drop the whole pages of these bytes from memory, if they lie in a mapped file; they are read again
// from the file when they are touched. Returns the bytes of those pages.
int64_t forget_mapped_bytes(const void* data, int64_t bytes);

}  // namespace forethought
