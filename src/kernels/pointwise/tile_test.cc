// Tile functions: SIMD against plain code for every size, accuracy against f64, special values, integer edges.
#include "kernels/pointwise/tile.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <vector>

namespace forethought::kernels {
namespace {
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<Isa> tiers() {
  std::vector<Isa> t;
  for (Isa isa : {Isa::scalar, Isa::avx2, Isa::avx512})
    if (isa <= detected_isa()) t.push_back(isa);
  return t;
}
std::vector<PointwiseOp> all_ops() {
  return {
#define OP(name, arity, ints, simd) PointwiseOp::name,
#include "kernels/pointwise/ops.inc"
#undef OP
  };
}

// The operator in f64 from its definition.
double exact(PointwiseOp op, double x, const TileParams& p) {
  switch (op) {
    case PointwiseOp::Abs:
      return std::fabs(x);
    case PointwiseOp::Ceil:
      return std::ceil(x);
    case PointwiseOp::DivideBy:
      return x / static_cast<float>(p.alpha);
    case PointwiseOp::Elu:
      return x < 0 ? static_cast<float>(p.alpha) * std::expm1(x) : x;
    case PointwiseOp::Erf:
      return std::erf(x);
    case PointwiseOp::Exp:
      return std::exp(x);
    case PointwiseOp::Floor:
      return std::floor(x);
    case PointwiseOp::HardSigmoid: {
      const double v = static_cast<float>(p.alpha) * x + static_cast<float>(p.beta);
      return v < 0 ? 0 : v > 1 ? 1 : v;
    }
    case PointwiseOp::HardSwish: {
      const double v = x / 6 + 0.5;
      return x * (v < 0 ? 0 : v > 1 ? 1 : v);
    }
    case PointwiseOp::LeakyRelu:
      return x < 0 ? static_cast<float>(p.alpha) * x : x;
    case PointwiseOp::Log:
      return std::log(x);
    case PointwiseOp::Mish:
      return x * std::tanh(x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)));
    case PointwiseOp::Neg:
      return -x;
    case PointwiseOp::Reciprocal:
      return 1 / x;
    case PointwiseOp::Relu:
      return x < 0 ? 0 : x;
    case PointwiseOp::Selu: {
      const double a = static_cast<float>(p.alpha), g = static_cast<float>(p.beta);
      return g * (x < 0 ? a * std::expm1(x) : x);
    }
    case PointwiseOp::Sigmoid:
      return 1 / (1 + std::exp(-x));
    case PointwiseOp::Softplus:
      return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x));
    case PointwiseOp::Softsign:
      return x / (1 + std::fabs(x));
    case PointwiseOp::Sqrt:
      return std::sqrt(x);
    case PointwiseOp::Tanh:
      return std::tanh(x);
    default:
      return kNan;
  }
}

TileParams params_of(PointwiseOp op) {
  if (op == PointwiseOp::Selu) return {1.67326319217681884765625, 1.05070102214813232421875};
  if (op == PointwiseOp::HardSigmoid) return {0.2, 0.5};
  return {0.7, 0};
}

double ulp_of(double v) {
  const float f = std::fabs(static_cast<float>(v));
  if (!(f >= std::numeric_limits<float>::min())) return std::numeric_limits<float>::denorm_min();
  return static_cast<double>(std::nextafter(f, kInf)) - f;
}

std::vector<float> sweep() {
  std::vector<float> x;
  for (double v = -120; v <= 120; v += 0.0137) x.push_back(static_cast<float>(v));
  for (double v = -6; v <= 6; v += 0.00037) x.push_back(static_cast<float>(v));
  for (int e = -149; e <= 127; ++e)
    for (float m : {1.0f, 1.2345f, 1.4142136f, 1.9999999f})
      for (float s : {1.0f, -1.0f}) x.push_back(s * std::ldexp(m, e));
  return x;
}

