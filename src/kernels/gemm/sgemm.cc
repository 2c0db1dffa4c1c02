// C = A·B in f32: register tiles of 12 × 32 (AVX-512) or 6 × 16 (AVX2), the accumulators never leave registers.
#include "kernels/gemm/sgemm.h"

#include <algorithm>
#include <type_traits>

#include "kernels/movement/transpose_2d.h"
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
// The same where rows of A are copied beside each other first, to the stack.
constexpr int64_t kCopiedDepth = 512;

// Rows a multiple of 2 KiB apart fall into the same few sets of the first-level cache and push each other out.
bool rows_collide(const Matrix<float>& a, int64_t rows) {
  return a.col_stride == 1 && rows > 2 && a.row_stride > 0 &&
         a.row_stride * static_cast<int64_t>(sizeof(float)) % 2048 == 0;
}

void sgemm_impl(Matrix<float> a, SgemmB b, int64_t n, int64_t k, float* c, int64_t c_stride, int64_t row_begin,
                int64_t row_end, int64_t panel_begin, int64_t panel_end, bool accumulate) {
  const int64_t width = 2 * static_cast<int64_t>(hn::Lanes(hn::ScalableTag<float>()));
  const auto run_tile = [&](const Matrix<float>& rows_of_a, int64_t row, int64_t panel, int64_t k0, int64_t depth) {
    const TileArgs t{rows_of_a.data,
                     rows_of_a.row_stride,
                     rows_of_a.col_stride,
                     b.data + panel * b.panel_step + k0 * b.k_step,
                     b.k_step,
                     depth,
                     c + row * c_stride + panel * width,
                     c_stride,
                     std::min(width, n - panel * width),
                     accumulate || k0 > 0};
    tile_of<kTileRows>(std::min<int64_t>(kTileRows, row_end - row), t);
  };
  if (rows_collide(a, row_end - row_begin) && panel_end - panel_begin > 1) {
    float copy[kTileRows * kCopiedDepth];
    for (int64_t k0 = 0; k0 < k; k0 += kCopiedDepth) {
      const int64_t depth = std::min(kCopiedDepth, k - k0);
      for (int64_t row = row_begin; row < row_end; row += kTileRows) {
        const int64_t rows = std::min<int64_t>(kTileRows, row_end - row);
        for (int64_t r = 0; r < rows; ++r)
          for (int64_t p = 0; p < depth; ++p) copy[p * kTileRows + r] = a.data[(row + r) * a.row_stride + k0 + p];
        for (int64_t panel = panel_begin; panel < panel_end; ++panel)
          run_tile({copy, 1, kTileRows}, row, panel, k0, depth);
      }
    }
    return;
  }
  for (int64_t k0 = 0; k0 == 0 || k0 < k; k0 += kDepth) {
    const int64_t depth = std::min(kDepth, k - k0);
    for (int64_t panel = panel_begin; panel < panel_end; ++panel)
      for (int64_t row = row_begin; row < row_end; row += kTileRows)
        run_tile({a.data + row * a.row_stride + k0 * a.col_stride, a.row_stride, a.col_stride}, row, panel, k0, depth);
  }
}

using DF = hn::ScalableTag<float>;
using VF = hn::Vec<DF>;
#include "kernels/pointwise/simd_functions.inc"

VF sigmoid_f32(VF x) {
  const VF one = hn::Set(DF(), 1.0f);
  return hn::Div(one, hn::Add(one, exp_f32(hn::Neg(x))));
}

