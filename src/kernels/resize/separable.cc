// Resize in modes linear and cubic, one pass an axis: out = Σ weight · in along the axis, intermediates in float or
// double.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/checked.h"
#include "kernels/resize/compute_type.h"
#include "kernels/resize/resize.h"
#include "kernels/resize/taps.h"

namespace forethought::kernels {
namespace {

constexpr int64_t kTile = 512;   // elements of a row that are summed at a time
constexpr int64_t kNarrow = 32;  // slices shorter than this are not worth a loop of their own
constexpr int64_t kBlockElements = 16 * 1024;

// One axis resampled: in is [outer][table.in][inner], out is [outer][table.out][inner].
template <typename C>
struct Pass {
  AxisTable table;
  std::vector<C> weight;  // the table's
  int64_t outer = 1, inner = 1;
  DType from{}, to{};
  int source = 0, target = 0;  // -1: the input or output; else which half of the scratch
  // Narrow slices: a unit is `chunk` output positions of one outer index. Wide: `chunk` elements of one output slice.
  bool narrow = false;
  int64_t chunk = 1, chunks = 1, units = 0;
  int64_t reach = 0;  // input positions that one narrow chunk reads, at most

  // Input positions that output positions [first, last) read.
  std::pair<int64_t, int64_t> range(int64_t first, int64_t last) const {
    const auto [low, high] = std::minmax_element(table.start.begin() + first, table.start.begin() + last);
    return {std::clamp<int64_t>(*low, 0, table.in - 1),
            std::clamp<int64_t>(int64_t{*high} + table.taps - 1, 0, table.in - 1) + 1};
  }
};

template <typename C>
class SeparableResize final : public Resize {
 public:
  Status init(DType dtype, const ResizeParams& params, std::span<const ResizeAxis> axes);

  const char* name() const override { return "separable"; }
  int phases() const override { return static_cast<int>(passes_.size()) + (extrapolates_ ? 1 : 0); }
  int64_t units(int phase) const override { return is_pass(phase) ? passes_[phase].units : rows_; }
  int64_t grain(int phase) const override;
  size_t scratch_bytes() const override { return half_bytes_ * halves_; }
  size_t worker_scratch_bytes() const override { return worker_bytes_; }
  void run(Isa isa, int phase, const void* in, void* out, std::byte* scratch, std::byte* worker_scratch, int64_t begin,
           int64_t end) const override;

 private:
  bool is_pass(int phase) const { return phase < static_cast<int>(passes_.size()); }
  Status add_pass(AxisTable table, std::span<const int64_t> dims, size_t axis);
  void wide(Isa isa, const Pass<C>& p, const void* in, void* out, int64_t unit) const;
  void narrow(Isa isa, const Pass<C>& p, const void* in, void* out, C* row, int64_t unit) const;
  void extrapolate(void* out, int64_t begin, int64_t end) const;

  DType dtype_{};
  std::vector<Pass<C>> passes_;
  size_t half_bytes_ = 0, halves_ = 0, worker_bytes_ = 0;
  bool extrapolates_ = false;
  C extrapolation_value_ = 0;
  std::vector<std::vector<uint8_t>> outside_;  // of each dim; empty: nowhere
  std::vector<int64_t> out_dims_;
  int64_t rows_ = 0;  // of the output, along the innermost dim
};

template <typename C>
Status SeparableResize<C>::init(DType dtype, const ResizeParams& params, std::span<const ResizeAxis> axes) {
  dtype_ = dtype;
  extrapolation_value_ = params.extrapolation_value;
  std::vector<size_t> order;
  std::vector<int64_t> dims;
  outside_.resize(axes.size());
  for (size_t d = 0; d < axes.size(); ++d) {
    dims.push_back(axes[d].in);
    out_dims_.push_back(axes[d].out);
    if (!leaves_alone(params, axes[d])) order.push_back(d);
  }
  const int64_t total = checked_product(out_dims_).value_or(0);
  if (total > 0) rows_ = out_dims_.empty() ? 1 : total / out_dims_.back();
  // Axes that shrink most go first: what follows has less to do.
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return static_cast<double>(axes[a].out) * static_cast<double>(axes[b].in) <
           static_cast<double>(axes[b].out) * static_cast<double>(axes[a].in);
  });
  for (size_t d : order) {
    ASSIGN_OR_RETURN(AxisTable table, make_axis_table(params, axes[d]));
    outside_[d] = table.outside;
    extrapolates_ |= !table.outside.empty();
    RETURN_IF_ERROR(add_pass(std::move(table), dims, d));
    dims[d] = axes[d].out;
  }
  halves_ = std::min<size_t>(2, passes_.size() - 1);
  for (size_t i = 0; i < passes_.size(); ++i) {
    passes_[i].source = i == 0 ? -1 : static_cast<int>((i - 1) % 2);
    passes_[i].target = i + 1 == passes_.size() ? -1 : static_cast<int>(i % 2);
    passes_[i].from = i == 0 ? dtype : dtype_of<C>;
    passes_[i].to = i + 1 == passes_.size() ? dtype : dtype_of<C>;
  }
  return absl::OkStatus();
}