TEST(Tile, UnaryOperatorsAreAccurateInEachTier) {
  const std::vector<float> x = sweep();
  std::vector<float> y(x.size());
  for (Isa isa : tiers()) {
    for (PointwiseOp op : all_ops()) {
      if (arity(op) != 1) continue;
      const TileParams p = params_of(op);
      const TileArg arg{x.data(), false};
      find_tile(isa, op, DType::kFloat)(&arg, y.data(), static_cast<int64_t>(x.size()), p);
      double worst = 0;
      float where = 0;
      for (size_t i = 0; i < x.size(); ++i) {
        const double want = exact(op, x[i], p);
        if (std::isnan(want)) {
          EXPECT_TRUE(std::isnan(y[i])) << name(op) << ' ' << x[i];
          continue;
        }
        if (std::isinf(static_cast<float>(want))) {
          // The last values before overflow may round either way.
          EXPECT_TRUE(y[i] == static_cast<float>(want) || std::fabs(y[i]) > 3.4028e38f) << name(op) << ' ' << x[i];
          continue;
        }
        const double error = std::fabs(y[i] - want);
        if (error <= 1.2e-7 && std::fabs(want) < 0.5) continue;
        if (!(error / ulp_of(want) <= worst)) worst = error / ulp_of(want), where = x[i];
      }
      EXPECT_LE(worst, 4.0) << name(isa) << ' ' << name(op) << " at " << where;
    }
  }
}

TEST(Tile, SmallResultsOfExpLogAndFriendsKeepTheirPrecision) {
  // Relative accuracy where the absolute bound says nothing.
  const std::pair<PointwiseOp, std::vector<float>> rows[] = {
      {PointwiseOp::Exp, {-20, -50, -87, -100}},     {PointwiseOp::Sigmoid, {-20, -50, -87, -100}},
      {PointwiseOp::Softplus, {-20, -50, -87}},      {PointwiseOp::Mish, {-20, -50, -80, 1e-10f}},
      {PointwiseOp::Tanh, {1e-3f, -1e-20f, 1e-40f}}, {PointwiseOp::Erf, {1e-3f, -1e-20f}},
      {PointwiseOp::Elu, {-1e-3f, -1e-20f}},         {PointwiseOp::Log, {1.0000001f, 0.9999999f, 1.001f}},
  };
  for (Isa isa : tiers()) {
    for (const auto& [op, xs] : rows) {
      for (float x : xs) {
        float y = 0;
        const TileArg arg{&x, false};
        find_tile(isa, op, DType::kFloat)(&arg, &y, 1, params_of(op));
        const double want = exact(op, x, params_of(op));
        EXPECT_LE(std::fabs(y - want), 4 * ulp_of(want)) << name(isa) << ' ' << name(op) << ' ' << x;
      }
    }
  }
}

