// Collapses broadcast shapes, and copies pieces of an operand as its output sees them.
#include "kernels/pointwise/broadcast.h"

#include <algorithm>
#include <cstring>

#include "base/checked.h"
#include "base/status.h"

namespace forethought::kernels {
namespace {

// Strides of an operand, row-major if it has none of its `own`, along the dimensions of `out`; false if it does not
// broadcast to it.
bool broadcast_strides(std::span<const int64_t> out, std::span<const int64_t> shape, std::span<const int64_t> own,
                       int64_t* strides) {
  if (shape.size() > out.size()) return false;
  const size_t lead = out.size() - shape.size();
  int64_t run = 1;
  for (size_t d = out.size(); d-- > 0;) {
    const int64_t extent = d < lead ? 1 : shape[d - lead];
    if (extent != out[d] && extent != 1) return false;
    strides[d] = extent == 1 ? 0 : own.empty() ? run : own[d - lead];
    run *= extent;
  }
  return true;
}

// n copies of v, sixteen bytes at a time; the last store overlaps the one before it.
template <typename T>
void fill_elements(T* out, T v, int64_t n) {
  constexpr int64_t kStep = 16 / sizeof(T);
  if (n < kStep) {
    for (int64_t i = 0; i < n; ++i) out[i] = v;
    return;
  }
  T pattern[kStep];
  for (T& e : pattern) e = v;
  for (int64_t i = 0; i + kStep <= n; i += kStep) std::memcpy(out + i, pattern, 16);
  std::memcpy(out + n - kStep, pattern, 16);
}

// The same of n elements of `in`: they are few, so a call would cost more.
template <typename T>
void copy_elements(T* out, const T* in, int64_t n) {
  constexpr int64_t kStep = 16 / sizeof(T);
  if (n < kStep) {
    for (int64_t i = 0; i < n; ++i) out[i] = in[i];
    return;
  }
  for (int64_t i = 0; i + kStep <= n; i += kStep) std::memcpy(out + i, in + i, 16);
  std::memcpy(out + n - kStep, in + n - kStep, 16);
}

template <typename T>
void gather_elements(const Broadcast& b, int operand, const T* data, int64_t begin, int64_t n, T* out) {
  const int rank = b.rank();
  absl::InlinedVector<int64_t, 6> at(rank);
  int64_t rest = begin, offset = 0;
  for (int d = rank - 1; d >= 0; --d) {
    at[d] = rest % b.dim(d);
    rest /= b.dim(d);
    offset += at[d] * b.stride(operand, d);
  }
  const int64_t inner = b.inner(), step = b.stride(operand, rank - 1);
  const int64_t row_step = rank > 1 ? b.stride(operand, rank - 2) : 0;
  const auto take = [&](int64_t count) {
    const T* p = data + offset;
    if (step == 0) {
      fill_elements(out, *p, count);
    } else if (step == 1) {
      copy_elements(out, p, count);
    } else {
      for (int64_t i = 0; i < count; ++i) out[i] = p[i * step];
    }
    out += count;
    n -= count;
  };
  while (true) {
    take(std::min(n, inner - at[rank - 1]));
    if (n == 0) return;
    offset -= at[rank - 1] * step;
    at[rank - 1] = 0;
    for (int d = rank - 2; d >= 0; --d) {
      offset += b.stride(operand, d);
      if (++at[d] < b.dim(d)) break;
      offset -= b.dim(d) * b.stride(operand, d);
      at[d] = 0;
    }
    if (rank < 2) continue;
    // Whole rows up to the last one along their dimension.
    const int64_t rows = std::min(n / inner, b.dim(rank - 2) - at[rank - 2]) - 1;
    for (int64_t r = 0; r < rows; ++r, offset += row_step) take(inner);
    at[rank - 2] += std::max<int64_t>(rows, 0);
  }
}
}  // namespace

std::optional<Broadcast> Broadcast::from_shapes(std::span<const int64_t> out,
                                                std::span<const std::span<const int64_t>> operands,
                                                std::span<const std::span<const int64_t>> strides) {
  Broadcast b;
  const std::optional<int64_t> size = checked_product(out);
  if (!size) return std::nullopt;
  const size_t rank = out.size(), count = operands.size();
  if (std::ranges::all_of(operands, [&](const auto& o) { return std::ranges::equal(o, out); }) &&
      std::ranges::all_of(strides, &std::span<const int64_t>::empty))
    return same(*size, static_cast<int>(count));
  absl::InlinedVector<int64_t, 24> full(rank * count);
  for (size_t k = 0; k < count; ++k)
    if (!broadcast_strides(out, operands[k], strides.empty() ? std::span<const int64_t>() : strides[k],
                           full.data() + k * rank))
      return std::nullopt;
  b.size_ = *size;
  if (b.size_ == 0) return same(0, static_cast<int>(count));

  // Keeps a dimension where some operand does not continue from the one before it.
  absl::InlinedVector<size_t, 6> kept;  // the innermost full dimension of each collapsed one
  for (size_t d = 0; d < rank; ++d) {
    if (out[d] == 1) continue;
    bool merge = !kept.empty();
    for (size_t k = 0; merge && k < count; ++k) merge = full[k * rank + kept.back()] == full[k * rank + d] * out[d];
    if (merge) {
      b.dims_.back() *= out[d];
      kept.back() = d;
    } else {
      b.dims_.push_back(out[d]);
      kept.push_back(d);
    }
  }
  const size_t collapsed = b.dims_.size();
  if (collapsed == 0) return same(1, static_cast<int>(count));
  b.strides_.resize(count * collapsed);
  b.access_.resize(count);
  for (size_t k = 0; k < count; ++k) {
    bool scalar = true, contiguous = true;
    int64_t run = 1;
    for (size_t d = collapsed; d-- > 0;) {
      const int64_t stride = full[k * rank + kept[d]];
      b.strides_[k * collapsed + d] = stride;
      scalar = scalar && stride == 0;
      contiguous = contiguous && stride == run;
      run *= b.dims_[d];
    }
    b.access_[k] = scalar ? Access::kScalar : contiguous ? Access::kContiguous : Access::kMixed;
    b.flat_ = b.flat_ && (scalar || contiguous);
  }
  return b;
}

Broadcast Broadcast::same(int64_t size, int operands) {
  Broadcast b;
  b.size_ = size;
  b.dims_.assign(1, size);
  b.strides_.assign(static_cast<size_t>(operands), 1);
  b.access_.assign(static_cast<size_t>(operands), Access::kContiguous);
  return b;
}

int64_t Broadcast::offset_of(int operand, int64_t i) const {
  if (access(operand) == Access::kContiguous) return i;
  int64_t offset = 0;
  for (int d = rank() - 1; d >= 0; --d) {
    offset += i % dims_[d] * stride(operand, d);
    i /= dims_[d];
  }
  return offset;
}

void Broadcast::gather(int operand, const void* data, int width, int64_t begin, int64_t n, void* out) const {
  if (n <= 0) return;
  // An operand that only the last dimensions move repeats with their product: gather once, then copy.
  int64_t period = 1;
  int moving = 0;
  while (moving < rank() && stride(operand, moving) == 0) ++moving;
  for (int d = moving; d < rank(); ++d) period *= dims_[d];
  int64_t fresh = std::min(n, period);
  switch (width) {
    case 1:
      gather_elements(*this, operand, static_cast<const uint8_t*>(data), begin, fresh, static_cast<uint8_t*>(out));
      break;
    case 2:
      gather_elements(*this, operand, static_cast<const uint16_t*>(data), begin, fresh, static_cast<uint16_t*>(out));
      break;
    case 4:
      gather_elements(*this, operand, static_cast<const uint32_t*>(data), begin, fresh, static_cast<uint32_t*>(out));
      break;
    case 8:
      gather_elements(*this, operand, static_cast<const uint64_t*>(data), begin, fresh, static_cast<uint64_t*>(out));
      break;
    default:
      FT_CHECK(false);
  }
  auto* bytes = static_cast<char*>(out);
  while (fresh < n) {
    const int64_t more = std::min(fresh, n - fresh);
    std::memcpy(bytes + fresh * width, bytes, static_cast<size_t>(more * width));
    fresh += more;
  }
}

}  // namespace forethought::kernels
