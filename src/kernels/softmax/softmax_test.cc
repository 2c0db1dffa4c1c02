// Softmax and LogSoftmax against a naive one in double: sizes, strides, types, in place, infinities and NaN.
#include "kernels/softmax/softmax.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "kernels/softmax/exp_rows.h"

namespace forethought::kernels {
namespace {

const double kInf = std::numeric_limits<double>::infinity();

std::vector<Isa> tiers() {
  std::vector<Isa> t;
  for (Isa isa : {Isa::scalar, Isa::avx2, Isa::avx512})
    if (isa <= detected_isa()) t.push_back(isa);
  return t;
}

TEST(ExpRows, ExponentialUpToZero) {
  std::vector<float> in, out;
  for (double x = -110; x <= 0; x += 0.00937) in.push_back(static_cast<float>(x));
  for (float x : {0.f, -0.f, -87.3f, -87.f, -1e-20f, -3.4e38f, -static_cast<float>(kInf)}) in.push_back(x);
  out.resize(in.size());
  for (Isa isa : tiers()) {
    for (float shift : {0.f, 3.f}) {
      std::vector<float> shifted = in;
      for (float& x : shifted) x += shift;
      const double sum = row_exp(isa, shifted.data(), out.data(), static_cast<int64_t>(in.size()), shift);
      double want_sum = 0;
      for (size_t i = 0; i < in.size(); ++i) {
        const double want = std::exp(static_cast<double>(shifted[i] - shift));
        want_sum += want;
        EXPECT_NEAR(out[i], want, 2.5e-7 * want + 2e-38) << name(isa) << ' ' << in[i];
      }
      EXPECT_NEAR(sum, want_sum, 1e-6 * want_sum);
    }
    float nan = std::numeric_limits<float>::quiet_NaN(), r = 0;
    EXPECT_TRUE(std::isnan(row_exp(isa, &nan, &r, 1, 0)) && std::isnan(r));
  }
}

template <typename T>
T make(double v) {
  if constexpr (std::is_same_v<T, double>)
    return v;
  else
    return T(static_cast<float>(v));
}
template <typename T>
double value(T v) {
  if constexpr (std::is_same_v<T, double>)
    return v;
  else
    return static_cast<float>(v);
}

std::vector<double> naive(SoftmaxKind kind, const std::vector<double>& in, int64_t outer, int64_t n, int64_t inner) {
  std::vector<double> out(in.size());
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t c = 0; c < inner; ++c) {
      const auto at = [&](int64_t i) { return (o * n + i) * inner + c; };
      double max = -kInf, sum = 0;
      for (int64_t i = 0; i < n; ++i) max = std::isnan(in[at(i)]) ? in[at(i)] : std::max(max, in[at(i)]);
      for (int64_t i = 0; i < n; ++i) sum += std::exp(in[at(i)] - max);
      for (int64_t i = 0; i < n; ++i)
        out[at(i)] = kind == SoftmaxKind::softmax ? std::exp(in[at(i)] - max) / sum : in[at(i)] - max - std::log(sum);
    }
  return out;
}

// x − max is rounded once in float (halves compute in float too), which costs up to half a unit of a spread near 30:
// 1e-6.
template <typename T>
void check(Isa isa, int64_t outer, int64_t n, int64_t inner, double absolute, double relative) {
  std::mt19937 g(static_cast<unsigned>(n * 31 + inner));
  std::normal_distribution<double> u(0, 4);
  std::vector<double> exact(outer * n * inner);
  std::vector<T> in(exact.size() + 1), out(in.size());  // one past the start: odd alignment
  for (size_t i = 0; i < exact.size(); ++i) {
    in[i + 1] = make<T>(u(g));
    exact[i] = value(in[i + 1]);
  }
  for (SoftmaxKind kind : {SoftmaxKind::softmax, SoftmaxKind::log_softmax}) {
    const std::vector<double> want = naive(kind, exact, outer, n, inner);
    const double rounding = std::is_same_v<T, double> ? 0 : 1e-6;
    const double rel = relative + rounding, abs = absolute + (kind == SoftmaxKind::log_softmax ? rounding : 0);
    const auto compare = [&](const std::vector<T>& got, const char* what) {
      for (size_t i = 0; i < want.size(); ++i)
        ASSERT_NEAR(value(got[i + 1]), want[i], abs + rel * std::abs(want[i]))
            << what << ' ' << name(isa) << ' ' << name(dtype_of<T>) << ' ' << outer << 'x' << n << 'x' << inner
            << " at " << i;
    };
    const int64_t lines = outer * inner, cut = lines / 2 + 1;
    softmax(isa, kind, dtype_of<T>, in.data() + 1, out.data() + 1, n, inner, 0, std::min(cut, lines));
    softmax(isa, kind, dtype_of<T>, in.data() + 1, out.data() + 1, n, inner, std::min(cut, lines), lines);
    compare(out, "apart");
    std::vector<T> both = in;
    softmax(isa, kind, dtype_of<T>, both.data() + 1, both.data() + 1, n, inner, 0, lines);
    compare(both, "in place");
  }
}

TEST(Softmax, SizesStridesAndTypes) {
  for (Isa isa : tiers()) {
    for (int64_t n : {1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 64, 511, 513, 1030, 2100}) {
      check<float>(isa, 2, n, 1, 2e-8, 0);
      check<double>(isa, 2, n, 1, 1e-15, 1e-14);
      check<Float16>(isa, 2, n, 1, 1e-7, 1e-3);
      check<BFloat16>(isa, 2, n, 1, 1e-7, 8e-3);
    }
    for (int64_t inner : {2, 5, 8, 17, 255, 300})
      for (int64_t n : {1, 3, 70}) {
        check<float>(isa, 2, n, inner, 2e-8, 0);
        check<double>(isa, 2, n, inner, 1e-15, 1e-14);
        check<Float16>(isa, 2, n, inner, 1e-7, 1e-3);
        check<BFloat16>(isa, 2, n, inner, 1e-7, 8e-3);
      }
  }
}

// The logarithm of a share that is nearly 1 is the sum of all other shares, each far below the unit of a float sum.
TEST(Softmax, LogarithmsNearZeroKeepTheirDigits) {
  for (Isa isa : tiers())
    for (int64_t n : {2, 8, 17, 66, 1100})
      for (int64_t inner : {1, 9}) {
        std::vector<float> in(n * inner), out(in.size());
        for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i * 7 % 13) / 4;
        for (int64_t c = 0; c < inner; ++c) in[n / 2 * inner + c] = 18;
        const std::vector<double> want = naive(SoftmaxKind::log_softmax, {in.begin(), in.end()}, 1, n, inner);
        softmax(isa, SoftmaxKind::log_softmax, DType::kFloat, in.data(), out.data(), n, inner, 0, inner);
        for (size_t i = 0; i < in.size(); ++i)
          ASSERT_NEAR(out[i], want[i], 1e-6 * std::abs(want[i]))
              << name(isa) << ' ' << n << 'x' << inner << " at " << i;
      }
}

