// Programs of one graph by the shapes they are for: exact keys, bounded, the least recently used one leaves first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"
#include "session/compiled_program.h"

namespace forethought {

// Thread safe.
class ProgramCache {
 public:
  using Key = std::vector<int64_t>;
  struct Counts {
    int64_t hits = 0, misses = 0, evicted = 0;
    int64_t size = 0;  // kept now
  };
  explicit ProgramCache(size_t capacity) : capacity_(capacity) {}

  // Null: there is none.
  std::shared_ptr<const CompiledProgram> find(const Key& key);
  // Lets one leave if all places are taken: before a program is made, which then takes the memory of the old one.
  void make_room() { leave(capacity_ - 1); }
  // Of two for one key the first stays.
  void keep(Key key, std::shared_ptr<const CompiledProgram> program);
  void clear() { leave(0); }
  Counts counts() const;

 private:
  struct KeyHash {
    size_t operator()(const Key& k) const;
  };
  using Entry = std::pair<Key, std::shared_ptr<const CompiledProgram>>;
  // Until no more than `kept` are there.
  void leave(size_t kept);

  const size_t capacity_;
  mutable Mutex mutex_;
  std::list<Entry> order_;  // most recently used first
  std::unordered_map<Key, std::list<Entry>::iterator, KeyHash> index_;
  Counts counts_;
};

}  // namespace forethought
