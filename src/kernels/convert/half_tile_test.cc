// Half-precision tiles: every bit pattern widened, and SIMD against plain code with rounding ties, NaN and infinities.
#include "kernels/convert/half_tile.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <vector>

namespace forethought::kernels {
namespace {

template <typename T>
void check_all_patterns(Isa isa) {
  std::vector<T> in(65536);
  for (int i = 0; i < 65536; ++i) in[i] = T::from_bits(static_cast<uint16_t>(i));
  std::vector<float> out(in.size());
  widen(isa, in.data(), out.data(), 65536);
  std::vector<T> back(in.size());
  narrow(isa, out.data(), back.data(), 65536);
  for (int i = 0; i < 65536; ++i) {
    const float want = static_cast<float>(in[i]);
    if (std::isnan(want)) {
      EXPECT_TRUE(std::isnan(out[i]) && std::isnan(static_cast<float>(back[i]))) << i;
    } else {
      EXPECT_EQ(std::bit_cast<uint32_t>(want), std::bit_cast<uint32_t>(out[i])) << i;
      EXPECT_EQ(back[i].bits, i);
    }
  }
}

template <typename T>
void check_rounding(Isa isa) {
  std::vector<float> in;
  for (uint32_t u = 0; u < 0xffff0000u; u += 0x3ff7u) in.push_back(std::bit_cast<float>(u));
  for (float f : {65519.99f, 65520.0f, 1.00048828125f, 1.00146484375f, 2.98e-8f, 2.99e-8f, 3.4e38f}) in.push_back(f);
  for (size_t n : {size_t{0}, size_t{1}, size_t{15}, size_t{17}, size_t{33}, in.size() - 1}) {
    std::vector<T> plain(n), simd(n);
    narrow(Isa::scalar, in.data() + 1, plain.data(), static_cast<int64_t>(n));
    narrow(isa, in.data() + 1, simd.data(), static_cast<int64_t>(n));
    for (size_t i = 0; i < n; ++i) {
      if (std::isnan(in[i + 1])) {
        EXPECT_TRUE(std::isnan(static_cast<float>(simd[i])));
      } else {
        EXPECT_EQ(plain[i].bits, simd[i].bits) << in[i + 1];
      }
    }
  }
}

TEST(HalfTile, EveryPatternAndRoundingInEachTier) {
  for (Isa isa : {Isa::scalar, Isa::avx2, Isa::avx512}) {
    if (isa > detected_isa()) continue;
    SCOPED_TRACE(name(isa));
    check_all_patterns<Float16>(isa);
    check_all_patterns<BFloat16>(isa);
    check_rounding<Float16>(isa);
    check_rounding<BFloat16>(isa);
  }
}

}  // namespace
}  // namespace forethought::kernels
