// How the flattened elements of an output map onto operands that broadcast to it, with as few dimensions as describe
// it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "absl/container/inlined_vector.h"

namespace forethought::kernels {

class Broadcast {
 public:
  enum class Access : uint8_t {
    kContiguous,  // element i of the output reads element i
    kScalar,      // every element reads element 0
    kMixed,
  };

  // For operands whose shapes broadcast (by numpy's rule) to `out`; nullopt if one does not or a size overflows.
  // `strides`: one an operand, elements between neighbours along each of its dims, of any sign; empty: row-major.
  static std::optional<Broadcast> from_shapes(std::span<const int64_t> out,
                                              std::span<const std::span<const int64_t>> operands,
                                              std::span<const std::span<const int64_t>> strides = {});
  // For operands of exactly the output's size.
  static Broadcast same(int64_t size, int operands);

  int64_t size() const { return size_; }
  int rank() const { return static_cast<int>(dims_.size()); }
  int operands() const { return static_cast<int>(access_.size()); }
  int64_t inner() const { return dims_.back(); }
  int64_t dim(int d) const { return dims_[d]; }
  Access access(int operand) const { return access_[operand]; }
  bool flat() const { return flat_; }  // no operand is mixed
  // Elements between neighbours along dimension d; 0 where the operand repeats.
  int64_t stride(int operand, int d) const { return strides_[operand * dims_.size() + d]; }

  // The element of the operand that element i of the output reads; by division, for what is rare.
  int64_t offset_of(int operand, int64_t i) const;

  // Copies elements [begin, begin + n) of the operand as the output sees it to `out`; elements of 1, 2, 4 or 8 bytes.
  void gather(int operand, const void* data, int width, int64_t begin, int64_t n, void* out) const;

 private:
  absl::InlinedVector<int64_t, 6> dims_;      // outermost first, at least one
  absl::InlinedVector<int64_t, 12> strides_;  // [operand][dimension]
  absl::InlinedVector<Access, 4> access_;
  int64_t size_ = 0;
  bool flat_ = true;
};

}  // namespace forethought::kernels
