// Convolutions on blocked channels: register tiles of up to 14 outputs of a row by two blocks of channels (AVX-512), or
// 6 by two (AVX2). The accumulators never leave registers.
#include "kernels/conv/blocked_conv.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "hwy/cache_control.h"
#include "kernels/gemm/sgemm.h"
#include "kernels/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv/blocked_conv.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace forethought::kernels {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR
namespace hn = hwy::HWY_NAMESPACE;

constexpr int kBlock = HWY_TARGET == HWY_AVX3 ? 16 : 8;  // floats of a vector, channels of a block
// Accumulators, two vectors of weights and a broadcast fill the 32 or 16 registers.
constexpr int kDenseTile = HWY_TARGET == HWY_AVX3 ? 14 : 6;
constexpr int kDepthwiseTile = HWY_TARGET == HWY_AVX3 ? 12 : 8;
constexpr int64_t kFinishTiles = 8;  // outputs that are still in the first-level cache when the activation follows

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// A row of outputs, of one or two blocks of channels.
struct Row {
  const BlockedConv& s;
  const float* src;
  int64_t in_blocks;  // 1 for depthwise
  const float* w;
  int64_t w_step;  // from one output block to the next
  const float* bias;
  float* dst;
  int64_t dst_step;
  int64_t row;
  bool accumulate;
  const Epilogue* clamp;  // null; or relu or clip, applied before the store
};

// Comparisons are false for NaN, which passes through.
HWY_INLINE V clamped(V v, V low, V high) {
  const V r = hn::IfThenElse(hn::Lt(v, low), low, v);
  return hn::IfThenElse(hn::Gt(r, high), high, r);
}

template <int kCols, int kBlocks>
HWY_INLINE void store(V (&acc)[kCols][kBlocks], const Row& t, int64_t col) {
  const D d;
  const bool relu = t.clamp && t.clamp->activation == Activation::relu;
  const V low = hn::Set(d, t.clamp && !relu ? t.clamp->alpha : 0.0f);
  const V high = hn::Set(d, t.clamp && !relu ? t.clamp->beta : std::numeric_limits<float>::infinity());
  HWY_UNROLL(2)
  for (int b = 0; b < kBlocks; ++b) {
    float* y = t.dst + b * t.dst_step + col * kBlock;
    HWY_UNROLL(14)
    for (int p = 0; p < kCols; ++p) hn::StoreU(t.clamp ? clamped(acc[p][b], low, high) : acc[p][b], d, y + p * kBlock);
  }
}

HWY_ALIGN constexpr float kOutside[16] = {};

// Where the outputs [col, col + kCols) read tap `j` of an input row, if some of it lies outside.
template <int kCols>
bool gather(const Row& t, const float* in_row, int64_t first, const float* (&x)[kCols]) {
  bool any = false;
  for (int p = 0; p < kCols; ++p) {
    const int64_t c = first + p * t.s.col_stride;
    const bool inside = c >= 0 && c < t.s.cols_in;
    x[p] = inside ? in_row + c * kBlock : kOutside;
    any |= inside;
  }
  return any;
}

// The input rows that an output row reads: taps [begin, end) of the kernel's rows, from input row `first` on.
struct InputRows {
  explicit InputRows(const Row& t) : first(t.row * t.s.row_stride - t.s.pad_top) {
    while (begin < t.s.kernel_rows && first + begin * t.s.row_dilation < 0) ++begin;
    end = begin;
    while (end < t.s.kernel_rows && first + end * t.s.row_dilation < t.s.rows_in) ++end;
  }
  int64_t first, begin = 0, end = 0;
};

