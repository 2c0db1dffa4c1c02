// Pooling: known answers, and the SIMD kernels against the plain ones.
#include "kernels/pool/pool.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace forethought::kernels {
namespace {

Window window(WindowDims in, WindowDims kernel, WindowDims strides, WindowDims dilations, WindowDims begin,
              WindowDims end) {
  Window w{in, {}, kernel, strides, dilations, begin, end};
  for (size_t d = 0; d < in.size(); ++d)
    w.out.push_back((in[d] + begin[d] + end[d] - (kernel[d] - 1) * dilations[d] - 1) / strides[d] + 1);
  return w;
}

const Window kWindows[] = {
    window({5}, {2}, {1}, {1}, {0}, {0}),
    window({40}, {3}, {2}, {2}, {1}, {2}),
    window({5, 7}, {2, 3}, {1, 2}, {1, 1}, {1, 0}, {0, 2}),
    window({9, 35}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}),
    window({6, 6}, {2, 2}, {1, 1}, {2, 3}, {1, 2}, {2, 1}),
    window({3, 3}, {2, 2}, {2, 2}, {3, 3}, {2, 2}, {2, 2}),
    window({4, 5, 6}, {2, 3, 2}, {1, 2, 2}, {1, 1, 2}, {1, 1, 0}, {0, 1, 1}),
    window({2, 3, 2, 5}, {1, 2, 2, 2}, {1, 1, 1, 2}, {1, 1, 1, 1}, {0, 1, 0, 1}, {0, 0, 1, 1}),
    window({2, 3000}, {2, 1500}, {1, 100}, {1, 1}, {0, 700}, {0, 0}),
};

std::vector<Isa> tiers() {
  std::vector<Isa> r{Isa::scalar};
  for (Isa i : {Isa::avx2, Isa::avx512})
    if (i <= detected_isa()) r.push_back(i);
  return r;
}

std::vector<float> random(int64_t n, bool with_nan) {
  std::mt19937 rng(7);
  std::uniform_real_distribution<float> u(-1, 1);
  std::vector<float> v(n);
  for (float& f : v) f = with_nan && rng() % 11 == 0 ? NAN : u(rng);
  return v;
}

void expect_same(const std::vector<float>& got, const std::vector<float>& want, float tolerance, const char* what) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    if (std::isnan(want[i])) {
      ASSERT_TRUE(std::isnan(got[i])) << what << " at " << i << ": " << got[i];
    } else {
      ASSERT_NEAR(got[i], want[i], tolerance) << what << " at " << i;
    }
  }
}

TEST(Pool, EveryTierAndLayoutAgreesWithTheReference) {
  const int64_t planes = 16;
  for (Isa isa : tiers())
    for (const Window& w : kWindows)
      for (PoolKind kind : {PoolKind::max, PoolKind::average, PoolKind::average_count_pad}) {
        const int64_t in = volume(w.in), out = volume(w.out);
        const auto x = random(planes * in, true);
        std::vector<float> want(planes * out), got(planes * out, 99.0f);
        if (kind == PoolKind::max) {
          max_pool_reference<float>(w, x.data(), want.data(), nullptr, false, 0, planes);
        } else {
          average_pool_reference<float>(w, x.data(), want.data(), kind == PoolKind::average_count_pad, 0, planes);
        }
        pool_f32(isa, kind, w, 1, x.data(), got.data(), 0, 5);
        pool_f32(isa, kind, w, 1, x.data(), got.data(), 5, planes);
        expect_same(got, want, 1e-4f, name(isa));
        if (isa == Isa::scalar) continue;
        for (int64_t lanes : {8, 16}) {
          std::vector<float> xb(x.size()), yb(got.size(), 99.0f), back(got.size());
          const int64_t blocks = planes / lanes;
          for (int64_t p = 0; p < planes; ++p)
            for (int64_t s = 0; s < in; ++s) xb[(p / lanes * in + s) * lanes + p % lanes] = x[p * in + s];
          pool_f32(isa, kind, w, lanes, xb.data(), yb.data(), 0, 1);
          pool_f32(isa, kind, w, lanes, xb.data(), yb.data(), 1, blocks);
          for (int64_t p = 0; p < planes; ++p)
            for (int64_t s = 0; s < out; ++s) back[p * out + s] = yb[(p / lanes * out + s) * lanes + p % lanes];
          expect_same(back, want, 1e-4f, "blocked");
        }
      }
}

