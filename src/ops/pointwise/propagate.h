// Small integer and float tensors followed through pointwise operators at load: element by element, on symbols.
#pragma once

#include "ops/op.h"

namespace forethought {

// An operation on elements: `ints` on dims, `floats` on numbers. A null function: the operator is not followed there.
struct ElementRule {
  Dim (*ints)(const Dim& a, const Dim& b) = nullptr;
  double (*floats)(double a, double b) = nullptr;
};

// Gives output 0 its elements where those of the inputs are known, folding the rule over inputs [0, inputs) with
// broadcasting (one input: rule(a, a)). `dtype` is the output's: what does not fit becomes unknown, floats are rounded.
void propagate(InferCtx& c, int inputs, DType dtype, const ElementRule& rule);
// where(condition, a, b): unknown where the condition is, unless both are the same.
void propagate_where(InferCtx& c);
void propagate_cast(InferCtx& c, DType to);

// Element rules that several operators name.
Dim truncating_div(const Dim& a, const Dim& b);  // ONNX's integer Div

}  // namespace forethought
