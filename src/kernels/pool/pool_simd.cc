// Pooling in f32 with Highway: blocked channels by vectors of channels; plain planes by rows first, then within the
// row.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/status.h"
#include "kernels/pool/pool.h"
#include "kernels/pool/taps.h"
#include "kernels/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/pool/pool_simd.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace forethought::kernels {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR
namespace hn = hwy::HWY_NAMESPACE;

// The larger of the two, NaN if either is NaN.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V max_nan(D, V a, V b) {
  // Gt is false where b is NaN, so b comes through; a's NaN is kept by the outer choice.
  return hn::IfThenElse(hn::Eq(a, a), hn::IfThenElse(hn::Gt(a, b), a, b), a);
}
HWY_INLINE float max_nan(float a, float b) { return a > b || std::isnan(a) ? a : b; }

constexpr float kLowest = std::numeric_limits<float>::lowest();

// The outer dimensions (all but the last) of one output row: which input rows its taps read, and the divisor so far.
struct OuterTaps {
  absl::InlinedVector<Taps, 3> taps;
  WindowDims k;
  int64_t divisor = 1;
  bool empty = false;

  OuterTaps(const Window& w, const WindowDims& o, bool count_pad) : taps(w.rank()), k(w.rank(), 0) {
    for (int d = 0; d + 1 < w.rank(); ++d) {
      taps[d] = taps_inside(w, d, o[d]);
      k[d] = taps[d].begin;
      empty |= taps[d].count() == 0;
      divisor *= kernels::divisor(w, d, o[d], count_pad);
    }
  }
  int64_t row(const Window& w, const WindowDims& o) const {
    int64_t r = 0;
    for (int d = 0; d + 1 < w.rank(); ++d)
      r = r * w.in[d] + o[d] * w.strides[d] + k[d] * w.dilations[d] - w.pads_begin[d];
    return r;
  }
};

template <typename F>
void for_each_output_row(const Window& w, F&& f) {
  WindowDims o(w.rank(), 0);
  int64_t rows = 1;
  for (int d = 0; d + 1 < w.rank(); ++d) rows *= w.out[d];
  for (int64_t r = 0; r < rows; ++r) {
    f(r, o);
    for (int d = w.rank() - 2; d >= 0; --d) {
      if (++o[d] < w.out[d]) break;
      o[d] = 0;
    }
  }
}

template <bool kMax, int kLanes>
void blocked_planes(const Window& w, bool count_pad, const float* x, float* y, int64_t begin, int64_t end) {
  constexpr int64_t lanes = kLanes;
  const hn::CappedTag<float, kLanes> d;
  const int64_t step = static_cast<int64_t>(hn::Lanes(d));
  const int last = w.rank() - 1;
  const int64_t in = volume(w.in) * lanes, out = volume(w.out) * lanes, width = w.in[last] * lanes;
  for_each_output_row(w, [&](int64_t r, const WindowDims& o) {
    OuterTaps outer(w, o, count_pad);
    for (int64_t ox = 0; ox < w.out[last]; ++ox) {
      const Taps t = taps_inside(w, last, ox);
      const int64_t count = outer.divisor * divisor(w, last, ox, count_pad);
      const int64_t at = (ox * w.strides[last] - w.pads_begin[last]) * lanes, tap = w.dilations[last] * lanes;
      for (int64_t p = begin; p < end; ++p) {
        float* to = y + p * out + (r * w.out[last] + ox) * lanes;
        for (int64_t l = 0; l < lanes; l += step) {
          auto acc = hn::Set(d, kMax ? kLowest : 0.0f);
          bool first = true;
          if (!outer.empty && t.count() > 0) {
            do {
              const float* row = x + p * in + outer.row(w, o) * width + at + l;
              for (int64_t k = t.begin; k < t.end; ++k) {
                const auto v = hn::LoadU(d, row + k * tap);
                if constexpr (kMax) {
                  acc = first ? v : max_nan(d, acc, v);
                  first = false;
                } else {
                  acc = hn::Add(acc, v);
                }
              }
            } while (advance(outer.k, outer.taps, 1));
          }
          if constexpr (!kMax) acc = count == 0 ? hn::Zero(d) : hn::Div(acc, hn::Set(d, static_cast<float>(count)));
          hn::StoreU(acc, d, to + l);
        }
      }
    }
  });
}

