// C = A·B in f32: register tiles of 12 × 32 (AVX-512) or 6 × 16 (AVX2), the accumulators never leave registers.
#include "kernels/gemm/sgemm.h"

#include <algorithm>

#include "kernels/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm/sgemm.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace forethought::kernels {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR
namespace hn = hwy::HWY_NAMESPACE;

constexpr int kTileRows = HWY_TARGET == HWY_AVX3 ? 12 : 6;

struct TileArgs {
  const float* a;
  int64_t a_row, a_col;
  const float* b;
  int64_t b_step, k;
  float* c;
  int64_t c_stride, cols;
  bool accumulate;
};

template <int kRows>
HWY_NOINLINE void tile(const TileArgs& t) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  V acc[kRows][2];
  const bool whole = t.cols == 2 * lanes;
  HWY_ALIGN float edge[kRows * 2 * HWY_MAX_BYTES / sizeof(float)];
  float* c = t.c;
  int64_t c_stride = t.c_stride;
  if (!whole) {
    c = edge;
    c_stride = 2 * lanes;
    if (t.accumulate) {
      for (int r = 0; r < kRows; ++r) {
        for (int64_t j = 0; j < t.cols; ++j) edge[r * c_stride + j] = t.c[r * t.c_stride + j];
        for (int64_t j = t.cols; j < c_stride; ++j) edge[r * c_stride + j] = 0;
      }
    }
  }
  HWY_UNROLL(12)
  for (int r = 0; r < kRows; ++r) {
    if (t.accumulate) {
      acc[r][0] = hn::LoadU(d, c + r * c_stride);
      acc[r][1] = hn::LoadU(d, c + r * c_stride + lanes);
    } else {
      acc[r][0] = acc[r][1] = hn::Zero(d);
    }
  }
  const float* b = t.b;
  const float* a = t.a;
  for (int64_t p = 0; p < t.k; ++p) {
    const V b0 = hn::LoadU(d, b), b1 = hn::LoadU(d, b + lanes);
    HWY_UNROLL(12)
    for (int r = 0; r < kRows; ++r) {
      const V av = hn::Set(d, a[r * t.a_row]);
      acc[r][0] = hn::MulAdd(av, b0, acc[r][0]);
      acc[r][1] = hn::MulAdd(av, b1, acc[r][1]);
    }
    b += t.b_step;
    a += t.a_col;
  }
  HWY_UNROLL(12)
  for (int r = 0; r < kRows; ++r) {
    hn::StoreU(acc[r][0], d, c + r * c_stride);
    hn::StoreU(acc[r][1], d, c + r * c_stride + lanes);
  }
  if (!whole)
    for (int r = 0; r < kRows; ++r)
      for (int64_t j = 0; j < t.cols; ++j) t.c[r * t.c_stride + j] = edge[r * c_stride + j];
}

template <int kRows>
void tile_of(int64_t rows, const TileArgs& t) {
  if (rows == kRows) return tile<kRows>(t);
  if constexpr (kRows > 1) tile_of<kRows - 1>(rows, t);
}

// Rows of B per pass: a panel of them stays in the second-level cache beside the rows of A that meet it.
constexpr int64_t kDepth = 1024;

void sgemm_impl(Matrix<float> a, SgemmB b, int64_t n, int64_t k, float* c, int64_t c_stride, int64_t row_begin,
                int64_t row_end, int64_t panel_begin, int64_t panel_end, bool accumulate) {
  const int64_t width = 2 * static_cast<int64_t>(hn::Lanes(hn::ScalableTag<float>()));
  for (int64_t k0 = 0; k0 == 0 || k0 < k; k0 += kDepth) {
    const int64_t depth = std::min(kDepth, k - k0);
    for (int64_t panel = panel_begin; panel < panel_end; ++panel) {
      for (int64_t row = row_begin; row < row_end; row += kTileRows) {
        const TileArgs t{a.data + row * a.row_stride + k0 * a.col_stride,
                         a.row_stride,
                         a.col_stride,
                         b.data + panel * b.panel_step + k0 * b.k_step,
                         b.k_step,
                         depth,
                         c + row * c_stride + panel * width,
                         c_stride,
                         std::min(width, n - panel * width),
                         accumulate || k0 > 0};
        tile_of<kTileRows>(std::min<int64_t>(kTileRows, row_end - row), t);
      }
    }
  }
}

#endif
}  // namespace HWY_NAMESPACE
}  // namespace forethought::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace forethought::kernels {

void sgemm(Isa isa, Matrix<float> a, SgemmB b, int64_t n, int64_t k, float* c, int64_t c_stride, int64_t row_begin,
           int64_t row_end, int64_t panel_begin, int64_t panel_end, bool accumulate) {
  FT_SIMD(isa, sgemm_impl)(a, b, n, k, c, c_stride, row_begin, row_end, panel_begin, panel_end, accumulate);
}

template <typename T>
void sgemm_pack(Isa isa, Matrix<T> b, int64_t k, int64_t n, float* packed, int64_t begin, int64_t end) {
  const int64_t width = sgemm_panel(isa);
  // Tiles of 16 rows keep both sides in cache when B is stored by columns.
  constexpr int64_t kRows = 16;
  for (int64_t panel = begin; panel < end; ++panel) {
    float* out = packed + panel * width * k;
    const int64_t cols = std::min(width, n - panel * width);
    const int64_t first = panel * width * b.col_stride;
    for (int64_t p0 = 0; p0 < k; p0 += kRows) {
      const int64_t p1 = std::min(k, p0 + kRows);
      if (b.col_stride == 1) {
        for (int64_t p = p0; p < p1; ++p) {
          for (int64_t j = 0; j < cols; ++j)
            out[p * width + j] = static_cast<float>(load_any(b.data, first + p * b.row_stride + j));
        }
      } else {
        for (int64_t j = 0; j < cols; ++j) {
          for (int64_t p = p0; p < p1; ++p)
            out[p * width + j] = static_cast<float>(load_any(b.data, first + p * b.row_stride + j * b.col_stride));
        }
      }
      for (int64_t p = p0; p < p1; ++p) std::fill(out + p * width + cols, out + (p + 1) * width, 0.0f);
    }
  }
}
template void sgemm_pack<float>(Isa, Matrix<float>, int64_t, int64_t, float*, int64_t, int64_t);
template void sgemm_pack<Float16>(Isa, Matrix<Float16>, int64_t, int64_t, float*, int64_t, int64_t);
template void sgemm_pack<BFloat16>(Isa, Matrix<BFloat16>, int64_t, int64_t, float*, int64_t, int64_t);

}  // namespace forethought::kernels
#endif
