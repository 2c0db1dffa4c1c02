// ONNX ArgMax, ArgMin and NonZero: where elements stand.
#pragma once

#include <cstdint>
#include <span>

#include "base/cpu.h"
#include "base/dtype.h"

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

}  // namespace forethought::kernels