// Columns of input that one pass over a plain row holds.
constexpr int64_t kColumns = 1024;

template <bool kMax, class D, class V = hn::Vec<D>>
HWY_INLINE V join(D d, V a, V b) {
  if constexpr (kMax) {
    return max_nan(d, a, b);
  } else {
    return hn::Add(a, b);
  }
}

// Reduces columns [c0, c0 + n) over the rows that the outer taps read. Writes whole vectors into `line`.
template <bool kMax>
void reduce_rows(const Window& w, const WindowDims& o, OuterTaps& outer, const float* plane, int64_t c0, int64_t n,
                 float* line) {
  const hn::ScalableTag<float> d;
  const int64_t step = static_cast<int64_t>(hn::Lanes(d)), width = w.in[w.rank() - 1];
  bool first = true;
  do {
    const float* row = plane + outer.row(w, o) * width + c0;
    int64_t i = 0;
    for (; i + step <= n; i += step) {
      const auto v = hn::LoadU(d, row + i);
      hn::StoreU(first ? v : join<kMax>(d, hn::LoadU(d, line + i), v), d, line + i);
    }
    if (i < n) {
      const auto v = hn::MaskedLoad(hn::FirstN(d, static_cast<size_t>(n - i)), d, row + i);
      hn::StoreU(first ? v : join<kMax>(d, hn::LoadU(d, line + i), v), d, line + i);
    }
    first = false;
  } while (advance(outer.k, outer.taps, 1));
}

// out[i] = out[i] (max or +) line[i * stride] for i of [0, n). `line` may be read 3 vectors beyond its last element.
template <bool kMax>
void reduce_strided(const float* line, int64_t stride, float* out, int64_t n) {
  const hn::ScalableTag<float> d;
  const int64_t step = static_cast<int64_t>(hn::Lanes(d));
  if (stride > 2) {
    for (int64_t i = 0; i < n; ++i) out[i] = kMax ? max_nan(out[i], line[i * stride]) : out[i] + line[i * stride];
    return;
  }
  for (int64_t i = 0; i < n; i += step) {
    auto v = hn::LoadU(d, line + stride * i);
    if (stride == 2) v = hn::ConcatEven(d, hn::LoadU(d, line + 2 * i + step), v);
    if (i + step <= n) {
      hn::StoreU(join<kMax>(d, hn::LoadU(d, out + i), v), d, out + i);
    } else {
      const auto mask = hn::FirstN(d, static_cast<size_t>(n - i));
      hn::BlendedStore(join<kMax>(d, hn::MaskedLoad(mask, d, out + i), v), mask, d, out + i);
    }
  }
}

