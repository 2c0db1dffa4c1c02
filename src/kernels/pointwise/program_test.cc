// Programs: broadcasting against element-by-element indexing, sub-ranges, half types, fused chains, in-place results,
// refusals.
#include "kernels/pointwise/program.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

namespace forethought::kernels {
namespace {
using Shape = std::vector<int64_t>;

int64_t count(const Shape& s) { return std::accumulate(s.begin(), s.end(), int64_t{1}, std::multiplies<>()); }

std::vector<Isa> tiers() {
  std::vector<Isa> t;
  for (Isa isa : {Isa::scalar, Isa::avx2, Isa::avx512})
    if (isa <= detected_isa()) t.push_back(isa);
  return t;
}

Broadcast broadcast(const Shape& out, const std::vector<Shape>& in) {
  std::vector<std::span<const int64_t>> spans(in.begin(), in.end());
  auto b = Broadcast::from_shapes(out, spans);
  EXPECT_TRUE(b.has_value());
  return *b;
}

// numpy's rule, one element at a time.
int64_t source_index(const Shape& out, const Shape& in, int64_t i) {
  int64_t index = 0, run = 1;
  for (size_t k = 0; k < out.size(); ++k) {
    const size_t d = out.size() - 1 - k;
    const int64_t at = i % out[d];
    i /= out[d];
    if (k >= in.size()) continue;
    const int64_t extent = in[in.size() - 1 - k];
    if (extent != 1) index += at * run;
    run *= extent;
  }
  return index;
}

struct BroadcastCase {
  Shape out, a, b;
};
const BroadcastCase kCases[] = {
    {{}, {}, {}},
    {{1}, {}, {1}},
    {{5}, {5}, {5}},
    {{5}, {1}, {5}},
    {{5}, {5}, {}},
    {{0, 3}, {0, 3}, {1, 3}},
    {{2, 3, 4}, {2, 3, 4}, {2, 3, 4}},
    {{7, 3}, {7, 3}, {3}},
    {{700, 3}, {3}, {700, 3}},
    {{7, 3}, {7, 1}, {1, 3}},
    {{50, 200}, {50, 1}, {200}},
    {{3, 2000}, {3, 2000}, {3, 1}},
    {{3, 2000}, {3, 2000}, {2000}},
    {{2, 8, 7, 7}, {2, 8, 7, 7}, {8, 1, 1}},
    {{2, 8, 100}, {2, 1, 100}, {8, 1}},
    {{4, 1, 5, 6, 3}, {4, 1, 5, 1, 3}, {1, 6, 1}},
    {{2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 70}, {2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 70}, {1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1}},
    {{3, 5, 400}, {5, 1}, {3, 1, 1}},
};

template <typename T>
std::vector<T> ramp(int64_t n, double start) {
  std::vector<T> v(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) v[i] = static_cast<T>(static_cast<float>(start + static_cast<double>(i % 251)));
  return v;
}

template <typename T>
void check_broadcasts(Isa isa) {
  Program p(isa);
  const int a = p.add_input(dtype_of<T>), b = p.add_input(dtype_of<T>);
  ASSERT_TRUE(p.finish(p.apply(PointwiseOp::Sub, {a, b}), dtype_of<T>).ok());
  for (const BroadcastCase& c : kCases) {
    const auto x = ramp<T>(count(c.a), 1), y = ramp<T>(count(c.b), -20);
    const int64_t n = count(c.out);
    const Broadcast shape = broadcast(c.out, {c.a, c.b});
    const void* inputs[] = {x.data(), y.data()};
    for (int64_t block : {n, int64_t{1000}, int64_t{37}}) {
      if (block == 37 && n > 3000) continue;
      std::vector<T> out(static_cast<size_t>(n) + 1, T(77.0f));
      for (int64_t begin = 0; begin < n; begin += block)
        p.run(shape, inputs, out.data(), begin, std::min(n, begin + block));
      for (int64_t i = 0; i < n; ++i) {
        const float want =
            static_cast<float>(x[source_index(c.out, c.a, i)]) - static_cast<float>(y[source_index(c.out, c.b, i)]);
        ASSERT_EQ(static_cast<float>(out[i]), static_cast<float>(T(want)))
            << "case " << &c - kCases << " element " << i;
      }
      EXPECT_EQ(static_cast<float>(out[n]), 77.0f);
    }
  }
}

TEST(Program, BroadcastsLikeNumpy) {
  for (Isa isa : tiers()) {
    SCOPED_TRACE(name(isa));
    check_broadcasts<float>(isa);
    check_broadcasts<double>(isa);
    check_broadcasts<Float16>(isa);
    check_broadcasts<BFloat16>(isa);
  }
}

TEST(Program, RefusesShapesThatDoNotBroadcast) {
  const Shape out{2, 3}, good{3}, bad{2}, longer{1, 2, 3};
  const std::span<const int64_t> a[] = {good, bad}, b[] = {longer};
  EXPECT_FALSE(Broadcast::from_shapes(out, a).has_value());
  EXPECT_FALSE(Broadcast::from_shapes(out, b).has_value());
  const Shape huge{int64_t{1} << 40, int64_t{1} << 40};
  EXPECT_FALSE(Broadcast::from_shapes(huge, {}).has_value());
}

TEST(Program, CollapsesDimensions) {
  const Broadcast b = broadcast({2, 1, 3, 4, 5}, {{2, 1, 3, 4, 5}, {3, 1, 1}});
  EXPECT_EQ(b.rank(), 3);
  EXPECT_EQ(b.inner(), 20);
  EXPECT_FALSE(b.flat());
  EXPECT_TRUE(broadcast({2, 3, 4}, {{2, 3, 4}, {}}).flat());
  EXPECT_EQ(broadcast({2, 3, 4}, {{2, 3, 4}, {1, 1, 1}}).rank(), 1);
}

// A chain equals its operators run one by one, whatever the block.
TEST(Program, FusesChains) {
  const Shape out{6, 5, 111}, channel{5, 1};
  const int64_t n = count(out);
  const auto x = ramp<float>(n, -100), s = ramp<float>(5, 0.25), r = ramp<float>(n, -7);
  const float lo = -2, hi = 40;
  const Broadcast shape = broadcast(out, {out, channel, {}, {}, out});
  const void* inputs[] = {x.data(), s.data(), &lo, &hi, r.data()};
  for (Isa isa : tiers()) {
    Program p(isa);
    int v[5];
    for (int& i : v) i = p.add_input(DType::kFloat);
    int y = p.apply(PointwiseOp::Mul, {v[0], v[1]});
    y = p.apply(PointwiseOp::Clip, {y, v[2], v[3]});
    for (int k = 0; k < 30; ++k) y = p.apply(PointwiseOp::Neg, {p.apply(PointwiseOp::LeakyRelu, {y}, {1.0, 0})});
    y = p.apply(PointwiseOp::Add, {y, v[4]});
    y = p.apply(PointwiseOp::Add, {y, y});
    ASSERT_TRUE(p.finish(y, DType::kFloat).ok());
    std::vector<float> got(static_cast<size_t>(n));
    for (int64_t begin = 0; begin < n; begin += 801) p.run(shape, inputs, got.data(), begin, std::min(n, begin + 801));
    for (int64_t i = 0; i < n; ++i) {
      const float m = x[i] * s[source_index(out, channel, i)];
      EXPECT_EQ(got[i], 2 * (std::min(std::max(m, lo), hi) + r[i])) << i;
    }
  }
}

TEST(Program, HalfTypesRoundOnceAtTheEnd) {
  for (Isa isa : tiers()) {
    Program p(isa);
    const int a = p.add_input(DType::kFloat16), b = p.add_input(DType::kFloat16), c = p.add_input(DType::kFloat16);
    ASSERT_TRUE(p.finish(p.apply(PointwiseOp::Add, {p.apply(PointwiseOp::Add, {a, b}), c}), DType::kFloat16).ok());
    const Float16 x(2048.0f), y(1.0f), z(1.0f);
    Float16 out;
    const void* inputs[] = {&x, &y, &z};
    p.run(Broadcast::same(1, 3), inputs, &out, 0, 1);
    EXPECT_EQ(static_cast<float>(out), 2050.0f);
  }
}

TEST(Program, MixesTypes) {
  // where(x == y, x, y^3) with an i32 exponent, stored as bf16.
  Program p(active_isa());
  const int x = p.add_input(DType::kBFloat16), y = p.add_input(DType::kBFloat16), e = p.add_input(DType::kInt32);
  const int fx = p.cast(x, DType::kFloat);
  ASSERT_TRUE(p.finish(p.where(p.equal(x, y), fx, p.pow(y, e)), DType::kBFloat16).ok());
  const BFloat16 a[] = {BFloat16(2.0f), BFloat16(5.0f)}, b[] = {BFloat16(2.0f), BFloat16(-3.0f)};
  const int32_t three = 3;
  BFloat16 out[2];
  const void* inputs[] = {a, b, &three};
  p.run(broadcast({2}, {{2}, {2}, {}}), inputs, out, 0, 2);
  EXPECT_EQ(static_cast<float>(out[0]), 2.0f);
  EXPECT_EQ(static_cast<float>(out[1]), -27.0f);
}

TEST(Program, WritesOverAnOperand) {
  for (Isa isa : tiers()) {
    const Shape out{40, 90}, row{90};
    auto x = ramp<Float16>(count(out), -50);
    const auto keep = x;
    const auto y = ramp<Float16>(90, 3);
    Program p(isa);
    const int b = p.add_input(DType::kFloat16), a = p.add_input(DType::kFloat16);
    ASSERT_TRUE(p.finish(p.apply(PointwiseOp::Mul, {a, p.apply(PointwiseOp::Abs, {b})}), DType::kFloat16).ok());
    const void* inputs[] = {y.data(), x.data()};
    const Broadcast shape = broadcast(out, {row, out});
    p.run(shape, inputs, x.data(), 0, 1700);
    p.run(shape, inputs, x.data(), 1700, count(out));
    for (int64_t i = 0; i < count(out); ++i)
      EXPECT_EQ(x[i].bits, Float16(static_cast<float>(keep[i]) * static_cast<float>(y[i % 90])).bits);
  }
}

TEST(Program, CopiesAnInputThatIsTheResult) {
  Program p(active_isa());
  ASSERT_TRUE(p.finish(p.add_input(DType::kInt16), DType::kInt16).ok());
  const int16_t x[] = {1, 2, 3};
  int16_t y[6] = {};
  const void* inputs[] = {x};
  p.run(broadcast({2, 3}, {{3}}), inputs, y, 0, 6);
  EXPECT_EQ(std::vector<int16_t>(y, y + 6), (std::vector<int16_t>{1, 2, 3, 1, 2, 3}));
  int16_t z[4] = {};
  p.run(broadcast({4}, {{1}}), inputs, z, 1, 4);
  EXPECT_EQ(std::vector<int16_t>(z, z + 4), (std::vector<int16_t>{0, 1, 1, 1}));
}

TEST(Program, RefusalsNameOperatorAndType) {
  Program exp(Isa::scalar);
  const Status s = exp.finish(exp.apply(PointwiseOp::Exp, {exp.add_input(DType::kInt32)}), DType::kInt32);
  EXPECT_EQ(s.code(), absl::StatusCode::kUnimplemented);
  EXPECT_NE(s.message().find("Exp"), absl::string_view::npos);
  EXPECT_NE(s.message().find("i32"), absl::string_view::npos);

  Program add(Isa::scalar);
  const int a = add.add_input(DType::kInt32), b = add.add_input(DType::kFloat);
  EXPECT_FALSE(add.finish(add.apply(PointwiseOp::Add, {a, b}), DType::kInt32).ok());

  Program text(Isa::scalar);
  EXPECT_FALSE(text.finish(text.add_input(DType::kString), DType::kString).ok());

  Program wide(Isa::scalar);
  std::vector<int> live;
  const int x = wide.add_input(DType::kFloat);
  for (int i = 0; i < 12; ++i) live.push_back(wide.apply(PointwiseOp::LeakyRelu, {x}, {i / 10.0, 0}));
  int sum = live[0];
  for (int i = 1; i < 12; ++i) sum = wide.apply(PointwiseOp::Add, {sum, live[i]});
  EXPECT_FALSE(wide.finish(sum, DType::kFloat).ok());
}

}  // namespace
}  // namespace forethought::kernels
