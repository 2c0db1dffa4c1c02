#include "session/packs.h"

#include <cstring>

#include "base/hash.h"
#include "memory/system.h"

namespace forethought {
namespace {

bool same_content(const Tensor& a, const Tensor& b) {
  if (a.dtype != b.dtype || a.dims != b.dims || a.bytes() != b.bytes()) return false;
  return a.data == b.data || a.bytes() == 0 || std::memcmp(a.data, b.data, static_cast<size_t>(a.bytes())) == 0;
}

}  // namespace

PackStore& PackStore::global() {
  static auto* store = new PackStore;
  return *store;
}

uint64_t PackStore::key(const Tensor& constant, const PackSpec& spec) {
  return hash_bytes(spec.format.data(), spec.format.size(),
                    hash_bytes(constant.data, static_cast<size_t>(constant.bytes())));
}

std::shared_ptr<const PackedBlock> PackStore::find_locked(uint64_t key, const Tensor& constant, const PackSpec& spec) {
  auto [begin, end] = blocks_.equal_range(key);
  for (auto it = begin; it != end;) {
    auto block = it->second.lock();
    if (!block) {
      it = blocks_.erase(it);
      continue;
    }
    if (block->format == spec.format && block->bytes.elements() == static_cast<int64_t>(spec.bytes) &&
        same_content(block->source, constant))
      return block;
    ++it;
  }
  return nullptr;
}

std::shared_ptr<const PackedBlock> PackStore::find(const Tensor& constant, const PackSpec& spec) {
  const uint64_t k = key(constant, spec);
  const std::lock_guard lock(mutex_);
  return find_locked(k, constant, spec);
}

StatusOr<std::shared_ptr<const PackedBlock>> PackStore::get(const Tensor& constant, const PackSpec& spec) {
  const uint64_t k = key(constant, spec);
  {
    const std::lock_guard lock(mutex_);
    if (auto block = find_locked(k, constant, spec)) return block;
  }
  // Packed without the lock; if two sessions pack the same constant at once, the second result is dropped.
  auto made = std::make_shared<PackedBlock>();
  made->source = constant;
  made->format = spec.format;
  ASSIGN_OR_RETURN(CountedBlock block, counted_block(MemoryBudget::process(), MemoryRole::packed,
                                                     static_cast<int64_t>(spec.bytes), "a packed constant"));
  made->bytes.dtype = DType::kUint8;
  made->bytes.dims = {static_cast<int64_t>(spec.bytes)};
  made->bytes.data = block.data;
  made->bytes.owner = std::move(block.owner);
  RETURN_IF_ERROR(spec.pack(constant, {static_cast<std::byte*>(made->bytes.data), spec.bytes}));
  const std::lock_guard lock(mutex_);
  if (auto block = find_locked(k, constant, spec)) return block;
  blocks_.emplace(k, made);
  return std::shared_ptr<const PackedBlock>(made);
}

}  // namespace forethought