template <typename C>
Status SeparableResize<C>::add_pass(AxisTable table, std::span<const int64_t> dims, size_t axis) {
  Pass<C> p;
  p.outer = checked_product(dims.first(axis)).value_or(0);
  p.inner = checked_product(dims.subspan(axis + 1)).value_or(0);
  const auto made = checked_mul(p.outer, p.inner) ? checked_mul(p.outer * p.inner, table.out) : std::nullopt;
  const auto bytes = made ? checked_mul(*made, sizeof(C) * 4) : std::nullopt;
  if (!bytes) return invalid("the resized shape is too large to address");
  p.weight.assign(table.weight.begin(), table.weight.end());
  table.weight.clear();
  p.narrow = p.inner < kNarrow;
  p.table = std::move(table);
  if (*made > 0) {
    const int64_t length = p.narrow ? p.table.out : p.inner;
    p.chunk = std::clamp<int64_t>(p.narrow ? kBlockElements / 4 / p.inner : kBlockElements, 1, length);
    p.chunks = (length + p.chunk - 1) / p.chunk;
    p.units = p.outer * p.chunks * (p.narrow ? 1 : p.table.out);
    if (p.narrow) {
      for (int64_t c = 0; c < p.chunks; ++c) {
        const auto [low, high] = p.range(c * p.chunk, std::min((c + 1) * p.chunk, p.table.out));
        p.reach = std::max(p.reach, high - low);
      }
      // The input row as C, then one chunk of results.
      const size_t need = static_cast<size_t>((p.reach + p.chunk) * p.inner) * sizeof(C);
      worker_bytes_ = std::max(worker_bytes_, round_up(need, 64));
    }
  }
  if (!passes_.empty()) {
    const Pass<C>& before = passes_.back();
    const int64_t held = before.outer * before.table.out * before.inner;
    half_bytes_ = std::max(half_bytes_, round_up(static_cast<size_t>(held) * sizeof(C), 64));
  }
  passes_.push_back(std::move(p));
  return absl::OkStatus();
}

template <typename C>
int64_t SeparableResize<C>::grain(int phase) const {
  if (!is_pass(phase)) return std::max<int64_t>(1, kBlockElements / std::max<int64_t>(1, out_dims_.back()));
  const Pass<C>& p = passes_[phase];
  const int64_t work = p.chunk * (p.narrow ? p.inner : 1) * std::max<int64_t>(1, p.table.taps / 2);
  return std::max<int64_t>(1, kBlockElements / std::max<int64_t>(1, work));
}

template <typename C>
void SeparableResize<C>::wide(Isa isa, const Pass<C>& p, const void* in, void* out, int64_t unit) const {
  alignas(64) C tile[kTile], sum[kTile];
  const AxisTable& t = p.table;
  const int64_t chunk = unit % p.chunks, o = unit / p.chunks / t.out, j = unit / p.chunks % t.out;
  const int64_t last = std::min(p.inner, (chunk + 1) * p.chunk);
  for (int64_t at = chunk * p.chunk; at < last; at += kTile) {
    const int64_t n = std::min(kTile, last - at);
    for (int32_t k = 0; k < t.taps; ++k) {
      const int64_t i = std::clamp<int64_t>(int64_t{t.start[j]} + k, 0, t.in - 1);
      const C* row = load_as<C>(isa, p.from, in, (o * t.in + i) * p.inner + at, n, tile);
      add_row<C>(isa, k == 0, p.weight[k * t.out + j], row, sum, n);
    }
    store_as<C>(isa, p.to, sum, n, out, (o * t.out + j) * p.inner + at);
  }
}

