// Normalisations against naive ones in double: layouts, types, training moments, constant rows; SIMD against plain.
#include "kernels/norm/norm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "kernels/norm/affine.h"

namespace forethought::kernels {
namespace {

std::vector<Isa> tiers() {
  std::vector<Isa> t;
  for (Isa isa : {Isa::scalar, Isa::avx2, Isa::avx512})
    if (isa <= detected_isa()) t.push_back(isa);
  return t;
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
template <typename T>
double tolerance(double want) {
  const double scale = std::max(1.0, std::abs(want));
  return scale * (std::is_same_v<T, double>    ? 1e-13
                  : std::is_same_v<T, float>   ? 1e-6
                  : std::is_same_v<T, Float16> ? 1e-3
                                               : 8e-3);
}
template <typename T>
std::vector<T> random(size_t n, unsigned seed, double low = -2, double high = 2) {
  std::mt19937 g(seed);
  std::uniform_real_distribution<double> u(low, high);
  std::vector<T> v(n);
  for (T& x : v) x = make<T>(u(g));
  return v;
}

TEST(AffineRows, SimdAgreesWithPlainForSizesAndOffsets) {
  const std::vector<float> x = random<float>(100, 1), a = random<float>(100, 2), b = random<float>(100, 3, 0.5, 2);
  for (Isa isa : tiers())
    for (int64_t n = 0; n <= 40; ++n)
      for (int64_t o : {0, 1, 3}) {
        std::vector<float> want(2 * n + 1, 7.f), got(2 * n + 1, 7.f);
        const auto compare = [&](const char* what) {
          for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(want[i], got[i], 2e-6) << what << ' ' << n;
        };
        row_affine(Isa::scalar, &x[o], want.data(), n, 0.3f, 1.7f, -0.2f);
        row_affine(isa, &x[o], got.data(), n, 0.3f, 1.7f, -0.2f);
        compare("row_affine");
        cols_affine(Isa::scalar, &x[o], want.data(), 2, n, &a[o], &b[1], &a[2]);
        cols_affine(isa, &x[o], got.data(), 2, n, &a[o], &b[1], &a[2]);
        compare("cols_affine");
        row_add_squares(Isa::scalar, &x[o], want.data(), n);
        row_add_squares(isa, &x[o], got.data(), n);
        compare("row_add_squares");
        for (float beta : {0.75f, 0.5f, 1.0f, 0.3f}) {
          row_divide_power(Isa::scalar, &x[o], &b[o], want.data(), n, 1.5f, 0.2f, beta);
          row_divide_power(isa, &x[o], &b[o], got.data(), n, 1.5f, 0.2f, beta);
          compare("row_divide_power");
        }
        EXPECT_EQ(got.back(), 7.f);
      }
}

template <typename T, typename M>
void check_batch_norm(Isa isa, int64_t batch, int64_t channels, int64_t inner) {
  const std::vector<T> x = random<T>(batch * channels * inner, 5);
  const std::vector<float> scale = random<float>(channels, 6), bias = random<float>(channels, 7);
  const std::vector<M> mean = random<M>(channels, 8), var = random<M>(channels, 9, 0.1, 2);
  const auto params = [&](int64_t padded) {
    std::vector<double> p(3 * padded);  // room for either compute type
    EXPECT_LE(batch_norm_params_bytes(dtype_of<T>, padded), p.size() * sizeof(double));
    batch_norm_params(isa, dtype_of<T>, channels, padded, 1e-3, DType::kFloat, scale.data(), bias.data(), dtype_of<M>,
                      mean.data(), var.data(), p.data());
    return p;
  };
  const auto want = [&](int64_t n, int64_t c, int64_t i) {
    return (value(x[(n * channels + c) * inner + i]) - value(mean[c])) / std::sqrt(value(var[c]) + 1e-3) * scale[c] +
           bias[c];
  };
  std::vector<T> y(x.size());
  const int64_t rows = batch * channels;
  const std::vector<double> p = params(channels);
  batch_norm(isa, dtype_of<T>, {channels, inner}, p.data(), x.data(), y.data(), 0, rows / 2);
  batch_norm(isa, dtype_of<T>, {channels, inner}, p.data(), x.data(), y.data(), rows / 2, rows);
  for (int64_t n = 0; n < batch; ++n)
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t i = 0; i < inner; ++i)
        ASSERT_NEAR(value(y[(n * channels + c) * inner + i]), want(n, c, i), 3 * tolerance<T>(want(n, c, i)));
  for (int64_t block : {int64_t{8}, int64_t{16}, channels}) {
    if (block == 1) continue;
    const int64_t padded = (channels + block - 1) / block * block, groups = padded / block;
    const auto at = [&](int64_t n, int64_t c, int64_t i) {
      return ((n * groups + c / block) * inner + i) * block + c % block;
    };
    std::vector<T> blocked(batch * padded * inner, make<T>(0)), out(blocked.size(), make<T>(9));
    for (int64_t n = 0; n < batch; ++n)
      for (int64_t c = 0; c < channels; ++c)
        for (int64_t i = 0; i < inner; ++i) blocked[at(n, c, i)] = x[(n * channels + c) * inner + i];
    const std::vector<double> q = params(padded);
    batch_norm(isa, dtype_of<T>, {padded, inner, block}, q.data(), blocked.data(), out.data(), 0, batch * groups);
    for (int64_t n = 0; n < batch; ++n)
      for (int64_t c = 0; c < padded; ++c)
        for (int64_t i = 0; i < inner; ++i) {
          const double expected = c < channels ? want(n, c, i) : 0.0;
          ASSERT_NEAR(value(out[at(n, c, i)]), expected, 3 * tolerance<T>(expected)) << "block " << block;
        }
  }
}

TEST(BatchNorm, LayoutsAndTypes) {
  for (Isa isa : tiers())
    for (int64_t channels : {1, 3, 8, 16, 19})
      for (int64_t inner : {1, 7, 33})
        for (DType t : {DType::kFloat, DType::kDouble, DType::kFloat16, DType::kBFloat16})
          dispatch(t, FloatTypes{}, [&]<typename T>() {
            check_batch_norm<T, double>(isa, 2, channels, inner);
            check_batch_norm<T, float>(isa, 2, channels, inner);
          });
}

template <typename T>
void check_moments_and_instances(Isa isa, int64_t batch, int64_t channels, int64_t inner) {
  const std::vector<T> x = random<T>(batch * channels * inner, 11, 2, 3);
  const std::vector<T> scale = random<T>(channels, 12), bias = random<T>(channels, 13);
  const auto at = [&](int64_t n, int64_t c, int64_t i) { return value(x[(n * channels + c) * inner + i]); };
  for (int64_t c = 0; c < channels; ++c) {
    double mean = 0, var = 0;
    for (int64_t n = 0; n < batch; ++n)
      for (int64_t i = 0; i < inner; ++i) mean += at(n, c, i) / static_cast<double>(batch * inner);
    for (int64_t n = 0; n < batch; ++n)
      for (int64_t i = 0; i < inner; ++i) var += std::pow(at(n, c, i) - mean, 2) / static_cast<double>(batch * inner);
    const Moments m = channel_moments(isa, dtype_of<T>, x.data(), batch, channels, inner, c);
    EXPECT_NEAR(m.mean, mean, 1e-12);
    EXPECT_NEAR(m.variance, var, 1e-12);
  }
  std::vector<T> y = x;  // in place
  instance_norm(isa, dtype_of<T>, channels, inner, 1e-4, scale.data(), bias.data(), y.data(), y.data(), 0, batch);
  instance_norm(isa, dtype_of<T>, channels, inner, 1e-4, scale.data(), bias.data(), y.data(), y.data(), batch,
                batch * channels);
  for (int64_t r = 0; r < batch * channels; ++r) {
    double mean = 0, var = 0;
    for (int64_t i = 0; i < inner; ++i) mean += value(x[r * inner + i]) / static_cast<double>(inner);
    for (int64_t i = 0; i < inner; ++i) var += std::pow(value(x[r * inner + i]) - mean, 2) / static_cast<double>(inner);
    for (int64_t i = 0; i < inner; ++i) {
      const double want = (value(x[r * inner + i]) - mean) / std::sqrt(var + 1e-4) * value(scale[r % channels]) +
                          value(bias[r % channels]);
      ASSERT_NEAR(value(y[r * inner + i]), want, 3 * tolerance<T>(want));
    }
  }
}

TEST(InstanceNorm, SizesAndTypes) {
  for (Isa isa : tiers())
    for (int64_t inner : {1, 5, 16, 33, 600, 1025})
      for (DType t : {DType::kFloat, DType::kDouble, DType::kFloat16, DType::kBFloat16})
        dispatch(t, FloatTypes{}, [&]<typename T>() { check_moments_and_instances<T>(isa, 2, 3, inner); });
}

// P12: a constant row has variance zero, not a little less.
TEST(InstanceNorm, P12ConstantRow) {
  const float scale = 1, bias = 0;
  for (Isa isa : tiers())
    for (float v : {1234.f, 1e6f, 0.1f}) {
      std::vector<float> x(256, v), y(256, 5.f);
      instance_norm(isa, DType::kFloat, 1, 256, 1e-5, &scale, &bias, x.data(), y.data(), 0, 1);
      EXPECT_EQ(y, std::vector<float>(256, 0.f)) << v;
    }
}

template <typename T>
void check_lrn(Isa isa, const Lrn& p, int64_t channels, int64_t inner) {
  const int64_t batch = 2;
  const std::vector<T> x = random<T>(batch * channels * inner, 21);
  std::vector<T> y(x.size());
  const int64_t rows = batch * channels;
  lrn(isa, dtype_of<T>, p, channels, inner, x.data(), y.data(), 0, rows / 3);
  lrn(isa, dtype_of<T>, p, channels, inner, x.data(), y.data(), rows / 3, rows);
  for (int64_t n = 0; n < batch; ++n)
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t i = 0; i < inner; ++i) {
        double squares = 0;
        for (int64_t o = 0; o < channels; ++o)
          if (o >= c - (p.size - 1) / 2 && o <= c + p.size / 2)
            squares += std::pow(value(x[(n * channels + o) * inner + i]), 2);
        const int64_t at = (n * channels + c) * inner + i;
        const double want =
            value(x[at]) / std::pow(p.bias + double{p.alpha} / static_cast<double>(p.size) * squares, double{p.beta});
        // k is alpha / size in float for float tensors.
        ASSERT_NEAR(value(y[at]), want, 3 * tolerance<T>(want)) << name(dtype_of<T>) << " size " << p.size;
      }
}

TEST(Lrn, WindowsPowersAndTypes) {
  for (Isa isa : tiers())
    for (const Lrn& p : {Lrn{3, 1e-4f, 0.75f, 1}, Lrn{1, 2, 0.5f, 2}, Lrn{4, 0.5f, 1, 1}, Lrn{5, 0.5f, 0.6f, 1.5f},
                         Lrn{99, 1, 0.75f, 1}})
      for (int64_t inner : {1, 17, 530})
        for (DType t : {DType::kFloat, DType::kDouble, DType::kFloat16, DType::kBFloat16})
          dispatch(t, FloatTypes{}, [&]<typename T>() { check_lrn<T>(isa, p, 6, inner); });
}

TEST(Lrn, BlockedChannelsAgreeWithPlain) {
  for (Isa isa : tiers())
    for (int64_t channels : {1, 5, 8, 24, 1100})
      for (int64_t size : {1, 4, 5, 64})
        for (int64_t block : {int64_t{8}, int64_t{16}, channels}) {
          const int64_t batch = 2, inner = 3, groups = (channels + block - 1) / block;
          const Lrn p{size, 0.5f, 0.75f, 0};  // bias zero: padding must not become 0 / 0
          const std::vector<float> x = random<float>(batch * channels * inner, 31, 0.1, 2);
          std::vector<float> want(x.size()), in(batch * groups * inner * block), got(in.size(), 7.f);
          const auto at = [&](int64_t n, int64_t c, int64_t i) {
            return ((n * groups + c / block) * inner + i) * block + c % block;
          };
          for (int64_t n = 0; n < batch; ++n)
            for (int64_t c = 0; c < channels; ++c)
              for (int64_t i = 0; i < inner; ++i) in[at(n, c, i)] = x[(n * channels + c) * inner + i];
          lrn(Isa::scalar, DType::kFloat, p, channels, inner, x.data(), want.data(), 0, batch * channels);
          lrn_blocked(isa, p, channels, inner, block, in.data(), got.data(), 0, 2);
          lrn_blocked(isa, p, channels, inner, block, in.data(), got.data(), 2, batch * inner);
          for (int64_t n = 0; n < batch; ++n)
            for (int64_t c = 0; c < groups * block; ++c)
              for (int64_t i = 0; i < inner; ++i) {
                const float expected = c < channels ? want[(n * channels + c) * inner + i] : 0.f;
                ASSERT_NEAR(got[at(n, c, i)], expected, 2e-6 * std::max(1.f, expected))
                    << name(isa) << " channels " << channels << " size " << size << " block " << block;
              }
        }
}

}  // namespace
}  // namespace forethought::kernels
