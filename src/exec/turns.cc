#include "exec/turns.h"

#include <algorithm>

namespace forethought {

void Turns::ran(const Program* program, int64_t bytes) {
  size_t at = 0;
  int64_t round = 0;
  for (; at < count_ && entries_[at].program != program; ++at) round += entries_[at].bytes;
  if (at == count_) {
    count_ = std::min(count_ + 1, kMost);
    at = count_ - 1;
    entries_[at] = {program, 0, 0};
  } else if (at > 0) {
    ++entries_[at].returns;
  }
  std::rotate(entries_.begin(), entries_.begin() + at, entries_.begin() + at + 1);
  Entry& entry = entries_.front();
  entry.bytes = std::max(entry.bytes, bytes);
  if (at > 0 && entry.returns >= 2) bytes_ = std::max(bytes_, round + entry.bytes);
}

}  // namespace forethought
