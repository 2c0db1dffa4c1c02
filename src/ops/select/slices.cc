#include "ops/select/slices.h"

#include <algorithm>

#include "kernels/select/select.h"

namespace forethought {

StatusOr<Slices> slices_of(const Arg& x, std::optional<int64_t> axis) {
  Slices s;
  s.n = x.elements;
  if (!axis) return s;
  const int64_t at = *axis < 0 ? *axis + x.rank : *axis;
  if (at < 0 || at >= x.rank) return invalid(absl::StrCat("axis ", *axis, " is outside a tensor of rank ", x.rank));
  s.axis = static_cast<int>(at);
  s.n = x.dim(*s.axis);
  for (int i = 0; i < x.rank; ++i)
    if (i != *s.axis) (i < *s.axis ? s.outer : s.inner) *= x.dim(i);
  return s;
}

Status take_slices(RunCtx& c, int slot, const Arg& x, const Slices& s, std::span<const int64_t> picked) {
  constexpr int64_t kGrain = 64 * 1024;  // elements worth a block
  const auto count = static_cast<int64_t>(picked.size());
  Dims dims = {count};
  if (s.axis) {
    dims.assign(x.dims().begin(), x.dims().end());
    dims[static_cast<size_t>(*s.axis)] = count;
  }
  ASSIGN_OR_RETURN(void* out, c.host->output(slot, dims));
  if (s.inner == 0) return absl::OkStatus();
  parallel_ranges(c, s.outer * count, std::max<int64_t>(1, kGrain / s.inner), [&](int64_t begin, int64_t end, int) {
    kernels::take_picked(kernels::element_of(x.dtype), x.data, s.n, s.inner, picked, out, begin, end);
  });
  return absl::OkStatus();
}

}  // namespace forethought