template <bool kMax>
void plain_planes(const Window& w, bool count_pad, const float* x, float* y, int64_t begin, int64_t end) {
  const int last = w.rank() - 1;
  const int64_t in = volume(w.in), out = volume(w.out), width = w.in[last];
  const int64_t reach = (w.kernel[last] - 1) * w.dilations[last] + 1, stride = w.strides[last];
  // Outputs whose windows fit the line together; a window wider than the line is reduced tap by tap.
  const bool wide = reach > kColumns;
  const int64_t per_pass = wide ? 1 : (kColumns - reach) / stride + 1;
  const float none = kMax ? -std::numeric_limits<float>::infinity() : 0.0f;
  // Room beyond the last column for whole vectors.
  float line[kColumns + 4 * HWY_MAX_BYTES / sizeof(float)] = {};
  // Outputs whose windows lie wholly inside the row.
  Span1 inner = valid_outputs(width - reach + 1, w.out[last], stride, -w.pads_begin[last]);
  inner.end = std::max(inner.begin, inner.end);
  for_each_output_row(w, [&](int64_t r, const WindowDims& o) {
    OuterTaps outer(w, o, count_pad);
    for (int64_t p = begin; p < end; ++p) {
      const float* plane = x + p * in;
      float* to = y + p * out + r * w.out[last];
      std::fill(to, to + w.out[last], none);
      for (int64_t x0 = 0; x0 < w.out[last] && !outer.empty; x0 += per_pass) {
        const int64_t x1 = std::min(w.out[last], x0 + per_pass);
        const int64_t start = x0 * stride - w.pads_begin[last];
        const int64_t c0 = std::clamp<int64_t>(start, 0, width);
        const int64_t c1 = std::clamp<int64_t>((x1 - 1) * stride - w.pads_begin[last] + reach, c0, width);
        if (c1 == c0) continue;
        if (!wide) reduce_rows<kMax>(w, o, outer, plane, c0, c1 - c0, line);
        for (int64_t k = 0; k < w.kernel[last]; ++k) {
          const int64_t offset = k * w.dilations[last] - w.pads_begin[last];
          const Span1 valid = valid_outputs(width, x1, stride, offset);
          const int64_t first = std::max(valid.begin, x0);
          if (first >= valid.end) continue;
          const float* from = line + first * stride + offset - c0;
          if (wide) {
            reduce_rows<kMax>(w, o, outer, plane, first * stride + offset, 1, line);
            from = line;
          }
          reduce_strided<kMax>(from, stride, to + first, valid.end - first);
        }
      }
      if constexpr (kMax) {
        for (int64_t ox = 0; ox < w.out[last]; ++ox)
          if (outer.empty || ((ox < inner.begin || ox >= inner.end) && taps_inside(w, last, ox).count() == 0))
            to[ox] = kLowest;
      } else {
        const auto finish = [&](int64_t ox) {
          const int64_t count = outer.divisor * divisor(w, last, ox, count_pad);
          to[ox] = count == 0 ? 0.0f : to[ox] / static_cast<float>(count);
        };
        const float count = static_cast<float>(outer.divisor * w.kernel[last]);
        for (int64_t ox = 0; ox < inner.begin; ++ox) finish(ox);
        for (int64_t ox = inner.begin; ox < inner.end; ++ox) to[ox] = count == 0 ? 0.0f : to[ox] / count;
        for (int64_t ox = inner.end; ox < w.out[last]; ++ox) finish(ox);
      }
    }
  });
}

template <bool kMax>
void pool_of(const Window& w, bool count_pad, int64_t lanes, const float* x, float* y, int64_t begin, int64_t end) {
  if (lanes == 1) return plain_planes<kMax>(w, count_pad, x, y, begin, end);
  if (lanes == 8) return blocked_planes<kMax, 8>(w, count_pad, x, y, begin, end);
  FT_CHECK(lanes == 16);
  blocked_planes<kMax, 16>(w, count_pad, x, y, begin, end);
}

void pool_impl(PoolKind kind, const Window& w, int64_t lanes, const float* x, float* y, int64_t begin, int64_t end) {
  if (kind == PoolKind::max) return pool_of<true>(w, false, lanes, x, y, begin, end);
  pool_of<false>(w, kind == PoolKind::average_count_pad, lanes, x, y, begin, end);
}

template <bool kMax, int kLanes>
void global_planes(const float* x, float* y, int64_t spatial, int64_t begin, int64_t end) {
  constexpr int64_t lanes = kLanes;
  const hn::CappedTag<float, kLanes> d;
  const int64_t step = static_cast<int64_t>(hn::Lanes(d));
  const float empty = kMax ? kLowest : std::numeric_limits<float>::quiet_NaN();
  // Runs of 128 positions are summed apart, so that the error grows with their number only.
  constexpr int64_t kRun = 128;
  for (int64_t p = begin; p < end; ++p) {
    const float* plane = x + p * spatial * lanes;
    for (int64_t l = 0; l < lanes; l += step) {
      auto total = hn::Set(d, spatial == 0 ? empty : 0.0f);
      for (int64_t s0 = 0; s0 < spatial; s0 += kRun) {
        const int64_t s1 = std::min(spatial, s0 + kRun);
        auto acc = hn::LoadU(d, plane + s0 * lanes + l);
        for (int64_t s = s0 + 1; s < s1; ++s) {
          const auto v = hn::LoadU(d, plane + s * lanes + l);
          if constexpr (kMax) {
            acc = max_nan(d, acc, v);
          } else {
            acc = hn::Add(acc, v);
          }
        }
        if constexpr (kMax) {
          total = s0 == 0 ? acc : max_nan(d, total, acc);
        } else {
          total = hn::Add(total, acc);
        }
      }
      if constexpr (!kMax) total = hn::Div(total, hn::Set(d, static_cast<float>(spatial)));
      hn::StoreU(total, d, y + p * lanes + l);
    }
  }
}

