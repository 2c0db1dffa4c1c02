// Reductions of a contiguous tensor over any set of axes: ONNX ReduceSum, ReduceMean, ReduceMax, ReduceMin.
#pragma once

#include <cstdint>
#include <span>

#include "absl/container/inlined_vector.h"
#include "base/cpu.h"
#include "base/dtype.h"

namespace forethought::kernels {

enum class ReduceKind : uint8_t { sum, mean, max, min };

// A shape and a set of axes after neighbouring axes of one kind became one. Either the innermost axis is reduced
// (inner 1, `row` contiguous elements make part of one result) or it is kept (row 1, `inner` results lie side by side).
struct Reduction {
  struct Axis {
    int64_t size, stride;
  };
  absl::InlinedVector<Axis, 4> kept, reduced;  // outermost first, without the innermost group where it is row or inner
  int64_t row = 1, inner = 1;
  int64_t outputs = 1;  // number of results
  int64_t count = 1;    // number of elements that make one result; 0 gives the identity
};

// `axes_mask[i]` tells whether axis i is reduced. The product of dims fits int64 (callers have checked it).
Reduction make_reduction(std::span<const int64_t> dims, std::span<const bool> axes_mask);

// Sums and means: f32, f64, f16, bf16, i32, i64, u32, u64. Max and min: these, i8, u8 and bool.
TypeSet reduce_types(ReduceKind kind);

// Computes results [begin, end) in row-major order into out[begin … end); each costs `count` elements. Float sums are
// taken in double and rounded once; integer sums wrap and integer means truncate; NaN wins in max and min. Without
// elements: sum 0, mean NaN (integers 0), max and min the lowest and highest value (infinities of floats).
void reduce(Isa isa, ReduceKind kind, DType dtype, const Reduction& r, const void* in, void* out, int64_t begin,
            int64_t end);

}  // namespace forethought::kernels
