// Casts between numbers, quantisation, strings and dropout: tables of edges, SIMD against plain code.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "kernels/pointwise/convert_number.h"
#include "kernels/pointwise/dropout.h"
#include "kernels/pointwise/program.h"
#include "kernels/pointwise/strings.h"

namespace forethought::kernels {
namespace {
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

std::vector<Isa> tiers() {
  std::vector<Isa> t;
  for (Isa isa : {Isa::scalar, Isa::avx2, Isa::avx512})
    if (isa <= detected_isa()) t.push_back(isa);
  return t;
}

template <typename To, typename From>
To cast(From v) {
  To out{};
  const TileArg arg{&v, false};
  find_cast_tile(Isa::scalar, dtype_of<From>, dtype_of<To>)(&arg, &out, 1, {});
  return out;
}

TEST(Cast, FloatToIntegerTruncatesAndStaysDefined) {
  EXPECT_EQ((cast<int32_t>(-1.9f)), -1);
  EXPECT_EQ((cast<int8_t>(1.9f)), 1);
  EXPECT_EQ((cast<uint8_t>(300.0f)), 44);
  EXPECT_EQ((cast<uint8_t>(-1.0f)), 255);
  EXPECT_EQ((cast<int32_t>(3e9f)), std::numeric_limits<int32_t>::min());
  EXPECT_EQ((cast<int32_t>(static_cast<float>(kNan))), std::numeric_limits<int32_t>::min());
  EXPECT_EQ((cast<int64_t>(kInf)), std::numeric_limits<int64_t>::min());
  EXPECT_EQ((cast<uint32_t>(4294967295.0)), 4294967295u);
  EXPECT_EQ((cast<uint32_t>(-1.0)), 4294967295u);
  EXPECT_EQ((cast<uint64_t>(1.8446744073709550e19)), 18446744073709549568ull);
  EXPECT_EQ((cast<uint64_t>(9223372036854775808.0)), 9223372036854775808ull);
  EXPECT_EQ((cast<int16_t>(Float16(-7.5f))), -7);
}

TEST(Cast, IntegersKeepTheirLowBits) {
  EXPECT_EQ((cast<int8_t>(int32_t{200})), -56);
  EXPECT_EQ((cast<uint64_t>(int8_t{-1})), ~uint64_t{0});
  EXPECT_EQ((cast<int32_t>(int64_t{1} << 32)), 0);
  EXPECT_EQ((cast<float>(uint64_t{1} << 63)), 0x1p63f);
}

TEST(Cast, Bool) {
  EXPECT_TRUE((cast<bool>(0.1f)));
  EXPECT_TRUE((cast<bool>(kNan)));
  EXPECT_FALSE((cast<bool>(-0.0)));
  EXPECT_FALSE((cast<bool>(Float16::from_bits(0x8000))));
  EXPECT_TRUE((cast<bool>(int64_t{1} << 40)));
  EXPECT_EQ((cast<float>(true)), 1.0f);
  uint8_t two = 2;
  int32_t out = 0;
  const TileArg arg{&two, false};
  find_cast_tile(Isa::scalar, DType::kBool, DType::kInt32)(&arg, &out, 1, {});
  EXPECT_EQ(out, 1);
}

TEST(Cast, HalfTypesRoundOnce) {
  // Just above a tie of float16 and bfloat16: rounding through f32 would give the even neighbour below.
  EXPECT_EQ((cast<Float16>(1.0 + 0x1p-11 + 0x1p-40)).bits, Float16(1.0f + 0x1p-10f).bits);
  EXPECT_EQ((cast<BFloat16>(1.0 + 0x1p-8 + 0x1p-40)).bits, BFloat16(1.0f + 0x1p-7f).bits);
  EXPECT_EQ((cast<BFloat16>(-1.0 - 0x1p-8 - 0x1p-40)).bits, BFloat16(-1.0f - 0x1p-7f).bits);
  EXPECT_EQ((cast<BFloat16>(int32_t{(1 << 30) + (1 << 22) + 1})).bits, BFloat16(0x1p30f + 0x1p23f).bits);
  EXPECT_EQ((cast<BFloat16>((int64_t{1} << 62) + (int64_t{1} << 54) + 1)).bits, BFloat16(0x1p62f + 0x1p55f).bits);
  EXPECT_EQ((cast<Float16>(int32_t{70000})).bits, 0x7c00);
  EXPECT_TRUE(std::isnan(static_cast<float>(cast<BFloat16>(kNan))));
  EXPECT_EQ((cast<Float16>(BFloat16(0.5f))).bits, Float16(0.5f).bits);
}

TEST(Cast, SimdAgreesWithPlainCode) {
  for (Isa isa : tiers()) {
    for (DType from : {DType::kUint8, DType::kInt8, DType::kInt32}) {
      const TileFn simd = find_cast_tile(isa, from, DType::kFloat),
                   plain = find_cast_tile(Isa::scalar, from, DType::kFloat);
      std::vector<uint32_t> in(64);
      for (uint32_t i = 0; i < 64; ++i) in[i] = i * 0x9e3779b9u;
      for (int n = 0; n < 50; ++n) {
        std::vector<float> a(51, 7), b(51, 7);
        const TileArg arg{reinterpret_cast<const char*>(in.data()) + bit_width(from) / 8, false};
        simd(&arg, a.data(), n, {});
        plain(&arg, b.data(), n, {});
        EXPECT_EQ(a, b);
      }
    }
  }
}

template <typename T>
void check_quantise(Isa isa) {
  std::vector<float> q;
  for (double v :
       {0.5, 1.5, 2.5, -0.5, -1.5, 126.5, 127.5, 254.5, 255.5, 300.0, -300.0, 1e9, -1e9, 1e30, kInf, -kInf, kNan, 0.0})
    q.push_back(static_cast<float>(v));
  while (q.size() < 80) q.push_back(static_cast<float>(q.size()) * 37.5f - 900);
  std::vector<T> zero(q.size() + 5), plain(q.size()), simd(q.size());
  for (size_t i = 0; i < zero.size(); ++i) zero[i] = static_cast<T>(i * 3);
  for (bool scalar : {false, true}) {
    for (size_t n = 0; n <= q.size(); ++n) {
      const TileArg use[] = {{q.data(), false}, {zero.data() + 5, scalar}};
      find_quantize_tile(Isa::scalar, DType::kFloat, dtype_of<T>)(use, plain.data(), static_cast<int64_t>(n), {});
      find_quantize_tile(isa, DType::kFloat, dtype_of<T>)(use, simd.data(), static_cast<int64_t>(n), {});
      for (size_t i = 0; i < n; ++i) {
        const T z = scalar ? zero[5] : zero[5 + i];
        double want = std::nearbyint(static_cast<double>(q[i])) + z;
        want = !(want > std::numeric_limits<T>::min()) ? std::numeric_limits<T>::min()
                                                       : std::min<double>(want, std::numeric_limits<T>::max());
        EXPECT_EQ(plain[i], static_cast<T>(want)) << q[i];
        EXPECT_EQ(simd[i], plain[i]) << q[i];
      }
      std::vector<float> back(q.size()), back_simd(q.size());
      const TileArg undo[] = {{plain.data(), false}, {zero.data() + 5, scalar}};
      find_dequantize_tile(Isa::scalar, dtype_of<T>)(undo, back.data(), static_cast<int64_t>(n), {});
      find_dequantize_tile(isa, dtype_of<T>)(undo, back_simd.data(), static_cast<int64_t>(n), {});
      for (size_t i = 0; i < n; ++i) {
        EXPECT_EQ(back[i], static_cast<float>(plain[i]) - static_cast<float>(scalar ? zero[5] : zero[5 + i]));
        EXPECT_EQ(back[i], back_simd[i]);
      }
    }
  }
}

TEST(Quantize, RoundsHalfToEvenAndSaturatesInEachTier) {
  for (Isa isa : tiers()) {
    SCOPED_TRACE(name(isa));
    check_quantise<int8_t>(isa);
    check_quantise<uint8_t>(isa);
    check_quantise<int16_t>(isa);
    check_quantise<uint16_t>(isa);
  }
  EXPECT_EQ(find_quantize_tile(Isa::scalar, DType::kFloat, DType::kInt32), nullptr);
  const int32_t x = std::numeric_limits<int32_t>::min(), z = std::numeric_limits<int32_t>::max();
  float y = 0;
  const TileArg args[] = {{&x, false}, {&z, true}};
  find_dequantize_tile(Isa::avx2, DType::kInt32)(args, &y, 1, {});
  EXPECT_EQ(y, -4294967295.0f);
}

TEST(Quantize, ProgramOfTheOperator) {
  // u8 = saturate(round(x / scale) + zero) with a scale for each row, in f16.
  Program p(active_isa());
  const int x = p.add_input(DType::kFloat16), s = p.add_input(DType::kFloat16), z = p.add_input(DType::kUint8);
  ASSERT_TRUE(p.finish(p.quantize(p.apply(PointwiseOp::Div, {x, s}), z), DType::kUint8).ok());
  const Float16 xs[] = {Float16(1.0f), Float16(3.0f), Float16(-1.0f), Float16(100.0f)},
                ss[] = {Float16(2.0f), Float16(0.25f)};
  const uint8_t zs[] = {10, 1};
  uint8_t out[4];
  const void* inputs[] = {xs, ss, zs};
  const int64_t shape[] = {2, 2}, column[] = {2, 1};
  const std::span<const int64_t> shapes[] = {shape, column, column};
  p.run(*Broadcast::from_shapes(shape, shapes), inputs, out, 0, 4);
  EXPECT_EQ(std::vector<uint8_t>(out, out + 4), (std::vector<uint8_t>{10, 12, 0, 255}));
}

template <typename T>
std::string text(T v) {
  std::string s;
  EXPECT_TRUE(cast_to_string(dtype_of<T>, &v, &s, 0, 1).ok());
  return s;
}

TEST(Strings, NumbersPrintLikeNumpy) {
  EXPECT_EQ(text(0.0f), "0.0");
  EXPECT_EQ(text(-0.0), "-0.0");
  EXPECT_EQ(text(1.0f), "1.0");
  EXPECT_EQ(text(0.1f), "0.1");
  EXPECT_EQ(text(0.47892547f), "0.47892547");
  EXPECT_EQ(text(1e-4f), "1e-04");
  EXPECT_EQ(text(9.9e-5f), "9.9e-05");
  EXPECT_EQ(text(1e15), "1000000000000000.0");
  EXPECT_EQ(text(1e16), "1e+16");
  EXPECT_EQ(text(-123456.789), "-123456.789");
  EXPECT_EQ(text(1e-45f), "1e-45");
  EXPECT_EQ(text(1.5e300), "1.5e+300");
  EXPECT_EQ(text(kNan), "NaN");
  EXPECT_EQ(text(kInf), "INF");
  EXPECT_EQ(text(static_cast<float>(-kInf)), "-INF");
  EXPECT_EQ(text(Float16(0.1f)), "0.1");
  EXPECT_EQ(text(Float16(65504.0f)), "65500.0");
  EXPECT_EQ(text(BFloat16(1.0f / 3)), "0.334");
  EXPECT_EQ(text(int8_t{-5}), "-5");
  EXPECT_EQ(text(~uint64_t{0}), "18446744073709551615");
  EXPECT_EQ(text(true), "True");
}

template <typename T>
T parsed(const std::string& s) {
  T v{};
  EXPECT_TRUE(cast_from_string(dtype_of<T>, &s, &v, 0, 1).ok()) << s;
  return v;
}

TEST(Strings, TextBecomesNumbers) {
  EXPECT_EQ(parsed<float>(" 0.47892547 "), 0.47892547f);
  EXPECT_EQ(parsed<double>("1E8"), 1e8);
  EXPECT_EQ(parsed<float>("+inf"), static_cast<float>(kInf));
  EXPECT_EQ(parsed<float>("-INF"), static_cast<float>(-kInf));
  EXPECT_TRUE(std::isnan(parsed<double>("NaN")));
  EXPECT_EQ(parsed<float>("1e400"), static_cast<float>(kInf));
  EXPECT_EQ(parsed<Float16>("0.5").bits, Float16(0.5f).bits);
  EXPECT_EQ(parsed<int8_t>("-128"), -128);
  EXPECT_EQ(parsed<uint64_t>("+18446744073709551615"), ~uint64_t{0});
  EXPECT_TRUE(parsed<bool>("True"));
  const std::pair<DType, std::string> bad[] = {{DType::kInt8, "128"}, {DType::kInt32, "1.5"}, {DType::kFloat, "one"},
                                               {DType::kFloat, ""},   {DType::kUint8, "-1"},  {DType::kInt64, "1 2"}};
  for (const auto& [to, s] : bad) {
    uint64_t room = 0;
    EXPECT_EQ(cast_from_string(to, &s, &room, 0, 1).code(), absl::StatusCode::kInvalidArgument) << s;
  }
}

TEST(Strings, EqualAndWhereBroadcast) {
  const std::string a[] = {"x", "y"}, b[] = {"x", "z", "y"};
  const uint8_t condition[] = {1, 0, 1};
  const int64_t out[] = {2, 3}, column[] = {2, 1}, row[] = {3};
  const std::span<const int64_t> two[] = {column, row}, three[] = {row, column, row};
  uint8_t eq[6];
  equal_strings(*Broadcast::from_shapes(out, two), a, b, eq, 0, 6);
  EXPECT_EQ(std::vector<uint8_t>(eq, eq + 6), (std::vector<uint8_t>{1, 0, 0, 0, 0, 1}));
  std::string picked[6];
  where_strings(*Broadcast::from_shapes(out, three), condition, a, b, picked, 0, 6);
  EXPECT_EQ(std::vector<std::string>(picked, picked + 6), (std::vector<std::string>{"x", "z", "x", "y", "z", "y"}));
}

TEST(Dropout, StreamIsNumpys) {
  Mt19937 zero(0);
  EXPECT_EQ(zero.next_double(), 0.5488135039273248);
  EXPECT_EQ(zero.next_double(), 0.7151893663724195);
  EXPECT_EQ(zero.next_double(), 0.6027633760716439);
  Mt19937 other(12345);
  for (int i = 0; i < 1000; ++i) other.next_double();
  EXPECT_EQ(other.next_double(), 0.7976445358842773);
  Mt19937 again(0);
  uint8_t keep[4];
  dropout_mask(again, 0.58, keep);
  EXPECT_EQ(std::vector<uint8_t>(keep, keep + 4), (std::vector<uint8_t>{0, 1, 1, 0}));
}

}  // namespace
}  // namespace forethought::kernels
