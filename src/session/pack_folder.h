// Packed constants kept in files, so that a later load maps them instead of making them anew.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "kernel_api/facts.h"
#include "memory/budget.h"
#include "session/packs.h"

namespace forethought {

// A folder of files, one for each packed form, named by what was packed and how. Any number of processes may use one at
// a time: files are written under another name and renamed when they are whole, and never changed. What a file says is
// compared with what is wanted, its bytes with their checksum; one that is not what it should be is made anew, with a
// word in the log. Whoever can write to the folder is trusted as far as somebody who can write to the model. Thread
// safe.
class PackFolder {
 public:
  // Smaller forms are not kept: a file takes whole pages.
  static constexpr int64_t kLeastBytes = 16 << 10;

  // Makes the folder if it is not there; the one that it is to lie in must be. Removes files that processes left
  // unfinished more than an hour ago.
  static StatusOr<std::shared_ptr<PackFolder>> open(const std::string& path);

  // The packed form, mapped from its file, which is written first where it is not there or wrong. The budget counts the
  // file as packed (MappedFile). Null: no file can be written, for a reason in the log. Errors are of the budget, of
  // packing, and of the system.
  StatusOr<std::shared_ptr<const PackedBlock>> get(const Tensor& constant, const PackSpec& spec,
                                                   const std::shared_ptr<MemoryBudget>& budget);

  struct Counts {
    int64_t read = 0, written = 0, refused = 0;  // forms that were there, that were written, files that were not right
  };
  Counts counts() const { return {read_.load(), written_.load(), refused_.load()}; }

 private:
  struct Header;
  explicit PackFolder(std::string path) : path_(std::move(path)) {}
  static Header header_of(const Tensor& constant, const PackSpec& spec);
  StatusOr<std::shared_ptr<const PackedBlock>> read(const std::string& file, const Header& wanted, const PackSpec& spec,
                                                    const std::shared_ptr<MemoryBudget>& budget, std::string* why);
  Status write(const std::string& file, const Header& header, const Tensor& constant, const PackSpec& spec);

  const std::string path_;
  std::mutex mutex_;
  // Blocks that sessions of this object have, by file.
  std::map<std::string, std::weak_ptr<const PackedBlock>> known_;
  std::atomic<int64_t> read_{0}, written_{0}, refused_{0};
};

}  // namespace forethought
