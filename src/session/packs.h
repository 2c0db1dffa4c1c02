// Packed constants, kept once for each content and format however many sessions want them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "kernel_api/facts.h"
#include "memory/budget.h"

namespace forethought {

// One packed constant. Alive as long as a session holds it; the process's account holds its bytes once.
struct PackedBlock {
  Tensor source;  // what it was made from, for exact comparison; shares the constant's bytes
  std::string format;
  Tensor bytes;  // u8
  std::span<const std::byte> span() const {
    return {static_cast<const std::byte*>(bytes.data), static_cast<size_t>(bytes.elements())};
  }
};

// Thread safe. The process's store is shared by all sessions.
class PackStore {
 public:
  static PackStore& global();
  // The pack of `constant` by `spec`: an existing one with equal content and format, or a new one.
  StatusOr<std::shared_ptr<const PackedBlock>> get(const Tensor& constant, const PackSpec& spec);
  // The same if it is there, else null.
  std::shared_ptr<const PackedBlock> find(const Tensor& constant, const PackSpec& spec);
  static uint64_t key(const Tensor& constant, const PackSpec& spec);  // of content and format

 private:
  std::shared_ptr<const PackedBlock> find_locked(uint64_t key, const Tensor& constant, const PackSpec& spec);
  std::mutex mutex_;
  std::unordered_multimap<uint64_t, std::weak_ptr<const PackedBlock>> blocks_;
};

}  // namespace forethought