// Calls add(x), where x(p) is where output p of the tile reads a tap: column first + p * kStride of an input row, or
// zeros outside it. Three kinds of x, so that the usual ones need few registers.
template <int kCols, int kStride, typename F>
HWY_INLINE void with_columns(const Row& t, const float* in_row, int64_t first, const F& add) {
  const int64_t last = first + (kCols - 1) * kStride;
  if (first >= 0 && last < t.s.cols_in) {
    const float* x = in_row + first * kBlock;
    add([x](int p) { return x + p * kStride * kBlock; });
  } else if (kCols > 2 && first + kStride >= 0 && last - kStride < t.s.cols_in) {  // the ends alone may be outside
    const float* x = in_row + (first + kStride) * kBlock;
    const float* left = first < 0 ? kOutside : x - kStride * kBlock;
    const float* right = last < t.s.cols_in ? x + (kCols - 2) * kStride * kBlock : kOutside;
    add([=](int p) { return p == 0 ? left : p == kCols - 1 ? right : x + (p - 1) * kStride * kBlock; });
  } else {
    const float* x[kCols];
    if (gather(t, in_row, first, x)) add([&x](int p) { return x[p]; });
  }
}

// acc += what one tap of one input block adds.
template <int kCols, int kBlocks, typename X>
HWY_INLINE void add_tap(V (&acc)[kCols][kBlocks], const X& x, const float* w, int64_t w_step) {
  const D d;
  for (int i = 0; i < kBlock; ++i) {
    const V w0 = hn::LoadU(d, w + i * kBlock), w1 = hn::LoadU(d, w + (kBlocks - 1) * w_step + i * kBlock);
    HWY_UNROLL(14)
    for (int p = 0; p < kCols; ++p) {
      const V v = hn::Set(d, x(p)[i]);
      acc[p][0] = hn::MulAdd(v, w0, acc[p][0]);
      if constexpr (kBlocks == 2) acc[p][1] = hn::MulAdd(v, w1, acc[p][1]);
    }
  }
}

template <int kCols, typename X>
HWY_INLINE void add_depthwise_tap(V (&acc)[kCols][1], const X& x, V w) {
  const D d;
  HWY_UNROLL(14)
  for (int p = 0; p < kCols; ++p) acc[p][0] = hn::MulAdd(hn::LoadU(d, x(p)), w, acc[p][0]);
}

// kBlocks: 1 or 2 blocks of output channels. kStride: of the columns.
template <int kCols, int kBlocks, int kStride>
HWY_NOINLINE void dense_tile(const Row& t, int64_t col) {
  const D d;
  V acc[kCols][kBlocks];
  HWY_UNROLL(2)
  for (int b = 0; b < kBlocks; ++b) {
    const V bias = t.bias ? hn::LoadU(d, t.bias + b * kBlock) : hn::Zero(d);
    const float* y = t.dst + b * t.dst_step + col * kBlock;
    HWY_UNROLL(14)
    for (int p = 0; p < kCols; ++p) acc[p][b] = t.accumulate ? hn::Add(bias, hn::LoadU(d, y + p * kBlock)) : bias;
  }
  constexpr int64_t kTap = kBlock * kBlock;
  constexpr int kNear = kBlock * kStride < 16 ? 2 : 1;  // positions that share a cache line
  const int64_t in_row = t.s.cols_in * kBlock, plane = t.s.rows_in * in_row;
  const int64_t taps = t.s.kernel_cols * kTap, w_step = t.w_step;
  const InputRows rows(t);
  const float* src = t.src;
  const float* w_block = t.w;
  if (taps == kTap && t.s.kernel_rows == 1 && t.s.pad_left == 0 && rows.end == 1 &&
      (col + kCols - 1) * kStride < t.s.cols_in) {
    // One tap, all of it inside: the loops over taps would take as long as the eight products of a narrow block.
    const float* x = src + rows.first * in_row + col * kStride * kBlock;
    for (int64_t block = 0; block < t.in_blocks; ++block, x += plane, w_block += kTap) {
      for (int p = 0; p < kCols; p += kNear) hwy::Prefetch(x + plane + p * kStride * kBlock);
      add_tap(
          acc, [x](int p) { return x + p * kStride * kBlock; }, w_block, w_step);
    }
    return store(acc, t, col);
  }
  for (int64_t block = 0; block < t.in_blocks; ++block) {
    for (int64_t i = rows.begin; i < rows.end; ++i) {
      const float* in = src + (rows.first + i * t.s.row_dilation) * in_row;
      const float* w = w_block + i * taps;
      int64_t first = col * kStride - t.s.pad_left;
      if (block + 1 < t.in_blocks) {
        // The next input block lies a whole plane away, where no hardware looks ahead.
        const float* next = in + plane + std::max<int64_t>(first, 0) * kBlock;
        for (int p = 0; p < kCols; p += kNear) hwy::Prefetch(next + p * kStride * kBlock);
      }
      for (int64_t j = 0; j < t.s.kernel_cols; ++j, first += t.s.col_dilation, w += kTap) {
        with_columns<kCols, kStride>(t, in, first, [&](const auto& x) HWY_ATTR { add_tap(acc, x, w, w_step); });
      }
    }
    src += plane;
    w_block += t.s.kernel_rows * taps;
  }
  store(acc, t, col);
}