TEST(Tile, SpecialValuesOfUnaryOperators) {
  struct Row {
    PointwiseOp op;
    float x, want;
  };
  const Row rows[] = {
      {PointwiseOp::Exp, kInf, kInf},
      {PointwiseOp::Exp, -kInf, 0},
      {PointwiseOp::Exp, 89, kInf},
      {PointwiseOp::Exp, -104, 0},
      {PointwiseOp::Exp, 0, 1},
      {PointwiseOp::Log, 0, -kInf},
      {PointwiseOp::Log, -0.0f, -kInf},
      {PointwiseOp::Log, -1, kNan},
      {PointwiseOp::Log, -kInf, kNan},
      {PointwiseOp::Log, kInf, kInf},
      {PointwiseOp::Log, 1, 0},
      {PointwiseOp::Tanh, kInf, 1},
      {PointwiseOp::Tanh, -kInf, -1},
      {PointwiseOp::Erf, kInf, 1},
      {PointwiseOp::Erf, -kInf, -1},
      {PointwiseOp::Sigmoid, kInf, 1},
      {PointwiseOp::Sigmoid, -kInf, 0},
      {PointwiseOp::Softplus, kInf, kInf},
      {PointwiseOp::Softplus, -kInf, 0},
      {PointwiseOp::Mish, kInf, kInf},
      {PointwiseOp::Relu, -kInf, 0},
      {PointwiseOp::Sqrt, -1, kNan},
      {PointwiseOp::Reciprocal, 0, kInf},
      {PointwiseOp::Reciprocal, -0.0f, -kInf},
      {PointwiseOp::HardSwish, kInf, kInf},
      {PointwiseOp::HardSigmoid, -kInf, 0},
      {PointwiseOp::Elu, -kInf, -0.7f},
      {PointwiseOp::Elu, kInf, kInf},
  };
  for (Isa isa : tiers()) {
    for (const Row& r : rows) {
      float y = -7;
      const TileArg arg{&r.x, false};
      find_tile(isa, r.op, DType::kFloat)(&arg, &y, 1, params_of(r.op));
      if (std::isnan(r.want))
        EXPECT_TRUE(std::isnan(y)) << name(isa) << ' ' << name(r.op) << ' ' << r.x;
      else
        EXPECT_EQ(y, r.want) << name(isa) << ' ' << name(r.op) << ' ' << r.x;
    }
    for (PointwiseOp op : all_ops()) {
      if (arity(op) != 1) continue;
      float y = 0;
      const TileArg arg{&kNan, false};
      find_tile(isa, op, DType::kFloat)(&arg, &y, 1, params_of(op));
      EXPECT_TRUE(std::isnan(y)) << name(isa) << ' ' << name(op);
    }
  }
}

// Every operator on every size up to two vectors and more, each operand as vector and as scalar, at odd offsets,
// between guards.
TEST(Tile, SimdAgreesWithPlainCodeForAllSizes) {
  std::mt19937 random(7);
  std::uniform_real_distribution<float> uniform(-3, 3);
  constexpr int kMax = 70, kOffset = 3;
  std::vector<float> x[3];
  for (auto& v : x)
    for (int i = 0; i < kMax + 8; ++i) v.push_back(i % 11 == 5 ? kNan : i % 13 == 6 ? kInf : uniform(random));
  for (Isa isa : tiers()) {
    for (PointwiseOp op : all_ops()) {
      const TileFn simd = find_tile(isa, op, DType::kFloat), plain = find_tile(Isa::scalar, op, DType::kFloat);
      ASSERT_NE(simd, nullptr);
      for (int n = 0; n <= kMax; ++n) {
        for (int scalars = 0; scalars < 1 << arity(op); ++scalars) {
          if (arity(op) == 1 && scalars != 0) continue;
          TileArg args[3];
          for (int k = 0; k < arity(op); ++k) args[k] = {x[k].data() + kOffset + k, ((scalars >> k) & 1) != 0};
          std::vector<float> got(kMax + 8, -77.0f), want(kMax + 8, -77.0f);
          simd(args, got.data() + 1, n, params_of(op));
          plain(args, want.data() + 1, n, params_of(op));
          for (int i = 0; i < kMax + 8; ++i) {
            if (std::isnan(want[i]))
              EXPECT_TRUE(std::isnan(got[i])) << name(op) << ' ' << n << ' ' << i;
            else if (std::isinf(want[i]))
              EXPECT_EQ(got[i], want[i]) << name(op) << ' ' << n << ' ' << i;
            else
              EXPECT_LE(std::fabs(got[i] - want[i]), 1.2e-7 + 5e-7 * std::fabs(want[i]))
                  << name(op) << ' ' << n << ' ' << i;
          }
        }
      }
    }
  }
}

