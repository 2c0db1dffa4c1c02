// Resize in mode nearest: data movement by index tables.
#include <algorithm>

#include "absl/container/inlined_vector.h"
#include "kernels/movement/element.h"
#include "kernels/resize/compute_type.h"
#include "kernels/resize/resize.h"

namespace forethought::kernels {
namespace {

constexpr int64_t kBlockElements = 16 * 1024;

class NearestResize final : public Resize {
 public:
  Status init(DType dtype, const ResizeParams& params, std::span<const ResizeAxis> axes);

  const char* name() const override { return "nearest"; }
  int phases() const override { return 1; }
  int64_t units(int) const override { return units_; }
  int64_t grain(int) const override {
    return std::max<int64_t>(1, kBlockElements / std::max<int64_t>(1, chunk_ * tail_));
  }
  void run(Isa, int, const void* in, void* out, std::byte*, std::byte*, int64_t begin, int64_t end) const override;

 private:
  // An axis, or several neighbours that stay as they are taken together (no table then).
  struct Axis {
    AxisTable table;
    int64_t out = 1;
    int64_t in_step = 1;
    bool kept = true;
    int64_t source(int64_t i) const { return kept ? i : table.start[i]; }
    bool outside(int64_t i) const { return !kept && !table.outside.empty() && table.outside[i] != 0; }
  };
  template <typename T>
  void run_units(const void* in, void* out, int64_t begin, int64_t end) const;
  template <typename T>
  void run_row(const void* in, int64_t in_at, void* out, int64_t out_at, int64_t first, int64_t last) const;

  absl::InlinedVector<Axis, 4> axes_;  // the last one is the innermost that is resized
  int64_t tail_ = 1;                   // elements behind it, which move together
  int64_t chunk_ = 1, chunks_ = 1;     // a unit is chunk_ positions of the last axis
  int64_t units_ = 0;
  Element element_ = Element::w1;
  alignas(16) std::byte outside_value_[16] = {};
};

Status NearestResize::init(DType dtype, const ResizeParams& params, std::span<const ResizeAxis> axes) {
  element_ = element_of(dtype);
  if (is_floating(dtype) || is_integer(dtype)) {
    if (computes_in_double(dtype)) {
      const double v = params.extrapolation_value;
      store_as(Isa::scalar, dtype, &v, 1, outside_value_, 0);
    } else {
      store_as(Isa::scalar, dtype, &params.extrapolation_value, 1, outside_value_, 0);
    }
  } else if (dtype == DType::kBool) {
    outside_value_[0] = std::byte{params.extrapolation_value != 0};
  }
  int64_t in_step = 1, total = 1;
  for (size_t d = axes.size(); d-- > 0; in_step *= axes[d].in) {
    total *= axes[d].out;
    const bool kept = leaves_alone(params, axes[d]);
    if (kept && axes_.empty()) {
      tail_ *= axes[d].out;
    } else if (kept && axes_.front().kept) {
      axes_.front().out *= axes[d].out;
    } else {
      Axis a{.out = axes[d].out, .in_step = in_step, .kept = kept};
      if (!kept) {
        ASSIGN_OR_RETURN(a.table, make_axis_table(params, axes[d]));
      }
      axes_.insert(axes_.begin(), std::move(a));
    }
  }
  if (axes_.empty()) axes_.push_back({});
  if (total == 0) return absl::OkStatus();
  const int64_t out = axes_.back().out;
  chunk_ = std::clamp<int64_t>(kBlockElements / tail_, 1, out);
  chunks_ = (out + chunk_ - 1) / chunk_;
  units_ = total / (out * tail_) * chunks_;
  return absl::OkStatus();
}

template <typename T>
void NearestResize::run_row(const void* in, int64_t in_at, void* out, int64_t out_at, int64_t first,
                            int64_t last) const {
  const Axis& a = axes_.back();
  if (a.kept) return copy_run<T>(in, in_at, out, out_at, (last - first) * tail_);
  const int32_t* start = a.table.start.data();
  if (tail_ == 1) {
    for (int64_t i = first; i < last; ++i) copy_element<T>(in, in_at + start[i], out, out_at + i - first);
  } else {
    for (int64_t i = first; i < last; ++i)
      copy_run<T>(in, in_at + start[i] * tail_, out, out_at + (i - first) * tail_, tail_);
  }
  if (a.table.outside.empty()) return;
  T value{};
  if constexpr (!std::is_same_v<T, std::string>) value = load_element<T>(outside_value_, 0);
  for (int64_t i = first; i < last; ++i)
    if (a.table.outside[i] != 0) fill_run<T>(value, out, out_at + (i - first) * tail_, tail_);
}

template <typename T>
void NearestResize::run_units(const void* in, void* out, int64_t begin, int64_t end) const {
  const int64_t extent = axes_.back().out;
  int64_t made_from = -1, made_at = 0;  // the whole row written last: rows often repeat
  for (int64_t unit = begin; unit < end; ++unit) {
    const int64_t row = unit / chunks_, first = unit % chunks_ * chunk_, last = std::min(extent, first + chunk_);
    int64_t in_at = 0, rest = row;
    bool outside = false;
    for (size_t d = axes_.size() - 1; d-- > 0; rest /= axes_[d].out) {
      const int64_t i = rest % axes_[d].out;
      outside |= axes_[d].outside(i);
      in_at += axes_[d].source(i) * axes_[d].in_step;
    }
    const int64_t out_at = (row * extent + first) * tail_;
    if (outside) {
      T value{};
      if constexpr (!std::is_same_v<T, std::string>) value = load_element<T>(outside_value_, 0);
      fill_run<T>(value, out, out_at, (last - first) * tail_);
    } else if (in_at == made_from) {
      copy_run<T>(out, made_at, out, out_at, extent * tail_);
    } else {
      run_row<T>(in, in_at, out, out_at, first, last);
      if (chunks_ == 1) made_from = in_at, made_at = out_at;
    }
  }
}

void NearestResize::run(Isa, int, const void* in, void* out, std::byte*, std::byte*, int64_t begin, int64_t end) const {
  with_element(element_, [&]<typename T>() { run_units<T>(in, out, begin, end); });
}

}  // namespace

StatusOr<std::unique_ptr<const Resize>> make_nearest_resize(DType dtype, const ResizeParams& params,
                                                            std::span<const ResizeAxis> axes) {
  auto r = std::make_unique<NearestResize>();
  RETURN_IF_ERROR(r->init(dtype, params, axes));
  return r;
}

}  // namespace forethought::kernels
