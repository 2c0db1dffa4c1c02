// Prepared kernels of a session, shared by its frames and by later shapes: bounded by bytes, exact keys, least recently
// used out.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/function_ref.h"
#include "base/mutex.h"
#include "base/status.h"

namespace forethought {

class Runnable;

// Appends plain values to a key byte for byte; two keys are equal only if all that was appended is.
class InstanceKey {
 public:
  explicit InstanceKey(std::string_view kind) {
    bytes_.reserve(128);  // most keys are shorter
    bytes_.append(kind).push_back('\0');
  }
  template <typename T>
  requires std::is_trivially_copyable_v<T> InstanceKey& add(const T& v) {
    bytes_.append(reinterpret_cast<const char*>(&v), sizeof v);
    return *this;
  }
  InstanceKey& add_dims(std::span<const int64_t> dims) {
    add(dims.size());
    for (int64_t d : dims) add(d);
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// Thread safe. What leaves the cache lives on as long as a plan holds it.
class InstanceCache {
 public:
  static constexpr int64_t kDefaultBytes = int64_t{16} << 20;
  explicit InstanceCache(int64_t most_bytes = kDefaultBytes) : most_bytes_(most_bytes) {}

  // The instance of `key`, made by `make` if it is not there. `make` runs without the lock; `bytes` is about what it
  // makes takes, the key apart. What is larger than the whole cache is made and not kept.
  StatusOr<std::shared_ptr<const Runnable>> get(const InstanceKey& key, int64_t bytes,
                                                FunctionRef<StatusOr<std::shared_ptr<const Runnable>>()> make);
  struct Counts {
    int64_t hits = 0, misses = 0, evicted = 0;
    int64_t size = 0, bytes = 0;  // kept now
    int64_t making_ns = 0;        // of the thread's own time, spent in `make` over all misses
  };
  Counts counts() const;

 private:
  struct Entry {
    std::string key;
    std::shared_ptr<const Runnable> instance;
    int64_t bytes;
  };
  mutable Mutex mutex_;
  const int64_t most_bytes_;
  std::list<Entry> order_;  // most recently used first
  std::unordered_map<std::string_view, std::list<Entry>::iterator> index_;
  Counts counts_;
};

// choose()'s usual call: through the cache if there is one, else made anew.
StatusOr<std::shared_ptr<const Runnable>> cached_instance(
    InstanceCache* cache, const InstanceKey& key, int64_t bytes,
    FunctionRef<StatusOr<std::shared_ptr<const Runnable>>()> make);

}  // namespace forethought
