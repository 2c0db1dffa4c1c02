// ONNX Softmax and LogSoftmax over one axis: e^(x − max) / Σ e^(x − max), and (x − max) − ln Σ e^(x − max).
#pragma once

#include <cstdint>

#include "base/cpu.h"
#include "base/dtype.h"

namespace forethought::kernels {

enum class SoftmaxKind : uint8_t { softmax, log_softmax };

// A contiguous tensor seen as [outer, n, inner], normalised over n. Works on lines [begin, end) of outer × inner, where
// line l is (l / inner, l % inner). dtype is f32, f64, f16 or bf16; in and out may be the same memory. A line whose
// maximum is infinite or that holds NaN becomes NaN where the formula says so; a line of −inf becomes NaN.
void softmax(Isa isa, SoftmaxKind kind, DType dtype, const void* in, void* out, int64_t n, int64_t inner, int64_t begin,
             int64_t end);

}  // namespace forethought::kernels
