#include "session/constants.h"

#include <algorithm>
#include <cstring>

#include "base/hash.h"
#include "memory/system.h"

namespace forethought {
namespace {

bool same_contents(const Tensor& a, const Tensor& b) {
  if (a.dtype != b.dtype || a.bytes() != b.bytes()) return false;
  if (a.data == b.data) return true;
  if (a.dtype == DType::kString) return std::ranges::equal(a.strings(), b.strings());
  return std::memcmp(a.data, b.data, static_cast<size_t>(a.bytes())) == 0;
}

}  // namespace

ConstantStore& ConstantStore::global() {
  static auto* store = new ConstantStore;
  return *store;
}

bool ConstantStore::is_aligned(const Tensor& constant) {
  const size_t width = std::max(1, bit_width(constant.dtype) / 8);
  return constant.dtype == DType::kString ||
         reinterpret_cast<uintptr_t>(constant.data) % std::min<size_t>(width, 8) == 0;
}

uint64_t ConstantStore::key(const Tensor& constant) {
  auto seed = static_cast<uint64_t>(constant.dtype);
  if (constant.dtype != DType::kString) return hash_bytes(constant.data, static_cast<size_t>(constant.bytes()), seed);
  for (const std::string& s : constant.strings()) seed = hash_bytes(s.data(), s.size(), seed);
  return seed;
}

int64_t ConstantStore::padding_of(const Tensor& constant, bool copy) {
  return copy ? counted_block_bytes(constant.bytes()) - constant.bytes() : 0;
}

std::shared_ptr<const SharedConstant> ConstantStore::find(uint64_t key, const Tensor& constant) const {
  return constants_.find(key, [&](const SharedConstant& known) { return same_contents(known.tensor, constant); });
}

StatusOr<std::shared_ptr<const SharedConstant>> ConstantStore::get(uint64_t key, const Tensor& constant, bool copy,
                                                                   std::string_view who) {
  if (auto known = find(key, constant)) return known;
  auto made = std::make_unique<SharedConstant>();
  made->tensor = constant;
  made->padding = padding_of(constant, copy);
  const std::shared_ptr<MemoryBudget>& process = MemoryBudget::process();
  if (copy) {
    ASSIGN_OR_RETURN(CountedBlock block, counted_block(process, MemoryRole::weights, constant.bytes(), who));
    std::memcpy(block.data, constant.data, static_cast<size_t>(constant.bytes()));
    made->tensor.data = block.data;
    made->tensor.owner = std::move(block.owner);
  } else {
    ASSIGN_OR_RETURN(made->tensor.owner,
                     adopt_block(process, MemoryRole::weights, constant.owner, constant.bytes(), who));
  }
  return constants_.put(key, std::move(made),
                        [&](const SharedConstant& other) { return same_contents(other.tensor, constant); });
}

}  // namespace forethought
