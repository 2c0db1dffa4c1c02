// The matrix product C = A·B in plain code, tile by tile.
#include "kernels/gemm/reference.h"

#include <algorithm>
#include <type_traits>

#include "base/half.h"

namespace forethought::kernels {
namespace {

// Integers are summed unsigned, so that they wrap.
template <typename T>
struct SumOf {
  using type = float;
};
template <>
struct SumOf<double> {
  using type = double;
};
template <typename T>
requires std::is_integral_v<T>
struct SumOf<T> {
  using type = std::make_unsigned_t<T>;
};

constexpr int64_t kRows = 4, kCols = 64;

}  // namespace

template <typename T, typename C>
void gemm_reference(Matrix<T> a, Matrix<T> b, int64_t n, int64_t k, C* c, int64_t c_stride, int64_t begin,
                    int64_t end) {
  using Sum = typename SumOf<T>::type;
  Sum acc[kRows][kCols], line[kCols];
  for (int64_t i0 = begin; i0 < end; i0 += kRows) {
    const int64_t rows = std::min(kRows, end - i0);
    for (int64_t j0 = 0; j0 < n; j0 += kCols) {
      const int64_t cols = std::min(kCols, n - j0);
      for (auto& row : acc) std::fill(row, row + kCols, Sum(0));
      for (int64_t p = 0; p < k; ++p) {
        const T* br = b.data + p * b.row_stride + j0 * b.col_stride;
        if (b.col_stride == 1) {
          for (int64_t j = 0; j < cols; ++j) line[j] = static_cast<Sum>(br[j]);
        } else {
          for (int64_t j = 0; j < cols; ++j) line[j] = static_cast<Sum>(br[j * b.col_stride]);
        }
        for (int64_t i = 0; i < rows; ++i) {
          const Sum av = static_cast<Sum>(a.data[(i0 + i) * a.row_stride + p * a.col_stride]);
          for (int64_t j = 0; j < cols; ++j) acc[i][j] += av * line[j];
        }
      }
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < cols; ++j) c[(i0 + i) * c_stride + j0 + j] = static_cast<C>(acc[i][j]);
    }
  }
}

#define INSTANTIATE(T, C) \
  template void gemm_reference<T, C>(Matrix<T>, Matrix<T>, int64_t, int64_t, C*, int64_t, int64_t, int64_t);
INSTANTIATE(float, float)
INSTANTIATE(double, double)
INSTANTIATE(Float16, Float16)
INSTANTIATE(BFloat16, BFloat16)
INSTANTIATE(Float16, float)
INSTANTIATE(BFloat16, float)
INSTANTIATE(int32_t, int32_t)
INSTANTIATE(int64_t, int64_t)
INSTANTIATE(uint32_t, uint32_t)
INSTANTIATE(uint64_t, uint64_t)
#undef INSTANTIATE

}  // namespace forethought::kernels
