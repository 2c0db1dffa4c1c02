// Resize in every mode against a direct evaluation of ONNX's definition, each tier against scalar, and chosen values.
#include "kernels/resize/resize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "kernels/movement/test_util.h"
#include "kernels/resize/compute_type.h"

namespace forethought::kernels {
namespace {

using testing::for_each_index;
using testing::linear;
using testing::product;
using Dims = std::vector<int64_t>;
using Axes = std::vector<ResizeAxis>;

struct Point {
  double x = 0;
  bool outside = false;
};

Point reference_coordinate(const ResizeParams& p, const ResizeAxis& a, int64_t i) {
  const double in = double(a.in), length = a.scale * in, y = double(i);
  switch (p.coordinates) {
    case Coordinates::align_corners:
      return {length == 1 ? 0 : y * (in - 1) / (length - 1)};
    case Coordinates::asymmetric:
      return {y / a.scale};
    case Coordinates::half_pixel:
      return {(y + .5) / a.scale - .5};
    case Coordinates::tf_half_pixel_for_nn:
      return {(y + .5) / a.scale};
    case Coordinates::pytorch_half_pixel:
      return {length == 1 ? -.5 : (y + .5) / a.scale - .5};
    case Coordinates::half_pixel_symmetric:
      return {in / 2 * (1 - double(a.out) / length) + (y + .5) / a.scale - .5};
    case Coordinates::tf_crop_and_resize: {
      double x = length == 1 ? (a.roi_end - a.roi_begin) * (in - 1) / 2
                             : y * (a.roi_end - a.roi_begin) * (in - 1) / (length - 1);
      x += a.roi_begin * (in - 1);
      return {x, x < 0 || x > in - 1};
    }
  }
  return {};
}

double reference_kernel(const ResizeParams& p, double x) {
  x = std::fabs(x);
  const double a = p.cubic_coeff_a;
  if (p.mode == ResizeMode::linear) return x < 1 ? 1 - x : 0;
  if (x <= 1) return (a + 2) * x * x * x - (a + 3) * x * x + 1;
  if (x < 2) return a * x * x * x - 5 * a * x * x + 8 * a * x - 4 * a;
  return 0;
}

// Interpolates one line at x: the nearest elements of the edge-padded line (the left of two that are as near), weighed.
double reference_at(const ResizeParams& p, double scale, const std::vector<double>& line, double x) {
  const int64_t in = std::ssize(line);
  const auto at = [&](int64_t i) { return line[std::clamp<int64_t>(i, 0, in - 1)]; };
  if (p.mode == ResizeMode::nearest) {
    const double f = std::floor(x), r = x - f;
    if (r == 0) return at(int64_t(x));
    switch (p.nearest) {
      case NearestMode::floor:
        return at(int64_t(f));
      case NearestMode::ceil:
        return at(int64_t(f) + 1);
      case NearestMode::round_prefer_floor:
        return at(int64_t(f) + (r > 0.5));
      case NearestMode::round_prefer_ceil:
        return at(int64_t(f) + (r >= 0.5));
    }
  }
  const double shrink = p.antialias ? std::min(1.0, scale) : 1.0;
  const int64_t count = 2 * int64_t(std::ceil((p.mode == ResizeMode::linear ? 1 : 2) / shrink));
  std::vector<int64_t> near(4 * count + 8);
  std::iota(near.begin(), near.end(), int64_t(std::floor(x)) - std::ssize(near) / 2);
  std::stable_sort(near.begin(), near.end(),
                   [&](int64_t a, int64_t b) { return std::fabs(x - double(a)) < std::fabs(x - double(b)); });
  double sum = 0, weights = 0;
  for (int64_t k = 0; k < count; ++k) {
    double w = reference_kernel(p, (double(near[k]) - x) * shrink);
    if (p.exclude_outside && (near[k] < 0 || near[k] >= in)) w = 0;
    sum += w * at(near[k]);
    weights += w;
  }
  return p.antialias || p.exclude_outside ? sum / weights : sum;
}

std::vector<double> reference(const ResizeParams& p, const Axes& axes, std::vector<double> data) {
  Dims dims;
  for (const ResizeAxis& a : axes) dims.push_back(a.in);
  std::vector<std::vector<bool>> outside(axes.size());
  for (size_t d = 0; d < axes.size(); ++d) {
    const ResizeAxis& a = axes[d];
    outside[d].resize(size_t(a.out));
    if (a.in == a.out && a.scale == 1 && a.roi_begin == 0 && a.roi_end == 1) continue;
    Dims to = dims;
    to[d] = a.out;
    std::vector<double> made(size_t(product(to)));
    for_each_index(to, [&](std::span<const int64_t> o) {
      std::vector<double> line;
      Dims i(o.begin(), o.end());
      for (i[d] = 0; i[d] < a.in; ++i[d]) line.push_back(data[linear(i, dims)]);
      Point point = reference_coordinate(p, a, o[d]);
      if (std::fabs(point.x - std::round(point.x)) < 1e-11) point.x = std::round(point.x);  // as in exact arithmetic
      outside[d][o[d]] = point.outside;
      made[linear(o, to)] = point.outside ? 0 : reference_at(p, a.scale, line, point.x);
    });
    data = made, dims = to;
  }
  for_each_index(dims, [&](std::span<const int64_t> o) {
    for (size_t d = 0; d < o.size(); ++d)
      if (outside[d][o[d]]) data[linear(o, dims)] = p.extrapolation_value;
  });
  return data;
}

std::vector<Isa> tiers() {
  std::vector<Isa> r;
  for (Isa i : {Isa::scalar, Isa::avx2, Isa::avx512})
    if (i <= detected_isa()) r.push_back(i);
  return r;
}

// Runs each phase in pieces of `step` units, the last piece first, each with scratch of its own.
template <typename T>
std::vector<T> run(const Resize& r, Isa isa, const std::vector<T>& in, int64_t out_count, int64_t step) {
  std::vector<T> out(size_t(out_count), T(77.0f));
  alignas(64) static std::byte aligned[1 << 22];
  const size_t shared = r.scratch_bytes();
  EXPECT_LE(shared + r.worker_scratch_bytes(), sizeof aligned);
  for (int phase = 0; phase < r.phases(); ++phase)
    for (int64_t u = r.units(phase); u > 0; u -= std::min(u, step)) {
      std::fill_n(aligned + shared, r.worker_scratch_bytes(), std::byte{0xff});
      r.run(isa, phase, in.data(), out.data(), aligned, aligned + shared, std::max<int64_t>(0, u - step), u);
    }
  return out;
}

template <typename T>
double as_double(T v) {
  if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>)
    return double(float(v));
  else
    return double(v);
}

template <typename T>
void check(const ResizeParams& p, const Axes& axes, double tolerance) {
  int64_t in_count = 1, out_count = 1;
  for (const ResizeAxis& a : axes) in_count *= a.in, out_count *= a.out;
  std::mt19937 random(3);
  std::vector<T> in(size_t(in_count), T(0.0f));
  for (T& v : in) v = T(float(random() % 101));
  std::vector<double> wide;
  for (T v : in) wide.push_back(as_double(v));
  const std::vector<double> want = reference(p, axes, wide);
  const auto r = Resize::make(dtype_of<T>, p, axes);
  ASSERT_TRUE(r.ok()) << r.status();
  for (Isa isa : tiers())
    for (int64_t step : {int64_t{1}, int64_t{1} << 40}) {
      const std::vector<T> got = run(**r, isa, in, out_count, step);
      for (int64_t i = 0; i < out_count; ++i)
        ASSERT_NEAR(as_double(got[i]), want[i], tolerance + std::fabs(want[i]) * tolerance * 1e-2)
            << (*r)->name() << " " << forethought::name(dtype_of<T>) << " " << name(isa) << " mode " << int(p.mode)
            << " nearest " << int(p.nearest) << " coordinates " << int(p.coordinates) << " antialias " << p.antialias
            << " exclude " << p.exclude_outside << " at " << i;
    }
}

ResizeAxis sized(int64_t in, int64_t out) { return {in, out, double(out) / double(in)}; }
ResizeAxis scaled(int64_t in, float scale) { return {in, scaled_extent(in, scale).value(), double(scale)}; }
ResizeAxis cropped(int64_t in, int64_t out, double from, double to) {
  return {in, out, double(out) / double(in), from, to};
}

constexpr Coordinates kCoordinates[] = {Coordinates::half_pixel,         Coordinates::half_pixel_symmetric,
                                        Coordinates::pytorch_half_pixel, Coordinates::align_corners,
                                        Coordinates::asymmetric,         Coordinates::tf_half_pixel_for_nn};

std::vector<Axes> shapes() {
  return {{sized(1, 1), sized(2, 2), sized(5, 9), sized(7, 20)},
          {sized(3, 3), scaled(7, 0.6f), scaled(40, 0.8f)},
          {sized(9, 4), sized(16, 16)},
          {sized(2, 2), sized(11, 3), sized(35, 35)},
          {sized(4, 7)},
          {scaled(60, 7.3f)},
          {sized(3, 1), sized(1, 6), sized(1, 1)},
          {sized(3, 5), sized(4, 2), sized(3, 6)},
          {sized(2, 2), sized(6, 12), sized(5, 10), sized(3, 3)},
          {sized(2, 2), scaled(4, 2.5f), scaled(4, 0.37f), sized(70, 70)},
          {sized(2, 5), sized(70, 70)}};
}

TEST(Resize, NearestInEveryMode) {
  for (const Axes& axes : shapes())
    for (Coordinates c : kCoordinates)
      for (NearestMode n :
           {NearestMode::round_prefer_floor, NearestMode::round_prefer_ceil, NearestMode::floor, NearestMode::ceil}) {
        check<float>({.nearest = n, .coordinates = c}, axes, 0);
        check<uint8_t>({.nearest = n, .coordinates = c}, axes, 0);
        check<int64_t>({.nearest = n, .coordinates = c}, axes, 0);
      }
}

TEST(Resize, LinearAndCubicInEveryMode) {
  for (const Axes& axes : shapes())
    for (Coordinates c : kCoordinates)
      for (ResizeMode m : {ResizeMode::linear, ResizeMode::cubic})
        for (bool antialias : {false, true})
          for (bool exclude : {false, true}) {
            ResizeParams p{.mode = m, .coordinates = c, .antialias = antialias, .exclude_outside = exclude};
            check<float>(p, axes, 2e-4);
            p.cubic_coeff_a = -0.5f;
            check<double>(p, axes, 1e-9);
          }
}

// Rows and slices longer than one unit of work, and channels last.
TEST(Resize, LongAxes) {
  for (const Axes& axes :
       std::vector<Axes>{{scaled(600, 7.3f)}, {sized(2, 3), sized(20000, 20000)}, {sized(2500, 2000), sized(4, 4)}})
    for (ResizeMode m : {ResizeMode::nearest, ResizeMode::linear, ResizeMode::cubic})
      check<float>({.mode = m}, axes, 2e-4);
}

TEST(Resize, EveryNumericType) {
  const Axes axes = {sized(2, 2), sized(5, 8), sized(9, 5)};
  for (ResizeMode m : {ResizeMode::linear, ResizeMode::cubic}) {
    const ResizeParams p{.mode = m};
    check<Float16>(p, axes, 0.1);
    check<BFloat16>(p, axes, 0.6);
    if (m == ResizeMode::linear) {  // cubic overshoots, which unsigned types cut
      check<uint8_t>(p, axes, 0.501);
      check<uint16_t>(p, axes, 0.501);
      check<uint32_t>(p, axes, 0.501);
      check<uint64_t>(p, axes, 0.501);
    }
    check<int8_t>(p, axes, m == ResizeMode::linear ? 0.501 : 30);
    check<int16_t>(p, axes, 0.501);
    check<int32_t>(p, axes, 0.501);
    check<int64_t>(p, axes, 0.501);
  }
}

TEST(Resize, CropAndResizeExtrapolates) {
  for (const Axes& axes : std::vector<Axes>{{sized(1, 1), cropped(4, 3, 0.4, 0.6), cropped(4, 3, 0.6, 1.7)},
                                            {sized(2, 2), cropped(6, 6, 0, 1), cropped(6, 6, 0.1, 0.9)},
                                            {cropped(5, 7, 0.9, -0.2)},
                                            {cropped(5, 1, 0.2, 0.8)},
                                            {sized(3, 3), cropped(8, 5, -0.5, 0.5), sized(40, 40)}})
    for (ResizeMode m : {ResizeMode::nearest, ResizeMode::linear, ResizeMode::cubic}) {
      const ResizeParams p{.mode = m, .coordinates = Coordinates::tf_crop_and_resize, .extrapolation_value = 10};
      check<float>(p, axes, 1e-4);
      check<double>(p, axes, 1e-9);
      check<int32_t>(p, axes, 0.501);
    }
}

TEST(Resize, P16DoesNotMixBatches) {
  const ResizeParams p{.nearest = NearestMode::ceil, .coordinates = Coordinates::tf_half_pixel_for_nn};
  const auto r = Resize::make(DType::kFloat, p, Axes{sized(2, 2), sized(1, 1), sized(2, 6), sized(2, 6)});
  ASSERT_TRUE(r.ok());
  const std::vector<float> out = run<float>(**r, Isa::scalar, {0, 0, 0, 0, 1, 1, 1, 1}, 72, 5);
  for (int i = 0; i < 72; ++i) EXPECT_EQ(out[i], i < 36 ? 0 : 1) << i;
}

TEST(Resize, AlignCornersUsesTheUnroundedLength) {
  const ResizeParams p{.mode = ResizeMode::linear, .coordinates = Coordinates::align_corners};
  const auto r = Resize::make(DType::kFloat, p, Axes{scaled(2, 0.6f), scaled(4, 0.6f)});
  ASSERT_TRUE(r.ok());
  const std::vector<float> out = run<float>(**r, Isa::scalar, {1, 2, 3, 4, 5, 6, 7, 8}, 2, 1);
  EXPECT_NEAR(out[0], 1, 1e-6);
  EXPECT_NEAR(out[1], 1 + 3 / (4 * 0.6 - 1), 1e-5);  // 3.142857, not 4
}

TEST(Resize, RoundingMovesNoCoordinateOffItsElement) {
  // 17/7 and 6/10 put output positions 8 and 4 on the elements 3 and 7, but not in the last bit of a double.
  const auto picked = [](NearestMode mode, int64_t in, int64_t out, int64_t at) {
    const auto r = Resize::make(DType::kFloat, {.nearest = mode}, Axes{sized(in, out)});
    std::vector<float> x(size_t(in), 0);
    std::iota(x.begin(), x.end(), 0.0f);
    return run<float>(**r, Isa::scalar, x, out, 100)[size_t(at)];
  };
  EXPECT_EQ(picked(NearestMode::ceil, 7, 17, 8), 3);
  EXPECT_EQ(picked(NearestMode::floor, 10, 6, 4), 7);
}

TEST(Resize, MovesStringsAndWideElements) {
  const Axes axes = {sized(2, 4)};
  const auto r = Resize::make(DType::kString, {}, axes);
  ASSERT_TRUE(r.ok());
  const std::vector<std::string> in{"left", "right"};
  std::vector<std::string> out(4);
  (*r)->run(Isa::scalar, 0, in.data(), out.data(), nullptr, nullptr, 0, (*r)->units(0));
  EXPECT_EQ(out, (std::vector<std::string>{"left", "left", "right", "right"}));
  EXPECT_EQ(Resize::make(DType::kString, {.mode = ResizeMode::linear}, axes).status().code(),
            absl::StatusCode::kUnimplemented);
  EXPECT_TRUE(Resize::make(DType::kComplex128, {}, axes).ok());
}

TEST(Resize, PicksByShape) {
  const ResizeParams linear{.mode = ResizeMode::linear};
  const auto made = [&](const ResizeParams& p, const Axes& a) {
    return std::string(Resize::make(DType::kFloat, p, a).value()->name());
  };
  EXPECT_EQ(made(linear, {sized(1, 1), sized(8, 8), sized(4, 8), sized(4, 8)}), "bilinear");
  EXPECT_EQ(made(linear, {sized(1, 1), sized(4, 8), sized(4, 8), sized(8, 8)}), "separable");
  EXPECT_EQ(made({}, {sized(4, 8)}), "nearest");
  EXPECT_EQ(made(linear, {sized(4, 4)}), "nearest");
}

TEST(Resize, RefusesWhatHasNoAnswer) {
  EXPECT_FALSE(Resize::make(DType::kFloat, {}, Axes{{0, 3, 1}}).ok());
  EXPECT_FALSE(Resize::make(DType::kFloat, {}, Axes{{2, 3, std::nan("")}}).ok());
  EXPECT_FALSE(Resize::make(DType::kFloat, {}, Axes{sized(int64_t{1} << 40, 1)}).ok());
  EXPECT_EQ((*Resize::make(DType::kFloat, {}, Axes{{0, 0, 1}, sized(2, 4)}))->units(0), 0);
  for (float scale : {0.0f, -1.0f, INFINITY, NAN}) EXPECT_FALSE(scaled_extent(5, scale).has_value()) << scale;
  EXPECT_FALSE(scaled_extent(int64_t{1} << 60, 1e30f).has_value());
  EXPECT_EQ(scaled_extent(5, 0.1f), 0);
  // A region that is no region reads nothing out of bounds.
  const ResizeParams p{
      .mode = ResizeMode::linear, .coordinates = Coordinates::tf_crop_and_resize, .extrapolation_value = 5};
  for (double bad : {std::nan(""), double(INFINITY), 1e300}) {
    const auto r = Resize::make(DType::kFloat, p, Axes{cropped(4, 3, bad, bad)});
    ASSERT_TRUE(r.ok());
    EXPECT_EQ(run<float>(**r, Isa::scalar, {1, 2, 3, 4}, 3, 1), (std::vector<float>{5, 5, 5}));
  }
}

}  // namespace
}  // namespace forethought::kernels
