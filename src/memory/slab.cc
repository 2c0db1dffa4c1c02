// Growth of a slab.
#include "memory/slab.h"

namespace forethought {

Status Slab::ensure(int64_t bytes, std::string_view who) {
  if (bytes <= capacity()) [[likely]]
    return absl::OkStatus();
  const bool in_use = in_use_;
  set_in_use(false);
  pages_ = Pages();  // first, so that the two never add up
  ASSIGN_OR_RETURN(pages_, Pages::map(budget_, MemoryRole::planned, bytes, who, options_));
  set_in_use(in_use);
  return absl::OkStatus();
}

void Slab::set_in_use(bool in_use) {
  if (in_use == in_use_) return;
  in_use_ = in_use;
  if (in_use) {
    budget_->use(MemoryRole::planned, capacity());
  } else {
    budget_->unuse(MemoryRole::planned, capacity());
  }
}

int64_t Slab::trim() {
  FT_CHECK(!in_use_);
  const int64_t freed = capacity();
  pages_ = Pages();
  return freed;
}

}  // namespace forethought