TEST(Tile, MinMaxAndClipPropagateNan) {
  for (Isa isa : tiers()) {
    const float a[] = {kNan, 1, 20, 5}, b[] = {10, kNan, 10, kNan};
    const TileArg args[] = {{a, false}, {b, false}};
    float y[4];
    find_tile(isa, PointwiseOp::Min, DType::kFloat)(args, y, 4, {});
    EXPECT_TRUE(std::isnan(y[0]) && std::isnan(y[1]) && y[2] == 10 && std::isnan(y[3]));
    find_tile(isa, PointwiseOp::Max, DType::kFloat)(args, y, 4, {});
    EXPECT_TRUE(std::isnan(y[0]) && std::isnan(y[1]) && y[2] == 20 && std::isnan(y[3]));
    const float lo = 3, hi = 1;  // hi wins
    const TileArg clip[] = {{a, false}, {&lo, true}, {&hi, true}};
    find_tile(isa, PointwiseOp::Clip, DType::kFloat)(clip, y, 4, {});
    EXPECT_TRUE(std::isnan(y[0]) && y[1] == 1 && y[2] == 1 && y[3] == 1);
  }
}

TEST(Tile, MayWriteOverItsOperand) {
  for (Isa isa : tiers()) {
    std::vector<float> x(45), y(45, 2.0f);
    for (int i = 0; i < 45; ++i) x[i] = static_cast<float>(i);
    const TileArg args[] = {{x.data(), false}, {y.data(), false}};
    find_tile(isa, PointwiseOp::Sub, DType::kFloat)(args, y.data(), 45, {});
    for (int i = 0; i < 45; ++i) EXPECT_EQ(y[i], static_cast<float>(i) - 2);
  }
}

template <typename T>
T binary(PointwiseOp op, T a, T b) {
  T y{};
  const TileArg args[] = {{&a, false}, {&b, false}};
  find_tile(Isa::scalar, op, dtype_of<T>)(args, &y, 1, {});
  return y;
}
template <typename T>
T unary(PointwiseOp op, T a) {
  T y{};
  const TileArg args[] = {{&a, false}};
  find_tile(Isa::scalar, op, dtype_of<T>)(args, &y, 1, {});
  return y;
}

TEST(Tile, IntegersWrapAndNeverTrap) {
  constexpr int32_t kMin = std::numeric_limits<int32_t>::min();
  constexpr int64_t kMin64 = std::numeric_limits<int64_t>::min();
  EXPECT_EQ(binary<int8_t>(PointwiseOp::Add, 127, 1), -128);
  EXPECT_EQ(binary<uint8_t>(PointwiseOp::Sub, 0, 1), 255);
  EXPECT_EQ(binary<int16_t>(PointwiseOp::Mul, 300, 300), static_cast<int16_t>(90000));
  EXPECT_EQ(binary<uint16_t>(PointwiseOp::Mul, 65535, 65535), 1);
  EXPECT_EQ(binary<int32_t>(PointwiseOp::Mul, kMin, -1), kMin);
  EXPECT_EQ(binary<int32_t>(PointwiseOp::Div, kMin, -1), kMin);
  EXPECT_EQ(binary<int64_t>(PointwiseOp::Div, kMin64, -1), kMin64);
  EXPECT_EQ(binary<int8_t>(PointwiseOp::Div, -128, -1), -128);
  EXPECT_EQ(binary<int32_t>(PointwiseOp::Div, 7, 0), 0);
  EXPECT_EQ(binary<uint64_t>(PointwiseOp::Div, 7, 0), 0u);
  EXPECT_EQ(binary<int32_t>(PointwiseOp::Div, -7, 2), -3);
  EXPECT_EQ(unary<int32_t>(PointwiseOp::Neg, kMin), kMin);
  EXPECT_EQ(unary<int64_t>(PointwiseOp::Abs, kMin64), kMin64);
  EXPECT_EQ(unary<int8_t>(PointwiseOp::Abs, -5), 5);
  EXPECT_EQ(unary<int16_t>(PointwiseOp::Relu, -5), 0);
  EXPECT_EQ(binary<uint64_t>(PointwiseOp::Max, ~uint64_t{0}, 1), ~uint64_t{0});
  EXPECT_EQ(binary<int64_t>(PointwiseOp::PRelu, -4, 3), -12);
  EXPECT_EQ(find_tile(Isa::scalar, PointwiseOp::Exp, DType::kInt32), nullptr);
  EXPECT_EQ(find_tile(Isa::scalar, PointwiseOp::Neg, DType::kUint8), nullptr);
}