template <typename C>
void SeparableResize<C>::narrow(Isa isa, const Pass<C>& p, const void* in, void* out, C* row, int64_t unit) const {
  const AxisTable& t = p.table;
  const int64_t o = unit / p.chunks, first = unit % p.chunks * p.chunk, last = std::min(t.out, first + p.chunk);
  const auto [low, high] = p.range(first, last);
  C* sums = row + p.reach * p.inner;
  const C* from = load_as<C>(isa, p.from, in, (o * t.in + low) * p.inner, (high - low) * p.inner, row);
  if (p.inner == 1) {
    resample_row<C>(isa, from, low, t.in, t.start.data() + first, p.weight.data() + first, t.out, t.taps, sums,
                    last - first);
  } else {
    for (int64_t j = first; j < last; ++j)
      for (int32_t k = 0; k < t.taps; ++k) {
        const int64_t i = std::clamp<int64_t>(int64_t{t.start[j]} + k, 0, t.in - 1);
        add_row<C>(Isa::scalar, k == 0, p.weight[k * t.out + j], from + (i - low) * p.inner,
                   sums + (j - first) * p.inner, p.inner);
      }
  }
  store_as<C>(isa, p.to, sums, (last - first) * p.inner, out, (o * t.out + first) * p.inner);
}

// Rows [begin, end) of the output: the extrapolation value wherever any axis lies outside.
template <typename C>
void SeparableResize<C>::extrapolate(void* out, int64_t begin, int64_t end) const {
  const size_t last = out_dims_.size() - 1;
  for (int64_t r = begin; r < end; ++r) {
    bool outside = false;
    int64_t rest = r;
    for (size_t d = last; d-- > 0; rest /= out_dims_[d])
      outside |= !outside_[d].empty() && outside_[d][rest % out_dims_[d]] != 0;
    for (int64_t i = 0; i < out_dims_[last]; ++i)
      if (outside || (!outside_[last].empty() && outside_[last][i] != 0))
        store_as<C>(Isa::scalar, dtype_, &extrapolation_value_, 1, out, r * out_dims_[last] + i);
  }
}

template <typename C>
void SeparableResize<C>::run(Isa isa, int phase, const void* in, void* out, std::byte* scratch,
                             std::byte* worker_scratch, int64_t begin, int64_t end) const {
  if (!is_pass(phase)) return extrapolate(out, begin, end);
  const Pass<C>& p = passes_[phase];
  if (p.source >= 0) in = scratch + static_cast<size_t>(p.source) * half_bytes_;
  if (p.target >= 0) out = scratch + static_cast<size_t>(p.target) * half_bytes_;
  for (int64_t unit = begin; unit < end; ++unit) {
    if (p.narrow) {
      narrow(isa, p, in, out, reinterpret_cast<C*>(worker_scratch), unit);
    } else {
      wide(isa, p, in, out, unit);
    }
  }
}

template <typename C>
StatusOr<std::unique_ptr<const Resize>> make(DType dtype, const ResizeParams& params,
                                             std::span<const ResizeAxis> axes) {
  auto r = std::make_unique<SeparableResize<C>>();
  RETURN_IF_ERROR(r->init(dtype, params, axes));
  return r;
}

}  // namespace

StatusOr<std::unique_ptr<const Resize>> make_separable_resize(DType dtype, const ResizeParams& params,
                                                              std::span<const ResizeAxis> axes) {
  if (!is_floating(dtype) && !is_integer(dtype))
    return unsupported(absl::StrCat("only mode nearest can resize ", forethought::name(dtype)));
  if (std::all_of(axes.begin(), axes.end(), [&](const ResizeAxis& a) { return leaves_alone(params, a); }))
    return make_nearest_resize(dtype, params, axes);  // a copy
  return computes_in_double(dtype) ? make<double>(dtype, params, axes) : make<float>(dtype, params, axes);
}

}  // namespace forethought::kernels
