// Growth of a slab, in one block or in several.
#include "memory/slab.h"

#include <algorithm>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/string_view.h"

namespace forethought {
namespace {

constexpr absl::string_view kNoBlock = "forethought.no_block";

}  // namespace

bool is_no_block(const Status& status) { return status.GetPayload(kNoBlock).has_value(); }

// One block serves any plan that it has room for; of several the regions must be the same.
bool Slab::serves(int64_t bytes, int64_t region_bytes) const {
  return bytes <= capacity_ && (blocks_.size() <= 1 || block_bytes_ == region_bytes);
}

Status Slab::ensure(int64_t bytes, std::string_view who, int64_t region_bytes) {
  const bool in_use = in_use_;
  if (bytes == asked_ && region_bytes == region_bytes_ && bytes <= capacity()) [[likely]]
    return absl::OkStatus();
  set_in_use(false);
  asked_ = 0;
  if (!serves(bytes, region_bytes)) {
    clear();  // first, so that the two never add up
    RETURN_IF_ERROR(map(bytes, who, region_bytes > 0 && bytes > region_bytes ? region_bytes : 0));
  }
  region_bytes_ = bytes > region_bytes ? region_bytes : 0;
  const size_t regions = region_bytes_ > 0 ? static_cast<size_t>((bytes + region_bytes_ - 1) / region_bytes_) : 1;
  addresses_.assign(regions, nullptr);
  asked_ = bytes;
  for (size_t r = 0; r < regions && !blocks_.empty(); ++r)
    addresses_[r] =
        blocks_.size() > 1 ? blocks_[r].data() : blocks_[0].data() + static_cast<int64_t>(r) * region_bytes_;
  set_in_use(in_use);
  return absl::OkStatus();
}

Status Slab::map(int64_t bytes, std::string_view who, int64_t block_bytes) {
  const int64_t each = block_bytes > 0 ? block_bytes : bytes;
  for (int64_t from = 0; from < bytes; from += each) {
    auto pages = Pages::map(budget_, MemoryRole::planned, std::min(each, bytes - from), who, options_, source_);
    if (!pages.ok()) {
      clear();
      Status status = pages.status();
      if (absl::IsResourceExhausted(status) && !MemoryBudget::refusal_of(status))
        status.SetPayload(kNoBlock, absl::Cord());
      return status;
    }
    const int64_t size = pages->size();
    blocks_.push_back(*std::move(pages));
    capacity_ += size;
  }
  block_bytes_ = block_bytes;
  return absl::OkStatus();
}

void Slab::clear() {
  blocks_.clear();
  addresses_.assign(1, nullptr);
  asked_ = capacity_ = block_bytes_ = region_bytes_ = 0;
}

void Slab::set_in_use(bool in_use) {
  if (in_use == in_use_) return;
  in_use_ = in_use;
  const int64_t padding = Pages::rounded(asked_) - asked_;
  if (in_use) {
    budget_->use(MemoryRole::planned, asked_, padding);
  } else {
    budget_->unuse(MemoryRole::planned, asked_, padding);
  }
}

int64_t Slab::trim() {
  FT_CHECK(!in_use_);
  const int64_t freed = capacity();
  clear();
  return freed;
}

}  // namespace forethought
