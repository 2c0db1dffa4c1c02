// ArgMax, ArgMin and NonZero against index walks; ties, NaN, −0, every type.
#include "kernels/select/select.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace forethought::kernels {
namespace {

std::vector<Isa> tiers() {
  std::vector<Isa> t;
  for (Isa isa : {Isa::scalar, Isa::avx2, Isa::avx512})
    if (isa <= detected_isa()) t.push_back(isa);
  return t;
}

template <typename T>
T make(int v) {
  if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>)
    return T(static_cast<float>(v));
  else
    return static_cast<T>(v);
}
template <typename T>
double value(T v) {
  if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>)
    return static_cast<float>(v);
  else
    return static_cast<double>(v);
}

template <typename T>
void check_arg(Isa isa, int64_t outer, int64_t n, int64_t inner) {
  std::mt19937 g(static_cast<unsigned>(n + inner));
  std::vector<T> in(outer * n * inner);
  for (T& v : in) v = make<T>(static_cast<int>(g() % 9));
  if constexpr (std::is_same_v<T, float> || std::is_same_v<T, Float16>) {
    for (T& v : in)
      if (g() % (3 * n) == 0) v = T(std::numeric_limits<float>::quiet_NaN());
  }
  for (ArgKind kind : {ArgKind::max, ArgKind::min})
    for (bool last : {false, true}) {
      std::vector<int64_t> out(outer * inner, -1);
      const int64_t lines = outer * inner;
      arg_extreme(isa, kind, last, dtype_of<T>, in.data(), out.data(), n, inner, 0, lines / 2);
      arg_extreme(isa, kind, last, dtype_of<T>, in.data(), out.data(), n, inner, lines / 2, lines);
      for (int64_t l = 0; l < lines; ++l) {
        const auto at = [&](int64_t i) { return value(in[(l / inner * n + i) * inner + l % inner]); };
        const auto rank = [&](double v) {
          return std::isnan(v) ? std::numeric_limits<double>::infinity() : kind == ArgKind::max ? v : -v;
        };
        int64_t want = 0;
        for (int64_t i = 1; i < n; ++i)
          if (rank(at(i)) > rank(at(want)) || (last && rank(at(i)) == rank(at(want)))) want = i;
        ASSERT_EQ(out[l], want) << name(isa) << ' ' << name(dtype_of<T>) << ' ' << n << 'x' << inner << " line " << l;
      }
    }
}

TEST(ArgExtreme, SizesTypesTiesAndNaN) {
  for (Isa isa : tiers())
    for (int64_t n : {1, 2, 7, 16, 17, 33, 70})
      for (int64_t inner : {1, 2, 5, 300})
        for (DType t : {DType::kFloat, DType::kDouble, DType::kFloat16, DType::kBFloat16, DType::kInt8, DType::kInt16,
                        DType::kInt32, DType::kInt64, DType::kUint8, DType::kUint16, DType::kUint32, DType::kUint64})
          dispatch(t, NumberTypes{}, [&]<typename T>() { check_arg<T>(isa, 3, n, inner); });
}

TEST(ArgExtreme, ZerosOfBothSignsTie) {
  const std::vector<float> in = {-1.f, -0.f, 0.f, -1.f};
  int64_t first = -1, last = -1;
  for (Isa isa : tiers()) {
    arg_extreme(isa, ArgKind::max, false, DType::kFloat, in.data(), &first, 4, 1, 0, 1);
    arg_extreme(isa, ArgKind::max, true, DType::kFloat, in.data(), &last, 4, 1, 0, 1);
    EXPECT_EQ(first, 1);
    EXPECT_EQ(last, 2);
  }
}

std::vector<int64_t> all_nonzero(DType dtype, const void* in, const std::vector<int64_t>& dims, int64_t blocks) {
  int64_t total = 1;
  for (int64_t d : dims) total *= d;
  std::vector<int64_t> starts{0};
  const auto edge = [&](int64_t b) { return total * b / blocks; };
  for (int64_t b = 0; b < blocks; ++b) starts.push_back(starts.back() + count_nonzero(dtype, in, edge(b), edge(b + 1)));
  std::vector<int64_t> out(dims.size() * starts.back(), -1);
  for (int64_t b = 0; b < blocks; ++b)
    write_nonzero(dtype, in, dims, edge(b), edge(b + 1), out.data(), starts.back(), starts[b]);
  return out;
}

TEST(NonZero, CoordinatesAreRowMajorWhateverTheBlocks) {
  const std::vector<float> in = {1, 0, -0.f, 2, std::numeric_limits<float>::quiet_NaN(), 0};
  for (int64_t blocks : {1, 2, 3, 6}) {
    EXPECT_EQ(all_nonzero(DType::kFloat, in.data(), {2, 3}, blocks), (std::vector<int64_t>{0, 1, 1, 0, 0, 1}));
    EXPECT_EQ(all_nonzero(DType::kFloat, in.data(), {6}, blocks), (std::vector<int64_t>{0, 3, 4}));
    EXPECT_EQ(all_nonzero(DType::kFloat, in.data(), {1, 6, 1}, blocks),
              (std::vector<int64_t>{0, 0, 0, 0, 3, 4, 0, 0, 0}));
  }
}

TEST(NonZero, EdgesOfShapeAndType) {
  const float one = 1;
  EXPECT_EQ(count_nonzero(DType::kFloat, &one, 0, 1), 1);
  EXPECT_TRUE(all_nonzero(DType::kFloat, &one, {}, 1).empty());  // rank 0: a [0, 1] result
  EXPECT_TRUE(all_nonzero(DType::kFloat, nullptr, {2, 0}, 1).empty());
  const std::vector<std::string> words = {"", "a", ""};
  EXPECT_EQ(all_nonzero(DType::kString, words.data(), {3}, 1), (std::vector<int64_t>{1}));
  const std::vector<Float16> halves = {Float16(0.f), Float16(-0.f), Float16(1.f)};
  EXPECT_EQ(all_nonzero(DType::kFloat16, halves.data(), {3}, 1), (std::vector<int64_t>{2}));
  for (DType t : {DType::kBool, DType::kInt8, DType::kUint8, DType::kInt16, DType::kUint16, DType::kInt32,
                  DType::kUint32, DType::kInt64, DType::kUint64}) {
    const int width = bit_width(t) / 8;
    std::vector<uint8_t> bytes(3 * width, 0);
    bytes[2 * width - 1] = 0x80;  // the highest byte of the middle element
    EXPECT_EQ(all_nonzero(t, bytes.data(), {3}, 1), (std::vector<int64_t>{1})) << name(t);
  }
}

}  // namespace
}  // namespace forethought::kernels