// A plain plane is a row of numbers: vectors run along it, and their lanes are joined at the end.
template <bool kMax>
void global_rows(const float* x, float* y, int64_t spatial, int64_t begin, int64_t end) {
  const hn::ScalableTag<float> d;
  const int64_t step = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t p = begin; p < end; ++p) {
    const float* row = x + p * spatial;
    float acc = kMax ? kLowest : 0.0f;
    bool first = true;
    int64_t i = 0;
    if (spatial >= step) {
      auto v = hn::LoadU(d, row);
      for (i = step; i + step <= spatial; i += step) {
        if constexpr (kMax) {
          v = max_nan(d, v, hn::LoadU(d, row + i));
        } else {
          v = hn::Add(v, hn::LoadU(d, row + i));
        }
      }
      HWY_ALIGN float parts[HWY_MAX_BYTES / sizeof(float)];
      hn::Store(v, d, parts);
      for (int64_t l = 0; l < step; ++l) {
        acc = !kMax ? acc + parts[l] : first ? parts[l] : max_nan(acc, parts[l]);
        first = false;
      }
    }
    for (; i < spatial; ++i) {
      acc = !kMax ? acc + row[i] : first ? row[i] : max_nan(acc, row[i]);
      first = false;
    }
    y[p] = kMax ? acc : spatial == 0 ? std::numeric_limits<float>::quiet_NaN() : acc / static_cast<float>(spatial);
  }
}

template <bool kMax>
void global_of(int64_t lanes, const float* x, float* y, int64_t spatial, int64_t begin, int64_t end) {
  if (lanes == 1) return global_rows<kMax>(x, y, spatial, begin, end);
  if (lanes == 8) return global_planes<kMax, 8>(x, y, spatial, begin, end);
  FT_CHECK(lanes == 16);
  global_planes<kMax, 16>(x, y, spatial, begin, end);
}

void global_impl(PoolKind kind, int64_t lanes, const float* x, float* y, int64_t spatial, int64_t begin, int64_t end) {
  if (kind == PoolKind::max) return global_of<true>(lanes, x, y, spatial, begin, end);
  global_of<false>(lanes, x, y, spatial, begin, end);
}

#endif
}  // namespace HWY_NAMESPACE
}  // namespace forethought::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace forethought::kernels {

void pool_f32(Isa isa, PoolKind kind, const Window& window, int64_t lanes, const float* x, float* y, int64_t begin,
              int64_t end) {
  if (isa != Isa::scalar) return FT_SIMD(isa, pool_impl)(kind, window, lanes, x, y, begin, end);
  FT_CHECK(lanes == 1);  // there is no blocked layout at this tier
  if (kind == PoolKind::max) return max_pool_reference<float>(window, x, y, nullptr, false, begin, end);
  average_pool_reference<float>(window, x, y, kind == PoolKind::average_count_pad, begin, end);
}

void global_pool_f32(Isa isa, PoolKind kind, int64_t lanes, const float* x, float* y, int64_t spatial, int64_t begin,
                     int64_t end) {
  if (isa != Isa::scalar) return FT_SIMD(isa, global_impl)(kind, lanes, x, y, spatial, begin, end);
  FT_CHECK(lanes == 1);
  if (kind == PoolKind::max) return global_max_pool<float>(x, y, spatial, begin, end);
  global_average_pool<float>(x, y, spatial, begin, end);
}

}  // namespace forethought::kernels
#endif
