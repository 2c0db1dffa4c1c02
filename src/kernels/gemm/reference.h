// The matrix product C = A·B of strided matrices, in plain code, for every arithmetic type.
#pragma once

#include <cstdint>
#include <cstring>

namespace forethought::kernels {

// Element (i, j) is at data[i * row_stride + j * col_stride].
template <typename T>
struct Matrix {
  const T* data;
  int64_t row_stride, col_stride;
};

// Element i of an array at any alignment, as constants of a file may be.
template <typename T>
T load_any(const T* data, int64_t i) {
  T v;
  std::memcpy(&v, reinterpret_cast<const char*>(data) + i * static_cast<int64_t>(sizeof(T)), sizeof v);
  return v;
}

// Writes rows [begin, end) of the [.., n] product over `k`; c's rows are `c_stride` elements apart. Floats are summed
// in f32 (f64 for double); integers wrap. With k = 0 the result is zero. T: float, double, Float16, BFloat16 and the
// 32- and 64-bit integers; C: T, or float for the half types.
template <typename T, typename C>
void gemm_reference(Matrix<T> a, Matrix<T> b, int64_t n, int64_t k, C* c, int64_t c_stride, int64_t begin, int64_t end);

}  // namespace forethought::kernels