template <int kCols, int, int kStride>
HWY_NOINLINE void depthwise_tile(const Row& t, int64_t col) {
  const D d;
  V acc[kCols][1];
  const V bias = t.bias ? hn::LoadU(d, t.bias) : hn::Zero(d);
  const float* y = t.dst + col * kBlock;
  HWY_UNROLL(14)
  for (int p = 0; p < kCols; ++p) acc[p][0] = t.accumulate ? hn::Add(bias, hn::LoadU(d, y + p * kBlock)) : bias;
  const InputRows rows(t);
  for (int64_t i = rows.begin; i < rows.end; ++i) {
    const float* in = t.src + (rows.first + i * t.s.row_dilation) * t.s.cols_in * kBlock;
    const float* w = t.w + i * t.s.kernel_cols * kBlock;
    int64_t first = col * kStride - t.s.pad_left;
    for (int64_t j = 0; j < t.s.kernel_cols; ++j, first += t.s.col_dilation, w += kBlock) {
      const V tap = hn::LoadU(d, w);
      with_columns<kCols, kStride>(t, in, first, [&](const auto& x) HWY_ATTR { add_depthwise_tap(acc, x, tap); });
    }
  }
  store(acc, t, col);
}

using Tile = void (*)(const Row&, int64_t);
#define FT_TILES(name, most)                                                               \
  template <int kBlocks, int kStride, size_t... kCols>                                     \
  constexpr std::array<Tile, sizeof...(kCols)> name##s_of(std::index_sequence<kCols...>) { \
    return {&name<static_cast<int>(kCols) + 1, kBlocks, kStride>...};                      \
  }                                                                                        \
  template <int kBlocks>                                                                   \
  const Tile* name##s(int64_t stride) {                                                    \
    static constexpr auto kOne = name##s_of<kBlocks, 1>(std::make_index_sequence<most>()); \
    static constexpr auto kTwo = name##s_of<kBlocks, 2>(std::make_index_sequence<most>()); \
    return stride == 1 ? kOne.data() : kTwo.data();                                        \
  }
FT_TILES(dense_tile, kDenseTile)
FT_TILES(depthwise_tile, kDepthwiseTile)
#undef FT_TILES

// Runs a row in tiles of nearly equal width, the activation not far behind. tiles[n - 1] is for n columns.
void run_row(Isa isa, const Row& t, const Tile* tiles, int64_t most, int64_t blocks, const Epilogue& epilogue) {
  const int64_t cols = t.s.cols_out, count = (cols + most - 1) / most, width = cols / count, wider = cols % count;
  int64_t col = 0, finished = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t n = width + (i < wider);
    tiles[n - 1](t, col);
    col += n;
    if (t.clamp || (i + 1 < count && (i + 1) % kFinishTiles != 0)) continue;
    for (int64_t b = 0; b < blocks; ++b)
      sgemm_finish(isa, {1, 1, {nullptr, 0, 0}, epilogue}, t.dst + b * t.dst_step, 0, 0, 1, finished * kBlock,
                   col * kBlock);
    finished = col;
  }
}

