// Packed constants, kept once for each content and format however many sessions want them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "kernel_api/facts.h"
#include "memory/budget.h"
#include "session/content_store.h"

namespace forethought {

// One packed constant. Alive as long as a session holds it; the process's account holds its bytes once.
struct PackedBlock {
  std::string format;
  Tensor bytes;         // u8
  Tensor source;        // what it was made from, without a hold on it: type, dims, and the address in a mapping
  int64_t mapping = 0;  // of the source's bytes, as memory/ counts mappings; 0: they lay elsewhere
  std::span<const std::byte> span() const {
    return {static_cast<const std::byte*>(bytes.data), static_cast<size_t>(bytes.elements())};
  }
};

// Thread safe. The process's store is shared by all sessions. Blocks are shared on proof: they were made of the same
// bytes of the same mapped file, or packing what is asked for gives the same bytes again. No source is kept for that.
class PackStore {
 public:
  static PackStore& global();
  // The pack of `constant` by `spec`: an existing one with equal content and format, or a new one.
  StatusOr<std::shared_ptr<const PackedBlock>> get(const Tensor& constant, const PackSpec& spec);
  // The same if it is there, else null. What it packs to compare is gone when it returns, and in no account.
  StatusOr<std::shared_ptr<const PackedBlock>> find(const Tensor& constant, const PackSpec& spec);
  static uint64_t key(const Tensor& constant, const PackSpec& spec);  // of content and format
  size_t size() const { return blocks_.size(); }

 private:
  StatusOr<std::shared_ptr<const PackedBlock>> find(uint64_t key, const Tensor& constant, const PackSpec& spec);
  ContentStore<PackedBlock> blocks_;
};

}  // namespace forethought
