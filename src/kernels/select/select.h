// ONNX ArgMax, ArgMin, NonZero, Compress, TopK, Unique and NonMaxSuppression: where elements stand, and which are
// taken.
#pragma once

#include <cstdint>
#include <span>

#include "base/cpu.h"
#include "base/dtype.h"
#include "kernels/movement/element.h"

namespace forethought::kernels {

enum class ArgKind : uint8_t { max, min };

// A contiguous tensor seen as [outer, n, inner] with n ≥ 1: for lines [begin, end) of outer × inner the index along n
// of the extreme; the first of several, or the last if last_index. A NaN is more extreme than any number. dtype is one
// of kNumbers.
void arg_extreme(Isa isa, ArgKind kind, bool last_index, DType dtype, const void* in, int64_t* out, int64_t n,
                 int64_t inner, int64_t begin, int64_t end);

// How many of elements [begin, end) are not zero (strings: not empty; −0 is zero, NaN is not). dtype is one of kPlain.
int64_t count_nonzero(DType dtype, const void* in, int64_t begin, int64_t end);
// Writes the coordinates of the nonzero ones of elements [begin, end), counted from the flat index, as columns from
// `column` on into out, which has dims.size() rows of `columns` entries.
void write_nonzero(DType dtype, const void* in, std::span<const int64_t> dims, int64_t begin, int64_t end, int64_t* out,
                   int64_t columns, int64_t column);

// A tensor seen as [outer, n, inner]: rows [begin, end) of the outer × picked.size() rows of `inner` elements whose
// place along n is listed in `picked`, one after the other.
void take_picked(Element element, const void* in, int64_t n, int64_t inner, std::span<const int64_t> picked, void* out,
                 int64_t begin, int64_t end);

// A place among others that are to be sorted; `key` orders as the element does.
struct Ranked {
  uint64_t key;
  int64_t index;
};

// A contiguous tensor seen as [outer, n, inner]: for lines [begin, end) of outer × inner the k largest (or smallest)
// elements along n and their indices, best first; of equal elements the one with the lower index is better. NaN is
// larger than any number. dtype is one of kNumbers; 0 ≤ k ≤ n; `room` has n entries.
void top_k(DType dtype, bool largest, const void* in, int64_t n, int64_t inner, int64_t k, void* values,
           int64_t* indices, int64_t begin, int64_t end, std::span<Ranked> room);

// A contiguous tensor seen as [outer, n, inner] and its n slices along the middle. Returns how many of them differ
// (NaNs are equal to each other, so are both zeroes) and fills, for the g-th of these, in ascending order or (not
// `sorted`) in that of their first occurrence, found[g] = {how many times it is there, where first}, and for each slice
// i its place[i] = g. dtype is one of kPlain; `found`, `place` and `room` have n entries.
int64_t find_unique(DType dtype, const void* in, int64_t outer, int64_t n, int64_t inner, bool sorted,
                    std::span<Ranked> found, int64_t* place, int64_t* room);

// The rules of one NonMaxSuppression.
struct Suppression {
  bool centered = false;  // boxes are [x, y, width, height] around their centre, else two opposite corners
  int64_t most = 0;       // boxes that are selected at most
  float overlap = 0;      // intersection over union above which the worse box goes
  bool has_threshold = false;
  float threshold = 0;  // scores up to it are left out, if has_threshold
};
// Selects of n boxes of four floats each by their scores, best first; of equal scores the lower index is better. Writes
// at most min(s.most, n) indices and returns their number. `room` has n entries.
int64_t suppress(const Suppression& s, const float* boxes, const float* scores, int64_t n, std::span<Ranked> room,
                 int64_t* selected);

}  // namespace forethought::kernels
