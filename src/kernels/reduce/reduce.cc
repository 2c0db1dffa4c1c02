// Reductions of a contiguous tensor over any set of axes: ONNX ReduceSum, ReduceMean, ReduceMax, ReduceMin.
#include "kernels/reduce/reduce.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "base/status.h"
#include "kernels/convert/half_tile.h"
#include "kernels/reduce/rows.h"

namespace forethought::kernels {
namespace {

constexpr int64_t kColumns = 256;  // results that accumulate together: 2 KiB of doubles, well inside the first cache

template <typename T>
constexpr bool kIsHalf = std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>;
// Sums of floats accumulate in double, extremes of halves in float, integers and bool in themselves.
template <typename T, bool kSum>
using Acc = std::conditional_t<kIsHalf<T> || std::is_floating_point_v<T>,
                               std::conditional_t<kSum, double, std::conditional_t<kIsHalf<T>, float, T>>, T>;

// What each kind does to one accumulator. Integers are added as unsigned numbers: they wrap.
struct Sum {
  static constexpr bool kSum = true;
  template <typename A>
  static constexpr A identity() {
    return A{};
  }
  template <typename A>
  static A apply(A acc, A v) {
    if constexpr (std::is_integral_v<A>) {
      using U = std::make_unsigned_t<A>;
      return static_cast<A>(static_cast<U>(acc) + static_cast<U>(v));
    } else {
      return acc + v;
    }
  }
  static double row(Isa isa, const float* p, int64_t n, double acc) { return acc + row_sum(isa, p, n); }
  static void cols(Isa isa, const float* p, int64_t s, int64_t r, int64_t c, double* a) {
    cols_sum(isa, p, s, r, c, a);
  }
};
struct Max {
  static constexpr bool kSum = false;
  template <typename A>
  static constexpr A identity() {
    if constexpr (std::is_floating_point_v<A>) return -std::numeric_limits<A>::infinity();
    return std::numeric_limits<A>::lowest();
  }
  template <typename A>
  static A apply(A acc, A v) {
    return v > acc || v != v ? v : acc;
  }
  static float row(Isa isa, const float* p, int64_t n, float acc) { return row_max(isa, p, n, acc); }
  static void cols(Isa isa, const float* p, int64_t s, int64_t r, int64_t c, float* a) { cols_max(isa, p, s, r, c, a); }
};
struct Min {
  static constexpr bool kSum = false;
  template <typename A>
  static constexpr A identity() {
    if constexpr (std::is_floating_point_v<A>) return std::numeric_limits<A>::infinity();
    return std::numeric_limits<A>::max();
  }
  template <typename A>
  static A apply(A acc, A v) {
    return v < acc || v != v ? v : acc;
  }
  static float row(Isa isa, const float* p, int64_t n, float acc) { return row_min(isa, p, n, acc); }
  static void cols(Isa isa, const float* p, int64_t s, int64_t r, int64_t c, float* a) { cols_min(isa, p, s, r, c, a); }
};

constexpr int64_t kShortRow = 8;  // elements below which a call of vector code costs more than it saves

template <typename Op, typename T, typename A>
A fold_row(Isa isa, const T* p, int64_t n, A acc) {
  if constexpr (std::is_same_v<T, float>) {
    if (n >= kShortRow) return Op::row(isa, p, n, acc);
    for (int64_t i = 0; i < n; ++i) acc = Op::apply(acc, static_cast<A>(p[i]));
    return acc;
  } else if constexpr (kIsHalf<T>) {
    float tile[kHalfTile];
    for (int64_t i = 0; i < n; i += kHalfTile) {
      const int64_t m = std::min(kHalfTile, n - i);
      widen(isa, p + i, tile, m);
      acc = Op::row(isa, tile, m, acc);
    }
    return acc;
  } else {
    for (int64_t i = 0; i < n; ++i) acc = Op::apply(acc, static_cast<A>(p[i]));
    return acc;
  }
}

template <typename Op, typename T, typename A>
void fold_cols(Isa isa, const T* p, int64_t stride, int64_t rows, int64_t cols, A* acc) {
  if constexpr (std::is_same_v<T, float>) {
    Op::cols(isa, p, stride, rows, cols, acc);
  } else if constexpr (kIsHalf<T>) {
    static_assert(kColumns <= kHalfTile);
    float tile[kColumns];
    for (int64_t r = 0; r < rows; ++r) {
      widen(isa, p + r * stride, tile, cols);
      Op::cols(isa, tile, cols, 1, cols, acc);
    }
  } else {
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < cols; ++c) acc[c] = Op::apply(acc[c], static_cast<A>(p[r * stride + c]));
  }
}

// The offset of position `index` among axes that are counted with the last one fastest.
int64_t offset_of(std::span<const Reduction::Axis> axes, int64_t index) {
  int64_t offset = 0;
  for (size_t i = axes.size(); i-- > 0;) {
    offset += index % axes[i].size * axes[i].stride;
    index /= axes[i].size;
  }
  return offset;
}

template <typename T, typename A>
T finish(A acc, ReduceKind kind, int64_t count) {
  if constexpr (std::is_integral_v<T>) {
    if (kind != ReduceKind::mean) return static_cast<T>(acc);
    return count == 0 ? T{0} : static_cast<T>(acc / static_cast<T>(count));
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return T(static_cast<float>(kind == ReduceKind::mean ? acc / static_cast<A>(count) : acc));
  } else {
    return T(kind == ReduceKind::mean ? acc / static_cast<A>(count) : acc);
  }
}

// The offsets of consecutive positions among axes, from `index` on.
class Walk {
 public:
  Walk(std::span<const Reduction::Axis> axes, int64_t index)
      : outer_(axes.empty() ? axes : axes.first(axes.size() - 1)),
        size_(axes.empty() ? 1 : axes.back().size),
        stride_(axes.empty() ? 0 : axes.back().stride) {
    if (size_ == 0) return;
    turn_ = index / size_;
    at_ = index % size_;
    base_ = offset_of(outer_, turn_);
  }
  int64_t offset() const { return base_ + at_ * stride_; }
  void next() {
    if (++at_ < size_) return;
    at_ = 0;
    base_ = outer_.empty() ? 0 : offset_of(outer_, ++turn_);
  }