template <class D, class V = hn::Vec<D>>
V apply(D d, const Epilogue& e, V v) {
  // Comparisons are false for NaN, which passes through.
  switch (e.activation) {
    case Activation::relu:
      return hn::IfThenElse(hn::Lt(v, hn::Zero(d)), hn::Zero(d), v);
    case Activation::leaky_relu:
      return hn::IfThenElse(hn::Lt(v, hn::Zero(d)), hn::Mul(v, hn::Set(d, e.alpha)), v);
    case Activation::clip: {
      const V low = hn::Set(d, e.alpha), high = hn::Set(d, e.beta);
      const V r = hn::IfThenElse(hn::Lt(v, low), low, v);
      return hn::IfThenElse(hn::Gt(r, high), high, r);
    }
    case Activation::hard_sigmoid: {
      const V r = hn::MulAdd(hn::Set(d, e.alpha), v, hn::Set(d, e.beta)), one = hn::Set(d, 1.0f);
      const V low = hn::IfThenElse(hn::Lt(r, hn::Zero(d)), hn::Zero(d), r);
      return hn::IfThenElse(hn::Gt(low, one), one, low);
    }
    case Activation::hard_swish: {
      const V r = hn::MulAdd(v, hn::Set(d, 1.0f / 6.0f), hn::Set(d, 0.5f)), one = hn::Set(d, 1.0f);
      const V low = hn::IfThenElse(hn::Lt(r, hn::Zero(d)), hn::Zero(d), r);
      return hn::Mul(v, hn::IfThenElse(hn::Gt(low, one), one, low));
    }
    case Activation::sigmoid:
      return sigmoid_f32(v);
    case Activation::tanh:
      return tanh_f32(v);
    case Activation::swish: {
      // Far below zero 1 + e^-v is infinite and the quotient 0, as it should be.
      return hn::Div(v, hn::Add(hn::Set(d, 1.0f), exp_f32(hn::Neg(v))));
    }
    case Activation::gelu: {
      const V half = hn::Mul(v, hn::Set(d, 0.5f));
      return hn::MulAdd(half, erf_f32(hn::Mul(v, hn::Set(d, 0.70710678118654752f))), half);
    }
    default:
      return v;
  }
}

void finish_impl(const Finish& f, float* c, int64_t c_stride, int64_t row_begin, int64_t row_end, int64_t col_begin,
                 int64_t col_end) {
  const hn::ScalableTag<float> d;
  const int64_t step = static_cast<int64_t>(hn::Lanes(d));
  const Matrix<float>& z = f.addend;
  const auto alpha = hn::Set(d, f.alpha), beta = hn::Set(d, f.beta);
  for (int64_t i = row_begin; i < row_end; ++i) {
    float* row = c + i * c_stride;
    const float* zr = z.data ? z.data + i * z.row_stride : nullptr;
    int64_t j = col_begin;
    if (!zr || z.col_stride <= 1) {
      for (; j + step <= col_end; j += step) {
        auto v = hn::Mul(alpha, hn::LoadU(d, row + j));
        if (zr) v = hn::MulAdd(beta, z.col_stride == 1 ? hn::LoadU(d, zr + j) : hn::Set(d, zr[0]), v);
        hn::StoreU(apply(d, f.epilogue, v), d, row + j);
      }
    }
    const int64_t scalar_from = j;
    for (; j < col_end; ++j) {
      row[j] = f.alpha * row[j] + (zr ? f.beta * zr[j * z.col_stride] : 0.0f);
    }
    const Activation a = f.epilogue.activation;
    const bool done = a != Activation::elu;  // by apply()
    const int64_t from = done ? scalar_from : col_begin;
    activate(f.epilogue, row + from, col_end - from);
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

void sgemm_finish(Isa isa, const Finish& f, float* c, int64_t c_stride, int64_t row_begin, int64_t row_end,
                  int64_t col_begin, int64_t col_end) {
  if (!f.changes_anything()) return;
  if (isa != Isa::scalar) return FT_SIMD(isa, finish_impl)(f, c, c_stride, row_begin, row_end, col_begin, col_end);
  const Matrix<float>& z = f.addend;
  for (int64_t i = row_begin; i < row_end; ++i) {
    float* row = c + i * c_stride;
    for (int64_t j = col_begin; j < col_end; ++j)
      row[j] = f.alpha * row[j] + (z.data ? f.beta * z.data[i * z.row_stride + j * z.col_stride] : 0.0f);
    activate(f.epilogue, row + col_begin, col_end - col_begin);
  }
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
    if (std::is_same_v<T, float> && b.row_stride == 1) {
      const auto* columns = reinterpret_cast<const char*>(b.data) + first * static_cast<int64_t>(sizeof(T));
      transpose_2d(isa, Element::w4, columns, b.col_stride, out, width, cols, k);
      for (int64_t p = 0; cols < width && p < k; ++p) std::fill(out + p * width + cols, out + (p + 1) * width, 0.0f);
      continue;
    }
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
