// Reductions against a naive one over every mask of axes, types, NaN, zero-length axes; SIMD folds against plain ones.
#include "kernels/reduce/reduce.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <type_traits>
#include <vector>

#include "kernels/reduce/rows.h"

namespace forethought::kernels {
namespace {

const float kNaN = std::numeric_limits<float>::quiet_NaN();
const float kInf = std::numeric_limits<float>::infinity();

std::vector<Isa> tiers() {
  std::vector<Isa> t;
  for (Isa isa : {Isa::scalar, Isa::avx2, Isa::avx512})
    if (isa <= detected_isa()) t.push_back(isa);
  return t;
}

std::vector<float> random_floats(size_t n, unsigned seed) {
  std::mt19937 g(seed);
  std::uniform_real_distribution<float> u(-3, 3);
  std::vector<float> v(n);
  for (float& x : v) x = u(g);
  return v;
}

TEST(Rows, SimdAgreesWithPlainForSizesAndOffsets) {
  const std::vector<float> data = random_floats(200, 1);
  for (Isa isa : tiers())
    for (int64_t n = 0; n <= 70; ++n)
      for (int64_t offset : {0, 1, 3}) {
        const float* p = data.data() + offset;
        EXPECT_NEAR(row_sum(Isa::scalar, p, n), row_sum(isa, p, n), 1e-12);
        EXPECT_NEAR(row_square_deviation(Isa::scalar, p, n, 0.3), row_square_deviation(isa, p, n, 0.3), 1e-12);
        EXPECT_EQ(row_max(Isa::scalar, p, n, -kInf), row_max(isa, p, n, -kInf));
        EXPECT_EQ(row_min(Isa::scalar, p, n, kInf), row_min(isa, p, n, kInf));
        const int64_t rows = 6, stride = 17, cols = std::min<int64_t>(n, 90);
        for (int64_t r = 0; r <= rows; ++r) {
          std::vector<double> a(cols, 0.5), b(cols, 0.5);
          cols_sum(Isa::scalar, p, stride, r, cols, a.data());
          cols_sum(isa, p, stride, r, cols, b.data());
          std::vector<float> c(cols, -kInf), e(cols, -kInf), f(cols, kInf), h(cols, kInf);
          cols_max(Isa::scalar, p, stride, r, cols, c.data());
          cols_max(isa, p, stride, r, cols, e.data());
          cols_min(Isa::scalar, p, stride, r, cols, f.data());
          cols_min(isa, p, stride, r, cols, h.data());
          for (int64_t i = 0; i < cols; ++i) EXPECT_NEAR(a[i], b[i], 1e-12);
          EXPECT_EQ(c, e);
          EXPECT_EQ(f, h);
        }
      }
}

// P9: the answer must not depend on how many NaNs there are or where they stand.
TEST(Rows, P9NaNAtEveryPlace) {
  for (Isa isa : tiers())
    for (int n = 2; n <= 70; ++n) {
      std::vector<float> many(n, kNaN);
      many.back() = 42;
      EXPECT_TRUE(std::isnan(row_max(isa, many.data(), n, -kInf))) << n;
      EXPECT_TRUE(std::isnan(row_min(isa, many.data(), n, kInf))) << n;
      for (int at = 0; at < n; ++at) {
        std::vector<float> one(n, 1.f);
        one[at] = kNaN;
        EXPECT_TRUE(std::isnan(row_max(isa, one.data(), n, -kInf))) << n << ' ' << at;
        EXPECT_TRUE(std::isnan(row_min(isa, one.data(), n, kInf))) << n << ' ' << at;
        for (int64_t row = 0; row < 3; ++row) {
          std::vector<float> grid(3 * n, 2.f), max(n, -kInf), min(n, kInf);
          grid[row * n + at] = kNaN;
          cols_max(isa, grid.data(), n, 3, n, max.data());
          cols_min(isa, grid.data(), n, 3, n, min.data());
          for (int i = 0; i < n; ++i) {
            EXPECT_EQ(std::isnan(max[i]), i == at);
            EXPECT_EQ(std::isnan(min[i]), i == at);
          }
        }
      }
    }
}

template <typename T>
double to_double(T v) {
  if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>)
    return static_cast<float>(v);
  else
    return static_cast<double>(v);
}
template <typename T>
T from_int(int v) {
  if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>)
    return T(static_cast<float>(v));
  else
    return static_cast<T>(v);
}

