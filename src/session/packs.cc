#include "session/packs.h"

#include <cstring>
#include <optional>

#include "base/hash.h"
#include "memory/mapped_file.h"
#include "memory/system.h"

namespace forethought {
namespace {

// A pack to compare with.
class Candidate {
 public:
  Candidate(const Tensor& constant, const PackSpec& spec) : bytes_(static_cast<int64_t>(spec.bytes)) {
    data_ = static_cast<std::byte*>(allocate_block(std::max<int64_t>(bytes_, 1)));
    if (!data_) {
      status_ = exhausted("the system has no memory to compare a packed constant with those of other sessions");
      return;
    }
    std::memset(data_, 0, spec.bytes);
    status_ = spec.pack(constant, {data_, spec.bytes});
  }
  Candidate(const Candidate&) = delete;
  Candidate& operator=(const Candidate&) = delete;
  ~Candidate() {
    if (data_) free_block(data_, std::max<int64_t>(bytes_, 1));
  }
  const Status& status() const { return status_; }
  bool equals(const PackedBlock& block) const {
    return bytes_ == 0 || std::memcmp(block.bytes.data, data_, static_cast<size_t>(bytes_)) == 0;
  }

 private:
  const int64_t bytes_;
  std::byte* data_ = nullptr;
  Status status_;
};

bool same_form(const PackedBlock& block, const PackSpec& spec) {
  return block.format == spec.format && block.bytes.elements() == static_cast<int64_t>(spec.bytes);
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

StatusOr<std::shared_ptr<const PackedBlock>> PackStore::find(uint64_t key, const Tensor& constant,
                                                             const PackSpec& spec) {
  const int64_t mapping = mapping_of(constant.data, constant.bytes());
  std::optional<Candidate> candidate;
  auto found = blocks_.find(key, [&](const PackedBlock& block) {
    if (!same_form(block, spec)) return false;
    if (mapping != 0 && block.mapping == mapping && block.source.data == constant.data &&
        block.source.dtype == constant.dtype && block.source.dims == constant.dims)
      return true;
    if (!candidate) candidate.emplace(constant, spec);
    return candidate->status().ok() && candidate->equals(block);
  });
  if (candidate) RETURN_IF_ERROR(candidate->status());
  return found;
}

StatusOr<std::shared_ptr<const PackedBlock>> PackStore::find(const Tensor& constant, const PackSpec& spec) {
  return find(key(constant, spec), constant, spec);
}

StatusOr<std::shared_ptr<const PackedBlock>> PackStore::get(const Tensor& constant, const PackSpec& spec) {
  const uint64_t k = key(constant, spec);
  ASSIGN_OR_RETURN(auto found, find(k, constant, spec));
  if (found) return found;
  auto made = std::make_unique<PackedBlock>();
  made->format = spec.format;
  made->source = constant;
  made->source.owner.reset();
  made->mapping = mapping_of(constant.data, constant.bytes());
  ASSIGN_OR_RETURN(CountedBlock block, counted_block(MemoryBudget::process(), MemoryRole::packed,
                                                     static_cast<int64_t>(spec.bytes), "a packed constant"));
  made->bytes.dtype = DType::kUint8;
  made->bytes.dims = {static_cast<int64_t>(spec.bytes)};
  made->bytes.data = block.data;
  made->bytes.owner = std::move(block.owner);
  RETURN_IF_ERROR(spec.pack(constant, {static_cast<std::byte*>(made->bytes.data), spec.bytes}));
  const Tensor bytes = made->bytes;
  return blocks_.put(k, std::move(made), [&](const PackedBlock& other) {
    return same_form(other, spec) && (spec.bytes == 0 || std::memcmp(other.bytes.data, bytes.data, spec.bytes) == 0);
  });
}

}  // namespace forethought