 private:
  std::span<const Reduction::Axis> outer_;
  int64_t size_, stride_;
  int64_t turn_ = 0, at_ = 0, base_ = 0;
};

// Innermost axis reduced: one contiguous row for each position of the outer reduced axes.
template <typename Op, typename T>
void reduce_rows(Isa isa, ReduceKind kind, const Reduction& r, const T* in, T* out, int64_t begin, int64_t end) {
  using A = Acc<T, Op::kSum>;
  const int64_t rows = r.count == 0 ? 0 : r.count / r.row;
  Walk kept(r.kept, begin);
  for (int64_t o = begin; o < end; ++o, kept.next()) {
    A acc = Op::template identity<A>();
    const T* base = in + (rows == 0 ? 0 : kept.offset());
    if (rows == 1) {
      acc = fold_row<Op>(isa, base, r.row, acc);
    } else {
      Walk reduced(r.reduced, 0);
      for (int64_t i = 0; i < rows; ++i, reduced.next()) acc = fold_row<Op>(isa, base + reduced.offset(), r.row, acc);
    }
    out[o] = finish<T>(acc, kind, r.count);
  }
}

// Innermost axis kept: `inner` results side by side, accumulated in tiles of columns.
template <typename Op, typename T>
void reduce_cols(Isa isa, ReduceKind kind, const Reduction& r, const T* in, T* out, int64_t begin, int64_t end) {
  using A = Acc<T, Op::kSum>;
  A acc[kColumns];
  const std::span<const Reduction::Axis> reduced(r.reduced);
  const auto outer = reduced.empty() ? reduced : reduced.first(reduced.size() - 1);
  const int64_t rows = reduced.empty() ? 1 : reduced.back().size, stride = reduced.empty() ? 0 : reduced.back().stride;
  const int64_t planes = r.count == 0 ? 0 : r.count / rows;
  for (int64_t o = begin; o < end;) {
    const int64_t column = o % r.inner, n = std::min({kColumns, r.inner - column, end - o});
    std::fill_n(acc, n, Op::template identity<A>());
    if (planes > 0) {
      const T* base = in + offset_of(r.kept, o / r.inner) + column;
      Walk plane(outer, 0);
      for (int64_t i = 0; i < planes; ++i, plane.next())
        fold_cols<Op>(isa, base + plane.offset(), stride, rows, n, acc);
    }
    for (int64_t c = 0; c < n; ++c) out[o + c] = finish<T>(acc[c], kind, r.count);
    o += n;
  }
}

template <typename Op, typename T>
void run(Isa isa, ReduceKind kind, const Reduction& r, const void* in, void* out, int64_t begin, int64_t end) {
  (r.inner > 1 ? reduce_cols<Op, T> : reduce_rows<Op, T>)(isa, kind, r, static_cast<const T*>(in), static_cast<T*>(out),
                                                          begin, end);
}

using SumTypes = Types<float, double, Float16, BFloat16, int32_t, int64_t, uint32_t, uint64_t>;
using ExtremeTypes = Types<float, double, Float16, BFloat16, int32_t, int64_t, uint32_t, uint64_t, int8_t, uint8_t>;

template <typename... T>
constexpr TypeSet set_of(Types<T...>) {
  return (TypeSet(dtype_of<T>) | ...);
}

}  // namespace

