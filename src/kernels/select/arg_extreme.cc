// ONNX ArgMax and ArgMin: plain code, and Highway's for strided axes of float32.
#include <algorithm>
#include <limits>
#include <type_traits>

#include "base/status.h"
#include "kernels/reduce/rows.h"
#include "kernels/select/select.h"
#include "kernels/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/select/arg_extreme.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace forethought::kernels {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR
namespace hn = hwy::HWY_NAMESPACE;

// As many lines side by side as a vector holds, as often as they fit into `cols`; returns how many lines were done.
template <bool kMax, bool kLast>
HWY_INLINE int64_t vector_columns(const float* in, int64_t* out, int32_t n, int64_t stride, int64_t cols) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  const int64_t w = static_cast<int64_t>(hn::Lanes(d));
  int32_t index[hn::MaxLanes(d)];
  int64_t c = 0;
  for (; c + w <= cols; c += w) {
    auto best = hn::LoadU(d, in + c);
    auto at = hn::Zero(di);
    for (int32_t i = 1; i < n; ++i) {
      const auto v = hn::LoadU(d, in + i * stride + c);
      // Comparisons with NaN are false, so a NaN that is the best so far stays.
      const auto ahead =
          kMax ? (kLast ? hn::Ge(v, best) : hn::Gt(v, best)) : (kLast ? hn::Le(v, best) : hn::Lt(v, best));
      const auto nan = kLast ? hn::IsNaN(v) : hn::AndNot(hn::IsNaN(best), hn::IsNaN(v));
      const auto take = hn::Or(ahead, nan);
      best = hn::IfThenElse(take, v, best);
      at = hn::IfThenElse(hn::RebindMask(di, take), hn::Set(di, i), at);
    }
    hn::StoreU(at, di, index);
    for (int64_t j = 0; j < w; ++j) out[c + j] = index[j];
  }
  return c;
}

int64_t columns_impl(bool max, bool last, const float* in, int64_t* out, int32_t n, int64_t stride, int64_t cols) {
  if (max) return (last ? vector_columns<true, true> : vector_columns<true, false>)(in, out, n, stride, cols);
  return (last ? vector_columns<false, true> : vector_columns<false, false>)(in, out, n, stride, cols);
}
#endif
}  // namespace HWY_NAMESPACE
}  // namespace forethought::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace forethought::kernels {
namespace {

constexpr int64_t kColumns = 256;  // lines that are searched side by side when the axis is strided

template <typename T>
auto key(T v) {
  if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>)
    return static_cast<float>(v);
  else
    return v;
}

// Whether v takes the place of the best so far, when the lines are walked from their first element to the last.
template <ArgKind kKind, bool kLast, typename K>
bool better(K v, K best) {
  if (v != v) return kLast || best == best;
  if (best != best) return false;
  if constexpr (kKind == ArgKind::max)
    return kLast ? v >= best : v > best;
  else
    return kLast ? v <= best : v < best;
}

template <ArgKind kKind, bool kLast, typename T>
void columns(const T* in, int64_t* out, int64_t n, int64_t stride, int64_t cols) {
  decltype(key(T{})) best[kColumns];
  for (int64_t c = 0; c < cols; ++c) {
    best[c] = key(in[c]);
    out[c] = 0;
  }
  for (int64_t i = 1; i < n; ++i)
    for (int64_t c = 0; c < cols; ++c) {
      const auto v = key(in[i * stride + c]);
      if (better<kKind, kLast>(v, best[c])) {
        best[c] = v;
        out[c] = i;
      }
    }
}

// A contiguous float32 line: its extreme by vector code, then a search for it.
int64_t in_row(Isa isa, ArgKind kind, bool last, const float* p, int64_t n) {
  const float best = kind == ArgKind::max ? row_max(isa, p, n, p[0]) : row_min(isa, p, n, p[0]);
  const auto hit = [best](float v) { return v == best || (best != best && v != v); };
  if (last) {
    int64_t i = n - 1;
    while (!hit(p[i])) --i;
    return i;
  }
  return std::find_if(p, p + n, hit) - p;
}

template <ArgKind kKind, bool kLast, typename T>
void run(Isa isa, const T* in, int64_t* out, int64_t n, int64_t inner, int64_t begin, int64_t end) {
  for (int64_t l = begin; l < end;) {
    const int64_t column = l % inner;
    const T* p = in + l / inner * n * inner + column;
    const int64_t cols = std::min({kColumns, inner - column, end - l});
    int64_t done = 0;
    if constexpr (std::is_same_v<T, float>) {
      if (inner == 1) {
        out[l++] = in_row(isa, kKind, kLast, p, n);
        continue;
      }
      if (isa != Isa::scalar && n <= std::numeric_limits<int32_t>::max())
        done =
            FT_SIMD(isa, columns_impl)(kKind == ArgKind::max, kLast, p, out + l, static_cast<int32_t>(n), inner, cols);
    }
    columns<kKind, kLast>(p + done, out + l + done, n, inner, cols - done);
    l += cols;
  }
}

}  // namespace

void arg_extreme(Isa isa, ArgKind kind, bool last_index, DType dtype, const void* in, int64_t* out, int64_t n,
                 int64_t inner, int64_t begin, int64_t end) {
  FT_CHECK(n > 0 || begin == end);
  FT_CHECK(dispatch(dtype, NumberTypes{}, [&]<typename T>() {
    const T* p = static_cast<const T*>(in);
    const auto f = kind == ArgKind::max ? (last_index ? &run<ArgKind::max, true, T> : &run<ArgKind::max, false, T>)
                                        : (last_index ? &run<ArgKind::min, true, T> : &run<ArgKind::min, false, T>);
    f(isa, p, out, n, inner, begin, end);
  }));
}

}  // namespace forethought::kernels
#endif