double naive(ReduceKind kind, const std::vector<double>& v, bool integral) {
  double r = kind == ReduceKind::max ? -kInf : kind == ReduceKind::min ? kInf : 0;
  for (double x : v) {
    if (kind == ReduceKind::max)
      r = std::max(r, x);
    else if (kind == ReduceKind::min)
      r = std::min(r, x);
    else
      r += x;
  }
  if (kind == ReduceKind::mean) r /= static_cast<double>(v.size());
  return integral ? std::trunc(r) : r;
}

// Every mask of axes of `dims`, computed in two ranges, against sums over an index walk.
template <typename T>
void check_shape(Isa isa, ReduceKind kind, const std::vector<int64_t>& dims) {
  int64_t total = 1;
  for (int64_t d : dims) total *= d;
  std::mt19937 g(static_cast<unsigned>(total));
  std::vector<T> in(total);
  auto buffer = std::make_unique<T[]>(total);
  for (int64_t i = 0; i < total; ++i) {
    const int v = static_cast<int>(g() % 13);
    buffer[i] = from_int<T>(std::is_same_v<T, bool> ? v % 2 : std::is_unsigned_v<T> ? v : v - 6);
  }
  for (unsigned mask = 0; mask < (1u << dims.size()); ++mask) {
    auto axes = std::make_unique<bool[]>(dims.size());
    int64_t outputs = 1;
    for (size_t i = 0; i < dims.size(); ++i) {
      axes[i] = (mask >> i) & 1u;
      if (!axes[i]) outputs *= dims[i];
    }
    std::vector<std::vector<double>> parts(outputs);
    for (int64_t i = 0; i < total; ++i) {
      int64_t rest = i, o = 0, weight = 1;
      for (size_t a = dims.size(); a-- > 0;) {
        if (!axes[a]) o += rest % dims[a] * weight, weight *= dims[a];
        rest /= dims[a];
      }
      parts[o].push_back(to_double(buffer[i]));
    }
    const Reduction r = make_reduction(dims, {axes.get(), dims.size()});
    ASSERT_EQ(r.outputs, outputs);
    auto out = std::make_unique<T[]>(outputs);
    const int64_t middle = outputs / 3;
    reduce(isa, kind, dtype_of<T>, r, buffer.get(), out.get(), 0, middle);
    reduce(isa, kind, dtype_of<T>, r, buffer.get(), out.get(), middle, outputs);
    const double tolerance = std::is_same_v<T, BFloat16> ? 8e-3 : std::is_same_v<T, Float16> ? 1e-3 : 1e-6;
    for (int64_t o = 0; o < outputs; ++o) {
      const double want = naive(kind, parts[o], std::is_integral_v<T>);
      EXPECT_NEAR(to_double(out[o]), want, tolerance * std::max(1.0, std::abs(want)))
          << name(dtype_of<T>) << " mask " << mask;
    }
  }
}

TEST(Reduce, EveryMaskOfAxesAndType) {
  const std::vector<std::vector<int64_t>> shapes = {
      {}, {1}, {7}, {2, 3, 4, 5}, {3, 1, 19, 1, 2}, {2, 300}, {37, 3}, {2, 2, 2, 2, 2, 2}, {5, 1, 270}};
  for (Isa isa : tiers())
    for (const auto& dims : shapes)
      for (ReduceKind kind : {ReduceKind::sum, ReduceKind::mean, ReduceKind::max, ReduceKind::min})
        for (int t = 1; t < kDTypeCount; ++t) {
          const DType dtype = static_cast<DType>(t);
          if (!reduce_types(kind).contains(dtype)) continue;
          dispatch(dtype, NumberTypes{}, [&]<typename T>() { check_shape<T>(isa, kind, dims); });
          if (dtype == DType::kBool) check_shape<bool>(isa, kind, dims);
        }
}

TEST(Reduce, TypesAreTheSchemas) {
  const TypeSet sums = TypeSet(DType::kFloat) | DType::kDouble | DType::kFloat16 | DType::kBFloat16 | DType::kInt32 |
                       DType::kInt64 | DType::kUint32 | DType::kUint64;
  EXPECT_EQ(reduce_types(ReduceKind::sum).mask, sums.mask);
  EXPECT_EQ(reduce_types(ReduceKind::mean).mask, sums.mask);
  EXPECT_EQ(reduce_types(ReduceKind::max).mask, (sums | DType::kInt8 | DType::kUint8 | DType::kBool).mask);
}