const Epilogue* clamp_of(const Epilogue& e) {
  return e.activation == Activation::relu || e.activation == Activation::clip ? &e : nullptr;
}

void dense_impl(Isa isa, const BlockedConv& s, const float* src, int64_t in_blocks, const float* w, const float* bias,
                float* dst, int64_t out_blocks, bool accumulate, const Epilogue& epilogue) {
  const int64_t w_step = s.kernel_rows * s.kernel_cols * in_blocks * kBlock * kBlock;
  const int64_t dst_step = s.rows_out * s.cols_out * kBlock;
  for (int64_t b = 0; b < out_blocks; b += 2) {
    const int64_t blocks = std::min<int64_t>(2, out_blocks - b);
    const Tile* tiles = blocks == 2 ? dense_tiles<2>(s.col_stride) : dense_tiles<1>(s.col_stride);
    for (int64_t row = 0; row < s.rows_out; ++row)
      run_row(isa,
              {s, src, in_blocks, w + b * w_step, w_step, bias ? bias + b * kBlock : nullptr,
               dst + b * dst_step + row * s.cols_out * kBlock, dst_step, row, accumulate, clamp_of(epilogue)},
              tiles, kDenseTile, blocks, epilogue);
  }
}

void depthwise_impl(Isa isa, const BlockedConv& s, const float* src, const float* w, const float* bias, float* dst,
                    int64_t blocks, bool accumulate, const Epilogue& epilogue) {
  const int64_t src_step = s.rows_in * s.cols_in * kBlock, dst_step = s.rows_out * s.cols_out * kBlock;
  const Tile* tiles = depthwise_tiles<1>(s.col_stride);
  for (int64_t b = 0; b < blocks; ++b) {
    for (int64_t row = 0; row < s.rows_out; ++row)
      run_row(isa,
              {s, src + b * src_step, 1, w + b * s.kernel_rows * s.kernel_cols * kBlock, 0,
               bias ? bias + b * kBlock : nullptr, dst + b * dst_step + row * s.cols_out * kBlock, 0, row, accumulate,
               clamp_of(epilogue)},
              tiles, kDepthwiseTile, 1, epilogue);
  }
}

#endif
}  // namespace HWY_NAMESPACE
}  // namespace forethought::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace forethought::kernels {

bool serves_blocked_conv(Isa isa, int64_t col_stride, Activation activation) {
  return isa != Isa::scalar && (col_stride == 1 || col_stride == 2) && activation != Activation::elu;
}

namespace {
// Where no tap reads a neighbour, the image is one long row.
BlockedConv flattened(const BlockedConv& s) {
  const bool alone = s.kernel_rows == 1 && s.kernel_cols == 1 && s.row_stride == 1 && s.col_stride == 1 &&
                     s.pad_top == 0 && s.pad_left == 0 && s.rows_in == s.rows_out && s.cols_in == s.cols_out;
  if (!alone) return s;
  BlockedConv flat;
  flat.rows_in = flat.rows_out = 1;
  flat.cols_in = flat.cols_out = s.rows_in * s.cols_in;
  return flat;
}
}  // namespace

void blocked_conv(Isa isa, const BlockedConv& shape, const float* src, int64_t in_blocks, const float* w,
                  const float* bias, float* dst, int64_t out_blocks, bool accumulate, const Epilogue& epilogue) {
  FT_SIMD(isa, dense_impl)
  (isa, flattened(shape), src, in_blocks, w, bias, dst, out_blocks, accumulate, epilogue);
}

void blocked_depthwise(Isa isa, const BlockedConv& shape, const float* src, const float* w, const float* bias,
                       float* dst, int64_t blocks, bool accumulate, const Epilogue& epilogue) {
  FT_SIMD(isa, depthwise_impl)(isa, flattened(shape), src, w, bias, dst, blocks, accumulate, epilogue);
}

}  // namespace forethought::kernels
#endif
