// Matrix products: the reference against the definition, the SIMD kernel and oneDNN's against the reference.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "base/half.h"
#include "kernels/gemm/reference.h"
#include "kernels/gemm/sgemm.h"
#include "kernels/onednn/onednn.h"

namespace forethought::kernels {
namespace {

std::vector<float> random(int64_t n, unsigned seed) {
  std::mt19937 rng(seed);
  std::uniform_real_distribution<float> u(-1, 1);
  std::vector<float> v(n);
  for (float& f : v) f = u(rng);
  return v;
}

template <typename T>
Matrix<T> matrix(const std::vector<T>& v, int64_t rows, int64_t cols, bool transposed) {
  return transposed ? Matrix<T>{v.data(), 1, rows} : Matrix<T>{v.data(), cols, 1};
}

TEST(GemmReference, AgreesWithTheDefinition) {
  for (int64_t m : {1, 3, 4, 5, 9})
    for (int64_t n : {1, 7, 64, 65, 130})
      for (int64_t k : {0, 1, 5, 70})
        for (int t = 0; t < 4; ++t) {
          const auto a = random(m * k, 1), b = random(k * n, 2);
          const auto ma = matrix(a, m, k, t & 1), mb = matrix(b, k, n, t & 2);
          std::vector<float> c(m * (n + 2), 7.0f);
          gemm_reference(ma, mb, n, k, c.data(), n + 2, 0, m / 2);
          gemm_reference(ma, mb, n, k, c.data(), n + 2, m / 2, m);
          for (int64_t i = 0; i < m; ++i) {
            for (int64_t j = 0; j < n; ++j) {
              double want = 0;
              for (int64_t p = 0; p < k; ++p)
                want += double(ma.data[i * ma.row_stride + p * ma.col_stride]) *
                        mb.data[p * mb.row_stride + j * mb.col_stride];
              ASSERT_NEAR(c[i * (n + 2) + j], want, 1e-4) << m << "x" << k << "x" << n << " " << t;
            }
            ASSERT_EQ(c[i * (n + 2) + n], 7.0f) << "wrote beyond a row";
          }
        }
}

TEST(GemmReference, IntegersWrap) {
  const int32_t big = std::numeric_limits<int32_t>::max();
  const std::vector<int32_t> a{big, big}, b{2, 1};
  int32_t c = 0;
  gemm_reference<int32_t, int32_t>({a.data(), 2, 1}, {b.data(), 1, 1}, 1, 2, &c, 1, 0, 1);
  EXPECT_EQ(static_cast<uint32_t>(c), static_cast<uint32_t>(big) * 3u);
  const std::vector<uint64_t> u{~uint64_t{0}}, v{3};
  uint64_t w = 0;
  gemm_reference<uint64_t, uint64_t>({u.data(), 1, 1}, {v.data(), 1, 1}, 1, 1, &w, 1, 0, 1);
  EXPECT_EQ(w, ~uint64_t{0} * 3);
}

std::vector<Isa> vector_tiers() {
  std::vector<Isa> r;
  for (Isa i : {Isa::avx2, Isa::avx512})
    if (i <= detected_isa()) r.push_back(i);
  return r;
}

TEST(Sgemm, AgreesWithTheReference) {
  for (Isa isa : vector_tiers())
    for (int64_t m : {1, 2, 5, 6, 7, 12, 13, 25})
      for (int64_t n : {1, 7, 15, 16, 17, 31, 32, 33, 64, 70})
        for (int64_t k : {0, 1, 3, 33, 1030})
          for (int t = 0; t < 4; ++t) {
            const auto a = random(m * k, 1), b = random(k * n, 2), start = random(m * n, 3);
            const auto ma = matrix(a, m, k, t & 1), mb = matrix(b, k, n, t & 2);
            const bool accumulate = t == 3;
            std::vector<float> want(m * n), packed(sgemm_packed_size(isa, k, n), NAN), c = start;
            gemm_reference(ma, mb, n, k, want.data(), n, 0, m);
            const int64_t panels = sgemm_panels(isa, n);
            sgemm_pack<float>(isa, mb, k, n, packed.data(), 0, panels / 2);
            sgemm_pack<float>(isa, mb, k, n, packed.data(), panels / 2, panels);
            const SgemmB sb = sgemm_packed(isa, packed.data(), k);
            const int64_t cut = m / 3;
            sgemm(isa, ma, sb, n, k, c.data(), n, 0, cut, 0, panels, accumulate);
            sgemm(isa, ma, sb, n, k, c.data(), n, cut, m, 0, panels, accumulate);
            for (int64_t i = 0; i < m * n; ++i)
              ASSERT_NEAR(c[i], want[i] + (accumulate ? start[i] : 0.0f), 1e-6 * (k + 1) + 1e-5)
                  << name(isa) << " " << m << "x" << k << "x" << n << " form " << t << " at " << i;
            if (t & 2 || n < sgemm_panel(isa)) continue;
            std::vector<float> in_place(m * n, NAN);
            const int64_t whole = n / sgemm_panel(isa);
            sgemm(isa, ma, sgemm_in_place(isa, b.data(), n), n, k, in_place.data(), n, 0, m, 0, whole, false);
            for (int64_t i = 0; i < m; ++i)
              for (int64_t j = 0; j < n; ++j)
                if (j < whole * sgemm_panel(isa))
                  ASSERT_NEAR(in_place[i * n + j], want[i * n + j], 1e-6 * (k + 1) + 1e-5);
                else
                  ASSERT_TRUE(std::isnan(in_place[i * n + j])) << "wrote a panel nobody asked for";
          }
}

// Rows of A that are a power of two apart take the path that copies them first.
TEST(Sgemm, RowsThatCollideInCache) {
  for (Isa isa : vector_tiers())
    for (int64_t m : {3, 12, 17}) {
      const int64_t k = 1024, n = 70;
      const auto a = random(m * k, 1), b = random(k * n, 2);
      std::vector<float> want(m * n), packed(sgemm_packed_size(isa, k, n)), c(m * n, NAN);
      gemm_reference<float, float>({a.data(), k, 1}, {b.data(), n, 1}, n, k, want.data(), n, 0, m);
      sgemm_pack<float>(isa, {b.data(), n, 1}, k, n, packed.data(), 0, sgemm_panels(isa, n));
      sgemm(isa, {a.data(), k, 1}, sgemm_packed(isa, packed.data(), k), n, k, c.data(), n, 0, m, 0,
            sgemm_panels(isa, n), false);
      for (int64_t i = 0; i < m * n; ++i) ASSERT_NEAR(c[i], want[i], 1e-3) << name(isa) << " " << m << " at " << i;
    }
}

TEST(Sgemm, FinishAgreesWithScalar) {
  const Epilogue all[] = {{},
                          {Activation::relu, 0, 0},
                          {Activation::leaky_relu, 0.1f, 0},
                          {Activation::clip, -0.5f, 0.5f},
                          {Activation::sigmoid, 0, 0},
                          {Activation::hard_sigmoid, 0.2f, 0.5f},
                          {Activation::hard_swish, 0, 0},
                          {Activation::tanh, 0, 0},
                          {Activation::elu, 1.5f, 0},
                          {Activation::gelu, 0, 0},
                          {Activation::swish, 0, 0}};
  const int64_t rows = 3, cols = 41;
  const auto c = random(rows * cols, 1), z = random(rows * cols, 2);
  for (Isa isa : vector_tiers())
    for (const Epilogue& e : all)
      for (const Matrix<float>& addend :
           {Matrix<float>{nullptr, 0, 0}, Matrix<float>{z.data(), 0, 1}, Matrix<float>{z.data(), 1, 0},
            Matrix<float>{z.data(), 0, 0}, Matrix<float>{z.data(), cols, 1}, Matrix<float>{z.data(), 1, rows}}) {
        const Finish f{0.5f, 2.0f, addend, e};
        std::vector<float> want = c, got = c;
        if (!want.empty()) want[0] = got[0] = NAN;
        sgemm_finish(Isa::scalar, f, want.data(), cols, 0, rows, 2, cols - 1);
        sgemm_finish(isa, f, got.data(), cols, 0, rows, 2, cols - 1);
        for (int64_t i = 1; i < rows * cols; ++i)
          ASSERT_NEAR(got[i], want[i], 1e-6) << name(isa) << name(e.activation) << i;
      }
}

TEST(OnednnMatmul, AgreesWithTheReference) {
  if (!onednn::serves_matmul(active_isa(), DType::kFloat)) GTEST_SKIP() << "no packed matmul at this tier";
  for (int64_t m : {1, 3, 64})
    for (int64_t n : {1, 5, 63, 64, 65, 200})
      for (int64_t k : {1, 7, 16, 100, 300}) {
        const auto a = random(m * k, 1), b = random(k * n, 2), bias = random(n, 3);
        std::vector<float> packed(onednn::matmul_packed_size(DType::kFloat, k, n) + 16), want(m * n), got(m * n, NAN);
        float* aligned = reinterpret_cast<float*>((reinterpret_cast<uintptr_t>(packed.data()) + 63) & ~uintptr_t{63});
        onednn::pack_matmul(Matrix<float>{b.data(), n, 1}, k, n, aligned);
        gemm_reference<float, float>({a.data(), k, 1}, {b.data(), n, 1}, n, k, want.data(), n, 0, m);
        const Epilogue relu{Activation::relu, 0, 0};
        const auto p = onednn::make_matmul({m, k, n, DType::kFloat, true, relu});
        ASSERT_TRUE(p.ok()) << p.status();
        std::vector<float> scratch((*p)->scratch_bytes() / 4 + 32);
        void* s = reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(scratch.data()) + 63) & ~uintptr_t{63});
        ASSERT_TRUE((*p)->run(a.data(), aligned, bias.data(), got.data(), s).ok());
        for (int64_t i = 0; i < m * n; ++i)
          ASSERT_NEAR(got[i], activate(relu, want[i] + bias[i % n]), 1e-4) << m << "x" << k << "x" << n << " " << i;
      }
}

