// ONNX Softmax and LogSoftmax over one axis: e^(x − max) / Σ e^(x − max), and (x − max) − ln Σ e^(x − max).
#include "kernels/softmax/softmax.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <type_traits>

#include "base/status.h"
#include "kernels/convert/half_tile.h"
#include "kernels/reduce/rows.h"
#include "kernels/softmax/exp_rows.h"

namespace forethought::kernels {
namespace {

constexpr int64_t kColumns = 256;  // lines that are normalised side by side when the axis is strided
constexpr int64_t kSumBlock = 64;  // rows that are summed in float before the sum goes on in double
constexpr float kLowest = -std::numeric_limits<float>::infinity();

// A stretch of a row as floats: in place, or widened into `tile`.
const float* load(Isa, const float* in, float*, int64_t) { return in; }
template <typename Half>
const float* load(Isa isa, const Half* in, float* tile, int64_t n) {
  widen(isa, in, tile, n);
  return tile;
}

// Σ x in double. Beside the 1 of the greatest element, a float sum would lose what makes up the logarithm of a row that
// is nearly all in one element.
double precise_sum(const float* x, int64_t n) {
  constexpr int64_t kSums = 8;
  double sums[kSums] = {};
  int64_t i = 0;
  for (; i + kSums <= n; i += kSums)
    for (int64_t k = 0; k < kSums; ++k) sums[k] += x[i + k];
  for (; i < n; ++i) sums[i % kSums] += x[i];
  return std::accumulate(sums, sums + kSums, 0.0);
}

// One contiguous line; softmax of floats is rows_softmax().
template <typename T>
void line(Isa isa, SoftmaxKind kind, const T* in, T* out, int64_t n) {
  constexpr bool kFloat = std::is_same_v<T, float>;
  float tile[kHalfTile], exps[kHalfTile];
  const auto tiles = [&](const auto& f) {
    for (int64_t i = 0; i < n; i += kHalfTile) f(i, std::min(kHalfTile, n - i));
  };
  float max = kLowest;
  tiles([&](int64_t i, int64_t m) { max = row_max(isa, load(isa, in + i, tile, m), m, max); });
  double sum = 0;
  tiles([&](int64_t i, int64_t m) {
    const double rounded = row_exp(isa, load(isa, in + i, tile, m), exps, m, max);
    sum += kind == SoftmaxKind::softmax ? rounded : precise_sum(exps, m);
  });
  const float factor = static_cast<float>(1 / sum), log_sum = static_cast<float>(std::log(sum));
  tiles([&](int64_t i, int64_t m) {
    const float* x = load(isa, in + i, tile, m);
    if constexpr (kFloat) {
      row_subtract(isa, x, out + i, m, max, log_sum);
    } else {
      if (kind == SoftmaxKind::softmax) {
        row_exp(isa, x, exps, m, max);
        row_scale(isa, exps, exps, m, factor);
      } else {
        row_subtract(isa, x, exps, m, max, log_sum);
      }
      narrow(isa, exps, out + i, m);
    }
  });
}

// `cols` lines side by side, whose elements lie `stride` apart.
template <typename T>
void lines(Isa isa, SoftmaxKind kind, const T* in, T* out, int64_t n, int64_t stride, int64_t cols) {
  constexpr bool kFloat = std::is_same_v<T, float>;
  float tile[kColumns], exps[kColumns], max[kColumns], sum[kColumns], scale[kColumns];
  double total[kColumns];
  std::fill_n(max, cols, kLowest);
  std::fill_n(sum, cols, 0.0f);
  std::fill_n(total, cols, 0.0);
  if constexpr (kFloat) {
    cols_max(isa, in, stride, n, cols, max);
  } else {
    for (int64_t r = 0; r < n; ++r) cols_max(isa, load(isa, in + r * stride, tile, cols), cols, 1, cols, max);
  }
  const bool keep = kFloat && kind == SoftmaxKind::softmax;                // the exponentials wait in the output
  const int64_t sum_block = kind == SoftmaxKind::softmax ? kSumBlock : 1;  // see precise_sum()
  for (int64_t r = 0; r < n; ++r) {
    float* e = exps;
    if constexpr (kFloat) e = keep ? out + r * stride : exps;
    cols_exp(isa, load(isa, in + r * stride, tile, cols), e, cols, max, sum);
    if (r % sum_block == sum_block - 1 || r == n - 1) {
      for (int64_t c = 0; c < cols; ++c) total[c] += sum[c];
      std::fill_n(sum, cols, 0.0f);
    }
  }
  for (int64_t c = 0; c < cols; ++c)
    scale[c] = static_cast<float>(kind == SoftmaxKind::softmax ? 1 / total[c] : std::log(total[c]));
  for (int64_t r = 0; r < n; ++r) {
    T* y = out + r * stride;
    if constexpr (kFloat) {
      if (keep) {
        cols_scale(isa, y, y, cols, scale);
      } else {
        cols_subtract(isa, in + r * stride, y, cols, max, scale);
      }
    } else {
      const float* x = load(isa, in + r * stride, tile, cols);
      if (kind == SoftmaxKind::softmax) {
        cols_exp(isa, x, exps, cols, max, sum);
        cols_scale(isa, exps, exps, cols, scale);
      } else {
        cols_subtract(isa, x, exps, cols, max, scale);
      }
      narrow(isa, exps, y, cols);
    }
  }
}

void line_f64(SoftmaxKind kind, const double* in, double* out, int64_t n, int64_t stride) {
  double max = -std::numeric_limits<double>::infinity();
  for (int64_t i = 0; i < n; ++i) {
    const double x = in[i * stride];
    if (x > max || x != x) max = x;
  }
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += std::exp(in[i * stride] - max);
  const double log_sum = std::log(sum);
  for (int64_t i = 0; i < n; ++i) {
    const double x = in[i * stride] - max;
    out[i * stride] = kind == SoftmaxKind::softmax ? std::exp(x) / sum : x - log_sum;
  }
}

}  // namespace

void softmax(Isa isa, SoftmaxKind kind, DType dtype, const void* in, void* out, int64_t n, int64_t inner, int64_t begin,
             int64_t end) {
  if (n == 0) return;
  const bool done = dispatch(dtype, FloatTypes{}, [&]<typename T>() {
    const T* x = static_cast<const T*>(in);
    T* y = static_cast<T*>(out);
    for (int64_t l = begin; l < end;) {
      const int64_t column = l % inner, at = l / inner * n * inner + column;
      int64_t cols = 1;
      if constexpr (std::is_same_v<T, double>) {
        line_f64(kind, x + at, y + at, n, inner);
      } else if (inner == 1) {
        if constexpr (std::is_same_v<T, float>) {
          if (kind == SoftmaxKind::softmax) return rows_softmax(isa, x + at, y + at, end - begin, n);
        }
        line(isa, kind, x + at, y + at, n);
      } else {
        cols = std::min({kColumns, inner - column, end - l});
        lines(isa, kind, x + at, y + at, n, inner, cols);
      }
      l += cols;
    }
  });
  FT_CHECK(done);
}

}  // namespace forethought::kernels
