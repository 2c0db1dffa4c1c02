#include "session/packs.h"

#include <cstring>

#include "base/hash.h"

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

StatusOr<std::shared_ptr<const PackedBlock>> PackStore::get(const Tensor& constant, const PackSpec& spec) {
  const uint64_t key = hash_bytes(spec.format.data(), spec.format.size(),
                                  hash_bytes(constant.data, static_cast<size_t>(constant.bytes())));
  auto find = [&]() -> std::shared_ptr<const PackedBlock> {
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
  };
  {
    std::lock_guard lock(mutex_);
    if (auto block = find()) return block;
  }
  // Packed without the lock; if two sessions pack the same constant at once, the second result is dropped.
  auto made = std::make_shared<PackedBlock>();
  made->source = constant;
  made->format = spec.format;
  const int64_t dims[] = {static_cast<int64_t>(spec.bytes)};
  ASSIGN_OR_RETURN(made->bytes, make_tensor(DType::kUint8, dims));
  RETURN_IF_ERROR(spec.pack(constant, {static_cast<std::byte*>(made->bytes.data), spec.bytes}));
  std::lock_guard lock(mutex_);
  if (auto block = find()) return block;
  blocks_.emplace(key, made);
  return std::shared_ptr<const PackedBlock>(made);
}

}  // namespace forethought