TEST(OnednnMatmul, BFloat16SumsInFloat) {
  if (!onednn::serves_matmul(active_isa(), DType::kBFloat16)) GTEST_SKIP() << "no bf16 matmul on this machine";
  for (int64_t m : {1, 9})
    for (int64_t n : {5, 64, 130})
      for (int64_t k : {1, 33, 100}) {
        const auto af = random(m * k, 1), bf = random(k * n, 2);
        const std::vector<BFloat16> a(af.begin(), af.end()), b(bf.begin(), bf.end());
        std::vector<BFloat16> packed(onednn::matmul_packed_size(DType::kBFloat16, k, n) + 32), want(m * n), got(m * n);
        auto* aligned = reinterpret_cast<BFloat16*>((reinterpret_cast<uintptr_t>(packed.data()) + 63) & ~uintptr_t{63});
        onednn::pack_matmul(Matrix<BFloat16>{b.data(), n, 1}, k, n, aligned);
        gemm_reference<BFloat16, BFloat16>({a.data(), k, 1}, {b.data(), n, 1}, n, k, want.data(), n, 0, m);
        const auto p = onednn::make_matmul({m, k, n, DType::kBFloat16, false, {}});
        ASSERT_TRUE(p.ok()) << p.status();
        std::vector<float> scratch((*p)->scratch_bytes() / 4 + 32);
        void* s = reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(scratch.data()) + 63) & ~uintptr_t{63});
        ASSERT_TRUE((*p)->run(a.data(), aligned, nullptr, got.data(), s).ok());
        for (int64_t i = 0; i < m * n; ++i) {
          const float w = static_cast<float>(want[i]), g = static_cast<float>(got[i]);
          ASSERT_NEAR(g, w, std::abs(w) / 128 + 1e-3) << m << "x" << k << "x" << n << " " << i;
        }
      }
}

}  // namespace
}  // namespace forethought::kernels