TEST(Softmax, InfinitiesNaNAndLargeNumbers) {
  const float inf = static_cast<float>(kInf), nan = std::numeric_limits<float>::quiet_NaN();
  struct Row {
    std::vector<float> in, softmax, log;
  };
  const Row rows[] = {
      {{-inf, -inf}, {nan, nan}, {nan, nan}},
      {{-inf, 3}, {0, 1}, {-inf, 0}},
      {{inf, 3}, {nan, nan}, {nan, nan}},
      {{nan, 3}, {nan, nan}, {nan, nan}},
      {{10000, 10000}, {.5f, .5f}, {-0.6931472f, -0.6931472f}},
      {{-1000, 0}, {0, 1}, {-1000, 0}},
      {{3.4e38f, -3.4e38f}, {1, 0}, {0, -inf}},
  };
  for (Isa isa : tiers())
    for (const Row& row : rows)
      for (int64_t inner : {int64_t{1}, int64_t{9}})
        for (SoftmaxKind kind : {SoftmaxKind::softmax, SoftmaxKind::log_softmax}) {
          std::vector<float> in(2 * inner), out(2 * inner);
          for (int64_t i = 0; i < 2 * inner; ++i) in[i] = row.in[i / inner];
          softmax(isa, kind, DType::kFloat, in.data(), out.data(), 2, inner, 0, inner);
          for (int64_t i = 0; i < 2 * inner; ++i) {
            const float want = (kind == SoftmaxKind::softmax ? row.softmax : row.log)[i / inner];
            if (std::isnan(want))
              EXPECT_TRUE(std::isnan(out[i])) << name(isa) << ' ' << row.in[0] << ' ' << inner;
            else
              EXPECT_FLOAT_EQ(out[i], want) << name(isa) << ' ' << row.in[0] << ' ' << inner;
          }
        }
}

TEST(Softmax, ANaNAnywhereSpoilsItsRowAlone) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (Isa isa : tiers())
    for (int64_t n : {1, 5, 16, 17, 33, 64, 65, 100, 131})
      for (int64_t at = 0; at < n; at += 3) {
        std::vector<float> in(3 * n, 1.f), out(3 * n);
        in[n + at] = nan;
        softmax(isa, SoftmaxKind::softmax, DType::kFloat, in.data(), out.data(), n, 1, 0, 3);
        for (int64_t i = 0; i < 3 * n; ++i) {
          if (i / n == 1) {
            ASSERT_TRUE(std::isnan(out[i])) << name(isa) << ' ' << n << ' ' << at << ' ' << i;
          } else {
            ASSERT_FLOAT_EQ(out[i], 1.f / static_cast<float>(n));
          }
        }
      }
}

TEST(Softmax, NothingToDo) {
  softmax(detected_isa(), SoftmaxKind::softmax, DType::kFloat, nullptr, nullptr, 0, 3, 0, 3);
  softmax(detected_isa(), SoftmaxKind::softmax, DType::kFloat, nullptr, nullptr, 3, 0, 0, 0);
}

}  // namespace
}  // namespace forethought::kernels
