// Files mapped into memory read-only, and the rule by which a model may name other files.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/buffer.h"
#include "base/status.h"

namespace forethought {

class MemoryBudget;

// Bytes and what keeps them there. A null owner: the caller does.
struct ByteSource {
  std::string_view bytes;
  BufferRef owner;
};

// Maps a regular file; the pages come from the file as they are touched and can be dropped by the system. `budget`, if
// there is one, counts them as weights as long as the source's owner lives.
StatusOr<ByteSource> map_file(const std::string& path, std::shared_ptr<MemoryBudget> budget = nullptr);

// The files beside a model that hold its external tensors. A location is a path relative to the model's folder; it may
// lead, through links, to a file in that folder or in the folder where the model file itself really lies, nowhere else.
class ExternalFiles {
 public:
  ExternalFiles() = default;  // no folder: every location is refused
  // `model_path` may be a file (its folder counts) or a folder.
  static StatusOr<ExternalFiles> beside(const std::string& model_path, std::shared_ptr<MemoryBudget> budget = nullptr);

  StatusOr<ByteSource> open(std::string_view location);  // maps each file once

 private:
  std::string folder_;    // where locations start; empty: none
  std::string roots_[2];  // canonical folders that may be read
  std::shared_ptr<MemoryBudget> budget_;
  std::map<std::string, ByteSource, std::less<>> open_;
};

}  // namespace forethought
