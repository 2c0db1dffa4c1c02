// Matrix transpose by tiles: a network of interleaves in registers, plain loops at the rims.
#include "kernels/movement/transpose_2d.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/movement/transpose_2d.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace forethought::kernels {
namespace HWY_NAMESPACE {
// 256-bit registers already move more than the caches take, so the AVX2 code serves AVX-512 as well.
#if HWY_TARGET == HWY_AVX2
namespace hn = hwy::HWY_NAMESPACE;

// log2(N) rounds of interleaving vector i with vector i + N/2 transpose N × N elements in each 128-bit block.
template <int N, int kRound, class D, class V>
HWY_INLINE void interleave_rounds(D d, V* v) {
  if constexpr (kRound < N) {
    V w[N];
#pragma GCC unroll 16
    for (int i = 0; i < N / 2; ++i) {
      w[2 * i] = hn::InterleaveLower(d, v[i], v[i + N / 2]);
      w[2 * i + 1] = hn::InterleaveUpper(d, v[i], v[i + N / 2]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < N; ++i) v[i] = w[i];
    interleave_rounds<N, kRound * 2>(d, v);
  }
}

// The largest tile that registers hold: `tile_rows` × `tile_cols` elements, written as tile_cols full vectors.
template <typename T>
struct Tiles {
  static constexpr int kCols = 16 / sizeof(T);
  using D = hn::FixedTag<T, 32 / sizeof(T)>;
  static constexpr int kRows = 32 / sizeof(T);

  static HWY_INLINE auto load_pair(const T* in, int64_t stride, int r) {
    const hn::FixedTag<T, 16 / sizeof(T)> half;
    return hn::Combine(D(), hn::LoadU(half, in + (r + kCols) * stride), hn::LoadU(half, in + r * stride));
  }

  static HWY_INLINE void tile(const T* in, int64_t in_stride, T* out, int64_t out_stride) {
    const D d;
    hn::Vec<D> v[kCols];
#pragma GCC unroll 16
    for (int i = 0; i < kCols; ++i) v[i] = load_pair(in, in_stride, i);
    interleave_rounds<kCols, 1>(d, v);
#pragma GCC unroll 16
    for (int i = 0; i < kCols; ++i) hn::StoreU(v[i], d, out + i * out_stride);
  }
};

template <typename T>
void tiles(const void* in_bytes, int64_t in_stride, void* out_bytes, int64_t out_stride, int64_t rows, int64_t cols,
           int64_t* done_rows, int64_t* done_cols) {
  const T* in = static_cast<const T*>(in_bytes);
  T* out = static_cast<T*>(out_bytes);
  using Tile = Tiles<T>;
  *done_rows = rows / Tile::kRows * Tile::kRows;
  *done_cols = cols / Tile::kCols * Tile::kCols;
  // Rows of a panel fill whole cache lines of the output before the next lines are begun.
  constexpr int64_t kPanel = std::max<int64_t>(64 / sizeof(T), Tile::kRows);
  for (int64_t r0 = 0; r0 < *done_rows; r0 += kPanel) {
    const int64_t r1 = std::min(r0 + kPanel, *done_rows);
    for (int64_t c = 0; c < *done_cols; c += Tile::kCols)
      for (int64_t r = r0; r < r1; r += Tile::kRows)
        Tile::tile(in + r * in_stride + c, in_stride, out + c * out_stride + r, out_stride);
  }
}

void tiles_of(Element e, const void* in, int64_t in_stride, void* out, int64_t out_stride, int64_t rows, int64_t cols,
              int64_t* done_rows, int64_t* done_cols) {
  switch (e) {
    case Element::w1:
      return tiles<uint8_t>(in, in_stride, out, out_stride, rows, cols, done_rows, done_cols);
    case Element::w2:
      return tiles<uint16_t>(in, in_stride, out, out_stride, rows, cols, done_rows, done_cols);
    case Element::w4:
      return tiles<uint32_t>(in, in_stride, out, out_stride, rows, cols, done_rows, done_cols);
    case Element::w8:
      return tiles<uint64_t>(in, in_stride, out, out_stride, rows, cols, done_rows, done_cols);
    case Element::w16:
    case Element::string:
      *done_rows = *done_cols = 0;
  }
}
#endif
}  // namespace HWY_NAMESPACE
}  // namespace forethought::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace forethought::kernels {
namespace {

// Rows [r0, r1) × columns [c0, c1), in squares that stay in the first-level cache.
template <typename T>
void plain(const void* in, int64_t in_stride, void* out, int64_t out_stride, int64_t r0, int64_t r1, int64_t c0,
           int64_t c1) {
  constexpr int64_t kSquare = 32;
  for (int64_t rb = r0; rb < r1; rb += kSquare)
    for (int64_t cb = c0; cb < c1; cb += kSquare)
      for (int64_t c = cb; c < std::min(cb + kSquare, c1); ++c)
        for (int64_t r = rb; r < std::min(rb + kSquare, r1); ++r)
          copy_element<T>(in, r * in_stride + c, out, c * out_stride + r);
}

}  // namespace

void transpose_2d(Isa isa, Element element, const void* in, int64_t in_stride, void* out, int64_t out_stride,
                  int64_t rows, int64_t cols) {
  int64_t tiled_rows = 0, tiled_cols = 0;
  if (isa != Isa::scalar)
    N_AVX2::tiles_of(element, in, in_stride, out, out_stride, rows, cols, &tiled_rows, &tiled_cols);
  with_element(element, [&]<typename T>() {
    if constexpr (!std::is_same_v<T, std::string>) {
      plain<T>(in, in_stride, out, out_stride, 0, tiled_rows, tiled_cols, cols);
      plain<T>(in, in_stride, out, out_stride, tiled_rows, rows, 0, cols);
    }
  });
}

}  // namespace forethought::kernels
#endif
