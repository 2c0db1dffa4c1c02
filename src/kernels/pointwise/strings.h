// Pointwise operators on strings: casts both ways, Equal and Where.
#pragma once

#include <cstdint>
#include <string>

#include "base/dtype.h"
#include "base/status.h"
#include "kernels/pointwise/broadcast.h"

namespace forethought::kernels {

// Numbers and bool to text, elements [begin, end). Floats in the shortest form that reads back as the same value of
// their type, positional from 1e-4 to below 1e16, else scientific ("1.0", "1e-05"), and "NaN", "INF", "-INF"; bool is
// "True" or "False".
Status cast_to_string(DType from, const void* in, std::string* out, int64_t begin, int64_t end);

// Text to numbers and bool, elements [begin, end). Blanks around the number are ignored. Floats: decimal or scientific,
// inf and nan in any case; too large is infinity. Integers: decimal, must fit. bool: true, false, 1 or 0.
Status cast_from_string(DType to, const std::string* in, void* out, int64_t begin, int64_t end);

// Elements [begin, end) of bytes of bool.
void equal_strings(const Broadcast& shape, const std::string* a, const std::string* b, uint8_t* out, int64_t begin,
                   int64_t end);

// Operands of `shape`: condition, a, b. `out` is none of the operands.
void where_strings(const Broadcast& shape, const uint8_t* condition, const std::string* a, const std::string* b,
                   std::string* out, int64_t begin, int64_t end);

}  // namespace forethought::kernels