TEST(Pool, GlobalAgreesInEveryTierAndLayout) {
  for (Isa isa : tiers())
    for (PoolKind kind : {PoolKind::max, PoolKind::average})
      for (int64_t spatial : {1, 2, 7, 15, 16, 17, 33, 49, 300})
        for (int64_t lanes : {1, 8, 16}) {
          if (isa == Isa::scalar && lanes > 1) continue;
          const int64_t planes = 3;
          const auto x = random(planes * lanes * spatial, spatial % 2 == 0);
          std::vector<float> plain(x.size()), want(planes * lanes), got(planes * lanes, 99.0f);
          for (int64_t p = 0; p < planes; ++p)
            for (int64_t l = 0; l < lanes; ++l)
              for (int64_t s = 0; s < spatial; ++s)
                plain[(p * lanes + l) * spatial + s] = x[(p * spatial + s) * lanes + l];
          if (kind == PoolKind::max) {
            global_max_pool<float>(plain.data(), want.data(), spatial, 0, planes * lanes);
          } else {
            global_average_pool<float>(plain.data(), want.data(), spatial, 0, planes * lanes);
          }
          global_pool_f32(isa, kind, lanes, x.data(), got.data(), spatial, 0, 1);
          global_pool_f32(isa, kind, lanes, x.data(), got.data(), spatial, 1, planes);
          expect_same(got, want, 1e-5f, name(isa));
        }
}

TEST(Pool, MaxKeepsPositions) {
  const Window w = window({2, 3}, {2, 2}, {1, 1}, {1, 1}, {0, 0}, {0, 0});
  const std::vector<float> x{0, 0, 0, 0, 0, 0, /* plane 1 */ 1, 5, 2, 9, 3, 4};
  std::vector<float> y(4);
  std::vector<int64_t> rows(4), columns(4);
  max_pool_reference<float>(w, x.data(), y.data(), rows.data(), false, 0, 2);
  max_pool_reference<float>(w, x.data(), y.data(), columns.data(), true, 0, 2);
  EXPECT_EQ(y, (std::vector<float>{0, 0, 9, 5}));
  EXPECT_EQ(rows, (std::vector<int64_t>{0, 1, 6 + 3, 6 + 1}));
  EXPECT_EQ(columns, (std::vector<int64_t>{0, 2, 6 + 1, 6 + 2}));
}

TEST(Pool, AverageDividesByWhatItCounts) {
  const Window w = window({4}, {3}, {2}, {1}, {1}, {1});
  const std::vector<float> x{1, 2, 3, 4};
  std::vector<float> y(2);
  average_pool_reference<float>(w, x.data(), y.data(), false, 0, 1);
  EXPECT_EQ(y, (std::vector<float>{1.5f, 3.0f}));
  average_pool_reference<float>(w, x.data(), y.data(), true, 0, 1);
  EXPECT_EQ(y, (std::vector<float>{1.0f, 3.0f}));
  // A last window that reaches beyond the padding (ceil_mode) does not count what lies there.
  Window beyond = w;
  beyond.kernel = {3}, beyond.strides = {3}, beyond.pads_begin = {0}, beyond.pads_end = {0}, beyond.out = {2};
  average_pool_reference<float>(beyond, x.data(), y.data(), true, 0, 1);
  EXPECT_EQ(y, (std::vector<float>{2.0f, 4.0f}));
}

TEST(Pool, EmptyWindowsAndPlanes) {
  const Window w = window({1}, {1}, {2}, {1}, {2}, {2});  // the windows read padding, the element, padding
  const float x[] = {5};
  std::vector<float> y(3);
  for (Isa isa : tiers()) {
    pool_f32(isa, PoolKind::max, w, 1, x, y.data(), 0, 1);
    EXPECT_EQ(y, (std::vector<float>{std::numeric_limits<float>::lowest(), 5, std::numeric_limits<float>::lowest()}));
    pool_f32(isa, PoolKind::average, w, 1, x, y.data(), 0, 1);
    EXPECT_EQ(y, (std::vector<float>{0, 5, 0}));
    global_pool_f32(isa, PoolKind::average, 1, x, y.data(), 0, 0, 1);
    EXPECT_TRUE(std::isnan(y[0]));
  }
}

TEST(Pool, SmallIntegersAndHalves) {
  const Window w = window({4}, {2}, {2}, {1}, {0}, {0});
  const int8_t xi[] = {-128, -3, 7, 100};
  int8_t yi[2];
  max_pool_reference<int8_t>(w, xi, yi, nullptr, false, 0, 1);
  EXPECT_EQ(yi[0], -3);
  EXPECT_EQ(yi[1], 100);
  const Float16 xh[] = {Float16(1.5f), Float16(-2.0f), Float16(0.25f), Float16(3.0f)};
  Float16 yh[2];
  average_pool_reference<Float16>(w, xh, yh, false, 0, 1);
  EXPECT_EQ(static_cast<float>(yh[0]), -0.25f);
  EXPECT_EQ(static_cast<float>(yh[1]), 1.625f);
}

}  // namespace
}  // namespace forethought::kernels