template <typename T, typename E>
T power(T base, E exponent) {
  T y{};
  const TileArg args[] = {{&base, false}, {&exponent, true}};
  find_pow_tile(dtype_of<T>, dtype_of<E>)(args, &y, 1, {});
  return y;
}

TEST(Tile, Pow) {
  EXPECT_EQ((power<int32_t, int64_t>(3, 4)), 81);
  EXPECT_EQ((power<int32_t, int64_t>(2, 31)), std::numeric_limits<int32_t>::min());
  EXPECT_EQ((power<int64_t, int64_t>(-1, -3)), -1);
  EXPECT_EQ((power<int64_t, int64_t>(2, -1)), 0);
  EXPECT_EQ((power<int64_t, int64_t>(0, -1)), 0);
  EXPECT_EQ((power<int64_t, uint64_t>(3, ~uint64_t{0})), static_cast<int64_t>(0xaaaaaaaaaaaaaaabull));
  EXPECT_EQ((power<int32_t, double>(9, 0.5)), 3);
  EXPECT_EQ((power<float, float>(-3, 2)), 9);
  EXPECT_EQ((power<float, float>(2, 0.5)), std::sqrt(2.0f));
  EXPECT_EQ((power<float, double>(2, 3)), 8);
  EXPECT_TRUE(std::isnan(power<double, double>(-1, 0.5)));
}

TEST(Tile, EqualAndWhereForAllSizes) {
  for (Isa isa : tiers()) {
    for (DType dtype : {DType::kFloat, DType::kInt32, DType::kInt8, DType::kUint64, DType::kDouble}) {
      const TileFn equal = find_equal_tile(isa, dtype), where = find_where_tile(isa, bit_width(dtype) / 8);
      dispatch(dtype, Types<float, int32_t, int8_t, uint64_t, double>{}, [&]<typename T>() {
        for (int n = 0; n < 40; ++n) {
          for (int scalars = 0; scalars < 8; ++scalars) {
            std::vector<T> a(41), b(41), out(42, T(99));
            std::vector<uint8_t> c(41), eq(42, 99);
            for (int i = 0; i < 41; ++i) a[i] = T(i % 3), b[i] = T(i % 2), c[i] = i % 5 < 2 ? 2 : 0;
            const bool sa = scalars & 1, sb = scalars & 2, sc = scalars & 4;
            const TileArg ab[] = {{a.data(), sa}, {b.data(), sb}};
            equal(ab, eq.data() + 1, n, {});
            const TileArg cab[] = {{c.data(), sc}, {a.data(), sa}, {b.data(), sb}};
            where(cab, out.data() + 1, n, {});
            for (int i = 0; i < n; ++i) {
              const T va = sa ? a[0] : a[i], vb = sb ? b[0] : b[i];
              EXPECT_EQ(eq[i + 1], va == vb);
              EXPECT_EQ(out[i + 1], (sc ? c[0] : c[i]) ? va : vb);
            }
            EXPECT_EQ(eq[n + 1], 99);
            EXPECT_EQ(out[n + 1], T(99));
          }
        }
      });
    }
    const float a[] = {kNan, 0.0f}, b[] = {kNan, -0.0f};
    const TileArg args[] = {{a, false}, {b, false}};
    uint8_t y[2];
    find_equal_tile(isa, DType::kFloat)(args, y, 2, {});
    EXPECT_TRUE(y[0] == 0 && y[1] == 1);
  }
}

}  // namespace
}  // namespace forethought::kernels