template <typename T>
T reduce_one(ReduceKind kind, std::vector<T> in) {
  const bool axes[] = {true};
  const int64_t dims[] = {static_cast<int64_t>(in.size())};
  T out = from_int<T>(77);
  reduce(detected_isa(), kind, dtype_of<T>, make_reduction(dims, axes), in.data(), &out, 0, 1);
  return out;
}

// P10: a zero-length axis gives the identity of the reduction.
TEST(Reduce, P10ZeroLengthAxis) {
  const int64_t dims[] = {2, 0, 4};
  const bool axes[] = {false, true, false};
  const Reduction r = make_reduction(dims, axes);
  EXPECT_EQ(r.outputs, 8);
  std::vector<float> out(8, 9.f);
  reduce(detected_isa(), ReduceKind::sum, DType::kFloat, r, nullptr, out.data(), 0, 8);
  EXPECT_EQ(out, std::vector<float>(8, 0.f));
  EXPECT_EQ(reduce_one<float>(ReduceKind::sum, {}), 0.f);
  EXPECT_TRUE(std::isnan(reduce_one<float>(ReduceKind::mean, {})));
  EXPECT_EQ(reduce_one<float>(ReduceKind::max, {}), -kInf);
  EXPECT_EQ(static_cast<float>(reduce_one<Float16>(ReduceKind::min, {})), kInf);
  EXPECT_EQ(reduce_one<int64_t>(ReduceKind::max, {}), std::numeric_limits<int64_t>::lowest());
  EXPECT_EQ(reduce_one<uint8_t>(ReduceKind::min, {}), 255);
  for (ReduceKind kind : {ReduceKind::min, ReduceKind::max}) {
    const int64_t none[] = {0};
    const bool all[] = {true};
    uint8_t out_byte = 9;
    reduce(detected_isa(), kind, DType::kBool, make_reduction(none, all), nullptr, &out_byte, 0, 1);
    EXPECT_EQ(out_byte, kind == ReduceKind::min ? 1 : 0);
  }
  EXPECT_EQ(reduce_one<int32_t>(ReduceKind::mean, {}), 0);
  // Kept axes of size zero: nothing to write.
  const bool other[] = {true, false, true};
  EXPECT_EQ(make_reduction(dims, other).outputs, 0);
}

TEST(Reduce, EdgesOfTypes) {
  EXPECT_EQ(reduce_one<int32_t>(ReduceKind::sum, {2147483647, 1}), std::numeric_limits<int32_t>::min());
  EXPECT_EQ(reduce_one<int32_t>(ReduceKind::mean, {-3, -4}), -3);
  EXPECT_EQ(reduce_one<uint64_t>(ReduceKind::mean, {~0ull - 1, 1}), ~0ull / 2);
  EXPECT_EQ(reduce_one<float>(ReduceKind::sum, {kInf, 1}), kInf);
  EXPECT_TRUE(std::isnan(reduce_one<float>(ReduceKind::sum, {kInf, -kInf})));
  EXPECT_TRUE(std::isnan(reduce_one<double>(ReduceKind::min, {1, kNaN, 0})));
  EXPECT_TRUE(std::isnan(static_cast<float>(reduce_one<BFloat16>(ReduceKind::max, {BFloat16(1.f), BFloat16(kNaN)}))));
  EXPECT_EQ(static_cast<float>(reduce_one<Float16>(ReduceKind::sum, {Float16(60000.f), Float16(60000.f)})), kInf);
}

TEST(Reduce, LongSumsKeepTheirAccuracy) {
  for (Isa isa : tiers()) {
    std::vector<float> in(1 << 20, 0.1f);
    const bool all[] = {true, true}, first[] = {true, false};
    const int64_t dims[] = {1 << 17, 8};
    std::vector<float> out(8);
    reduce(isa, ReduceKind::mean, DType::kFloat, make_reduction(dims, all), in.data(), out.data(), 0, 1);
    EXPECT_EQ(out[0], 0.1f);
    reduce(isa, ReduceKind::mean, DType::kFloat, make_reduction(dims, first), in.data(), out.data(), 0, 8);
    EXPECT_EQ(out[7], 0.1f);
  }
}

}  // namespace
}  // namespace forethought::kernels
