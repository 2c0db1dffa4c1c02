// Files mapped into memory read-only, and the rule by which a model may name other files.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/buffer.h"
#include "base/status.h"

namespace forethought {

// Bytes and what keeps them there. A null owner: the caller does.
struct ByteSource {
  std::string_view bytes;
  BufferRef owner;
};

// Maps a regular file; the pages come from the file as they are touched and can be dropped by the system.
StatusOr<ByteSource> map_file(const std::string& path);

// The files beside a model that hold its external tensors. A location is a path relative to the model's folder; it may
// lead, through links, to a file in that folder or in the folder where the model file itself really lies, nowhere else.
class ExternalFiles {
 public:
  ExternalFiles() = default;  // no folder: every location is refused
  // `model_path` may be a file (its folder counts) or a folder.
  static StatusOr<ExternalFiles> beside(const std::string& model_path);

  StatusOr<ByteSource> open(std::string_view location);  // maps each file once

 private:
  std::string folder_;    // where locations start; empty: none
  std::string roots_[2];  // canonical folders that may be read
  std::map<std::string, ByteSource, std::less<>> open_;
};

}  // namespace forethought
