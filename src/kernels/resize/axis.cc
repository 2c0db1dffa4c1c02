#include "kernels/resize/axis.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"

namespace forethought::kernels {
namespace {

// The output's length before it was rounded: what the corner-aligned maps divide by.
double exact_length(const ResizeAxis& a) { return a.scale * static_cast<double>(a.in); }

// The input coordinate of output position i.
double coordinate(Coordinates how, const ResizeAxis& a, int64_t i) {
  const double y = static_cast<double>(i), in = static_cast<double>(a.in), length = exact_length(a);
  switch (how) {
    case Coordinates::half_pixel:
      return (y + 0.5) / a.scale - 0.5;
    case Coordinates::half_pixel_symmetric: {
      const double adjustment = static_cast<double>(a.out) / length;
      return in / 2 * (1 - adjustment) + (y + 0.5) / a.scale - 0.5;
    }
    case Coordinates::pytorch_half_pixel:
      return length == 1 ? -0.5 : (y + 0.5) / a.scale - 0.5;
    case Coordinates::align_corners:
      return length == 1 ? 0.0 : y * (in - 1) / (length - 1);
    case Coordinates::asymmetric:
      return y / a.scale;
    case Coordinates::tf_half_pixel_for_nn:
      return (y + 0.5) / a.scale;
    case Coordinates::tf_crop_and_resize: {
      const double span = (a.roi_end - a.roi_begin) * (in - 1);
      return a.roi_begin * (in - 1) + (length == 1 ? span / 2 : y * span / (length - 1));
    }
  }
  return 0;
}

// A coordinate that misses an element by no more than rounding is that element: (8 + ½) / (17/7) - ½ is 3, which ceil
// must not turn into 4.
double snapped(double x) {
  const double whole = std::nearbyint(x);
  return std::fabs(x - whole) <= 1e-12 * (1 + std::fabs(x)) ? whole : x;
}

int64_t nearest_of(NearestMode mode, double x) {
  const double low = std::floor(x), ratio = x - low;
  bool up = false;
  switch (mode) {
    case NearestMode::round_prefer_floor:
      up = ratio > 0.5;
      break;
    case NearestMode::round_prefer_ceil:
      up = ratio >= 0.5;
      break;
    case NearestMode::floor:
      break;
    case NearestMode::ceil:
      up = ratio > 0;
      break;
  }
  return static_cast<int64_t>(low) + up;
}

// Keys' cubic convolution kernel with coefficient a, at distance x.
double cubic_weight(double a, double x) {
  x = std::fabs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return 0;
}

// The filter stretched by 1 / shrink; `half` is the number of taps on either side.
struct Filter {
  ResizeMode mode;
  double a, shrink;
  int64_t half;

  Filter(const ResizeParams& p, double scale) : mode(p.mode), a(p.cubic_coeff_a) {
    shrink = p.antialias ? std::min(scale, 1.0) : 1.0;
    const double support = mode == ResizeMode::linear ? 1 : 2;
    half = static_cast<int64_t>(-std::floor(-support / shrink));
  }
  double at(double distance) const {
    const double x = distance * shrink;
    return mode == ResizeMode::linear ? std::max(0.0, 1 - std::fabs(x)) : cubic_weight(a, x);
  }
};

// The weights of output position i, whose coordinate lies `ratio` after input position base.
void weigh(const ResizeParams& p, const Filter& f, int64_t first, int64_t base, double ratio, int64_t i, AxisTable* t) {
  double sum = 0;
  for (int32_t k = 0; k < t->taps; ++k) {
    double w = f.at(static_cast<double>(first + k - base) - ratio);
    if (p.exclude_outside && (first + k < 0 || first + k >= t->in)) w = 0;
    t->weight[static_cast<size_t>(k * t->out + i)] = w;
    sum += w;
  }
  if ((!p.exclude_outside && f.shrink == 1) || sum == 0) return;
  for (int32_t k = 0; k < t->taps; ++k) t->weight[static_cast<size_t>(k * t->out + i)] /= sum;
}

}  // namespace

std::optional<int64_t> scaled_extent(int64_t in, float scale) {
  if (!(scale > 0) || !std::isfinite(scale)) return std::nullopt;
  const double extent = std::floor(static_cast<double>(in) * static_cast<double>(scale));
  if (extent >= 0x1p62) return std::nullopt;
  return static_cast<int64_t>(extent);
}

bool leaves_alone(const ResizeParams& params, const ResizeAxis& a) {
  if (a.in != a.out || std::fabs(a.scale - 1) > 1e-9 * std::max(a.scale, 1.0)) return false;
  return params.coordinates != Coordinates::tf_crop_and_resize || (a.roi_begin == 0 && a.roi_end == 1);
}

StatusOr<AxisTable> make_axis_table(const ResizeParams& params, const ResizeAxis& axis) {
  constexpr int64_t kLongest = std::numeric_limits<int32_t>::max() / 16;  // so that taps fit as well
  if (axis.in == 0 && axis.out != 0)
    return invalid(absl::StrCat("cannot make ", axis.out, " elements of an axis that has none"));
  if (axis.in > kLongest || axis.out > kLongest)
    return unsupported(
        absl::StrCat("an axis of ", std::max(axis.in, axis.out), " elements; the longest is ", kLongest));
  AxisTable t;
  t.in = axis.in, t.out = axis.out;
  if (axis.out == 0) return t;
  if (!(axis.scale > 0) || !std::isfinite(axis.scale))
    return invalid(absl::StrCat("the scale ", axis.scale, " is no positive number"));
  const bool nearest = params.mode == ResizeMode::nearest;
  const Filter filter(params, axis.scale);
  // An output of one element at least means that 1 / scale is no more than twice the input's extent.
  if (!nearest) t.taps = static_cast<int32_t>(2 * std::min(filter.half, 4 * axis.in + 2));
  t.start.resize(static_cast<size_t>(axis.out));
  if (!nearest) t.weight.resize(static_cast<size_t>(axis.out * t.taps));
  for (int64_t i = 0; i < axis.out; ++i) {
    double x = snapped(coordinate(params.coordinates, axis, i));
    if (params.coordinates == Coordinates::tf_crop_and_resize && !(x >= 0 && x <= static_cast<double>(axis.in - 1))) {
      t.outside.resize(static_cast<size_t>(axis.out), 0);
      t.outside[static_cast<size_t>(i)] = 1;
      x = 0;
    }
    if (nearest) {
      t.start[i] = static_cast<int32_t>(std::clamp<int64_t>(nearest_of(params.nearest, x), 0, axis.in - 1));
      continue;
    }
    // A coordinate on an element counts as the end of the cell before it.
    const int64_t base = static_cast<int64_t>(std::ceil(x)) - 1, first = base + 1 - t.taps / 2;
    t.start[i] = static_cast<int32_t>(first);
    weigh(params, filter, first, base, x - static_cast<double>(base), i, &t);
  }
  return t;
}

}  // namespace forethought::kernels
