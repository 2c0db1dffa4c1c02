#include "kernels/movement/pad.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/checked.h"

namespace forethought::kernels {
namespace {

Status check_axis(PadMode mode, size_t d, int64_t extent, int64_t begin, int64_t end, int64_t kept, int64_t before,
                  int64_t after) {
  if (kept < 0)
    return invalid(absl::StrCat("pads ", begin, " and ", end, " crop more than axis ", d, " has (", extent, ")"));
  if (mode == PadMode::constant || (before == 0 && after == 0)) return absl::OkStatus();
  if (kept == 0) return invalid(absl::StrCat("axis ", d, " has no element to pad from; only mode constant can pad it"));
  if (mode == PadMode::reflect && std::max(before, after) > kept - 1)
    return invalid(absl::StrCat("mode reflect can pad axis ", d, " by at most ", kept - 1, " (its extent",
                                kept == extent ? "" : " after cropping", " is ", kept, "), the pads are ", begin,
                                " and ", end));
  return absl::OkStatus();
}

}  // namespace

StatusOr<Pad> Pad::make(Element element, PadMode mode, std::span<const int64_t> dims, std::span<const int64_t> begins,
                        std::span<const int64_t> ends) {
  Pad pad;
  pad.element_ = element;
  pad.mode_ = mode;
  for (size_t d = 0; d < dims.size(); ++d) {
    constexpr int64_t kLimit = int64_t{1} << 62;  // so that no sum below can overflow
    if (begins[d] < -kLimit / 2 || begins[d] > kLimit / 2 || ends[d] < -kLimit / 2 || ends[d] > kLimit / 2 ||
        dims[d] > kLimit / 2)
      return invalid(absl::StrCat("pads ", begins[d], " and ", ends[d], " of axis ", d, " are out of all bounds"));
    Axis a;
    a.crop = std::max<int64_t>(0, -begins[d]);
    a.kept = dims[d] - a.crop - std::max<int64_t>(0, -ends[d]);
    a.before = std::max<int64_t>(0, begins[d]);
    const int64_t after = std::max<int64_t>(0, ends[d]);
    RETURN_IF_ERROR(check_axis(mode, d, dims[d], begins[d], ends[d], a.kept, a.before, after));
    a.extent = a.before + a.kept + after;
    pad.out_dims_.push_back(a.extent);
    // An axis without pads joins the one before it, whose pads are then whole multiples of it.
    if (!pad.axes_.empty() && a.extent == dims[d] && a.before == 0 && a.kept == dims[d]) {
      Axis& o = pad.axes_.back();
      const int64_t e = dims[d];
      const auto joined = checked_mul(o.extent, e);
      const bool mirrors = mode != PadMode::constant && mode != PadMode::wrap && o.extent != o.kept && e != 1;
      if (joined && !mirrors && checked_mul(o.crop, e) && checked_mul(o.kept, e)) {
        o.crop *= e, o.kept *= e, o.before *= e, o.extent *= e;
        o.in_step = dims[d] * o.in_step;
        continue;
      }
    }
    a.in_step = dims[d];  // the input's extent for now; turned into a step below
    pad.axes_.push_back(a);
  }
  const auto total = checked_product(pad.out_dims_);
  if (!total || !checked_mul(*total, element_pitch(element)))
    return invalid("the padded shape is too large to address");
  if (pad.axes_.empty()) pad.axes_.push_back({});
  int64_t step = 1;
  for (size_t d = pad.axes_.size(); d-- > 0;) {
    const int64_t in_extent = dims.empty() ? 1 : pad.axes_[d].in_step;
    pad.axes_[d].in_step = step;
    step *= in_extent;
  }
  if (*total == 0) return pad;
  const int64_t inner = pad.axes_.back().extent, pitch = element_pitch(element);
  pad.chunk_ = std::min<int64_t>(inner, std::max<int64_t>(1, 64 * 1024 / pitch));
  pad.chunks_ = (inner + pad.chunk_ - 1) / pad.chunk_;
  pad.units_ = *total / inner * pad.chunks_;
  pad.grain_ = std::max<int64_t>(1, 64 * 1024 / (pad.chunk_ * pitch));
  return pad;
}

// The input position that output position i of an axis shows, or -1 for the constant.
int64_t Pad::source(const Axis& a, int64_t i) const {
  int64_t p = i - a.before;
  if (p < 0 || p >= a.kept) {
    switch (mode_) {
      case PadMode::constant:
        return -1;
      case PadMode::edge:
        p = p < 0 ? 0 : a.kept - 1;
        break;
      case PadMode::reflect:
        p = p < 0 ? -p : 2 * (a.kept - 1) - p;
        break;
      case PadMode::wrap:
        p = (p % a.kept + a.kept) % a.kept;
        break;
    }
  }
  return a.crop + p;
}

template <typename T>
void Pad::run_row(const void* in, const void* value, void* out, int64_t row_in, int64_t row_out, int64_t begin,
                  int64_t end) const {
  const Axis& a = axes_.back();
  const auto border = [&](int64_t from, int64_t to) {
    if (from >= to) return;
    if (mode_ == PadMode::constant) return fill_run<T>(load_element<T>(value, 0), out, row_out + from, to - from);
    for (int64_t i = from; i < to; ++i) copy_element<T>(in, row_in + source(a, i), out, row_out + i);
  };
  border(begin, std::min(end, a.before));
  const int64_t from = std::max(begin, a.before), to = std::min(end, a.before + a.kept);
  if (from < to) copy_run<T>(in, row_in + a.crop + from - a.before, out, row_out + from, to - from);
  border(std::max(begin, a.before + a.kept), end);
}

void Pad::run(const void* in, const void* value, void* out, int64_t begin, int64_t end) const {
  const size_t outer = axes_.size() - 1;
  const int64_t inner = axes_.back().extent;
  with_element(element_, [&]<typename T>() {
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t row = unit / chunks_, first = unit % chunks_ * chunk_, last = std::min(inner, first + chunk_);
      int64_t row_in = 0, rest = row;
      bool constant = false;
      for (size_t d = outer; d-- > 0; rest /= axes_[d].extent) {
        const int64_t s = source(axes_[d], rest % axes_[d].extent);
        if (s < 0) constant = true;
        row_in += s * axes_[d].in_step;
      }
      if (constant) {
        fill_run<T>(load_element<T>(value, 0), out, row * inner + first, last - first);
      } else {
        run_row<T>(in, value, out, row_in, row * inner, first, last);
      }
    }
  });
}

}  // namespace forethought::kernels
