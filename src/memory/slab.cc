// Growth of a slab.
#include "memory/slab.h"

namespace forethought {

Status Slab::ensure(int64_t bytes, std::string_view who) {
  const bool in_use = in_use_;
  if (bytes == asked_ && bytes <= capacity()) [[likely]]
    return absl::OkStatus();
  set_in_use(false);
  if (bytes > capacity()) {
    asked_ = 0;
    pages_ = Pages();  // first, so that the two never add up
    ASSIGN_OR_RETURN(pages_, Pages::map(budget_, MemoryRole::planned, bytes, who, options_, source_));
  }
  asked_ = bytes;
  set_in_use(in_use);
  return absl::OkStatus();
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
  pages_ = Pages();
  asked_ = 0;
  return freed;
}

}  // namespace forethought
