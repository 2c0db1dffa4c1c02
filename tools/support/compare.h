// ONNX's rule for comparing a result with what was expected.
#pragma once

#include "tensor/value.h"

namespace forethought {

struct Tolerance {
  double rtol = 1e-3, atol = 1e-7;  // |got − expected| ≤ atol + rtol·|expected|, element by element
  double mean = -1;                 // if not negative: the mean absolute difference instead
};

// Ok if equal by the rule: same kind, shape and element type; strings and integers exactly; NaN equal to NaN,
// infinities in the same places. Else a sentence that says where the first or worst difference is.
Status compare(const Value& got, const Value& expected, const Tolerance& tolerance);

}  // namespace forethought