TypeSet reduce_types(ReduceKind kind) {
  return kind == ReduceKind::sum || kind == ReduceKind::mean ? set_of(SumTypes{})
                                                             : set_of(ExtremeTypes{}) | DType::kBool;
}

Reduction make_reduction(std::span<const int64_t> dims, std::span<const bool> axes_mask) {
  struct Group {
    int64_t size, stride;
    bool reduced;
  };
  absl::InlinedVector<Group, 8> groups;  // innermost first
  Reduction r;
  int64_t stride = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    (axes_mask[i] ? r.count : r.outputs) *= dims[i];
    if (dims[i] == 1) continue;
    if (!groups.empty() && groups.back().reduced == axes_mask[i]) {
      groups.back().size *= dims[i];
    } else {
      groups.push_back({dims[i], stride, axes_mask[i]});
    }
    stride *= dims[i];
  }
  for (size_t i = groups.size(); i-- > 0;) {
    const Group& g = groups[i];
    if (i == 0) {
      (g.reduced ? r.row : r.inner) = g.size;
    } else {
      (g.reduced ? r.reduced : r.kept).push_back({g.size, g.stride});
    }
  }
  return r;
}

void reduce(Isa isa, ReduceKind kind, DType dtype, const Reduction& r, const void* in, void* out, int64_t begin,
            int64_t end) {
  // Bools are handled as bytes, so that a byte beyond 1 is no trap; only the lack of elements tells them apart.
  if (dtype == DType::kBool) {
    if (r.count == 0) {
      std::fill(static_cast<uint8_t*>(out) + begin, static_cast<uint8_t*>(out) + end, kind == ReduceKind::min);
      return;
    }
    dtype = DType::kUint8;
  }
  const auto with = [&]<typename Op>(Op, auto types) {
    return dispatch(dtype, types, [&]<typename T>() { run<Op, T>(isa, kind, r, in, out, begin, end); });
  };
  bool done = false;
  switch (kind) {
    case ReduceKind::sum:
    case ReduceKind::mean:
      done = with(Sum{}, SumTypes{});
      break;
    case ReduceKind::max:
      done = with(Max{}, ExtremeTypes{});
      break;
    case ReduceKind::min:
      done = with(Min{}, ExtremeTypes{});
      break;
  }
  FT_CHECK(done);
}

}  // namespace forethought::kernels
