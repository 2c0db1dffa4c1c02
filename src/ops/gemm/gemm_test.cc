// Gemm, MatMul and their fused forms: every form against sums from the definition, edge shapes, refusals.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "ops/op_testing.h"

namespace forethought {
namespace {

using Ints = std::vector<int64_t>;

template <typename T>
Tensor filled(const Ints& dims, unsigned seed) {
  std::mt19937 rng(seed);
  Tensor t = make_tensor(dtype_of<T>, dims).value();
  for (int64_t i = 0; i < t.elements(); ++i)
    t.as<T>()[i] = static_cast<T>(static_cast<float>(static_cast<int>(rng() % 17) - (std::is_unsigned_v<T> ? 0 : 8)));
  return t;
}

template <typename T>
double at(const Tensor& t, int64_t i) {
  if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>) {
    return static_cast<float>(t.as<T>()[i]);
  } else {
    return static_cast<double>(t.as<T>()[i]);
  }
}

template <typename T>
double half_step(double v) {  // how far rounding to T may move a value
  if constexpr (std::is_same_v<T, Float16>) return std::abs(v) / 1024;
  if constexpr (std::is_same_v<T, BFloat16>) return std::abs(v) / 128;
  return std::abs(v) * 1e-6;
}

template <typename T>
void check_gemm(int64_t m, int64_t n, int64_t k, bool ta, bool tb, const Ints* c_dims, float alpha, float beta,
                bool constant) {
  OpCase oc{.op = "Gemm"};
  const Tensor a = filled<T>(ta ? Ints{k, m} : Ints{m, k}, 1), b = filled<T>(tb ? Ints{n, k} : Ints{k, n}, 2);
  oc.inputs = {a, b};
  Tensor c;
  if (c_dims) oc.inputs.push_back(c = filled<T>(*c_dims, 3));
  oc.attributes = attributes({{"transA", int64_t{ta}}, {"transB", int64_t{tb}}, {"alpha", alpha}, {"beta", beta}});
  if (constant) oc.constants = 6;
  const auto r = run_case(oc);
  ASSERT_TRUE(r.ok()) << r.status();
  const Tensor& y = r->outputs[0].tensor();
  ASSERT_EQ(Ints(y.dims.begin(), y.dims.end()), (Ints{m, n}));
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double want = 0;
      for (int64_t p = 0; p < k; ++p)
        want += at<T>(a, ta ? p * m + i : i * k + p) * at<T>(b, tb ? j * k + p : p * n + j);
      want *= alpha;
      if (c_dims) {
        const int64_t cols = c_dims->empty() ? 1 : c_dims->back(), rows = c_dims->size() < 2 ? 1 : (*c_dims)[0];
        want += beta * at<T>(c, (rows == 1 ? 0 : i) * cols + (cols == 1 ? 0 : j));
      }
      if (std::is_integral_v<T>) want = std::trunc(want);
      ASSERT_NEAR(at<T>(y, i * n + j), want, half_step<T>(want) + 1e-4)
          << name(dtype_of<T>) << " " << m << "x" << k << "x" << n << " " << ta << tb << " " << r->facts.kernel
          << " at " << i << "," << j;
    }
}

TEST(Gemm, EveryFormOfEveryType) {
  const Ints shapes[] = {{}, {1}, {37}, {1, 37}, {5, 1}, {5, 37}, {1, 1}};
  const auto all = [&]<typename T>() {
    for (int form = 0; form < 4; ++form) {
      for (const Ints& s : shapes) check_gemm<T>(5, 37, 9, form & 1, form & 2, &s, 1, 1, form == 3);
      check_gemm<T>(5, 37, 9, form & 1, form & 2, nullptr, 1, 1, true);
      check_gemm<T>(5, 37, 9, form & 1, form & 2, &shapes[2], 0.5f, 2.0f, false);
      check_gemm<T>(5, 37, 0, form & 1, form & 2, &shapes[2], 1, 1, false);
      check_gemm<T>(0, 37, 4, form & 1, form & 2, &shapes[2], 1, 1, true);
      check_gemm<T>(50, 70, 33, form & 1, form & 2, nullptr, 1, 1, false);
    }
  };
  all.operator()<float>();
  all.operator()<double>();
  all.operator()<Float16>();
  all.operator()<BFloat16>();
  all.operator()<int32_t>();
  all.operator()<int64_t>();
  all.operator()<uint32_t>();
  all.operator()<uint64_t>();
}

template <typename T>
void check_matmul(const Ints& ad, const Ints& bd, const Ints& yd, bool constant) {
  const Tensor a = filled<T>(ad, 1), b = filled<T>(bd, 2);
  OpCase c{.op = "MatMul", .inputs = {a, b}};
  if (constant) c.constants = 2;
  const auto r = run_case(c);
  ASSERT_TRUE(r.ok()) << r.status();
  const Tensor& y = r->outputs[0].tensor();
  ASSERT_EQ(Ints(y.dims.begin(), y.dims.end()), yd);
  // Full shapes with ones put in, and the batch position of each input found by remainders.
  Ints fa = ad.size() == 1 ? Ints{1, ad[0]} : ad, fb = bd.size() == 1 ? Ints{bd[0], 1} : bd, fy = yd;
  if (bd.size() == 1) fy.push_back(1);
  if (ad.size() == 1) fy.insert(fy.end() - 1, 1);
  const size_t rank = fy.size();
  while (fa.size() < rank) fa.insert(fa.begin(), 1);
  while (fb.size() < rank) fb.insert(fb.begin(), 1);
  const int64_t m = fy[rank - 2], n = fy[rank - 1], k = fa[rank - 1];
  for (int64_t o = 0; o < y.elements(); ++o) {
    int64_t rest = o / (m * n), ia = 0, ib = 0, sa = 1, sb = 1;
    for (int d = static_cast<int>(rank) - 3; d >= 0; --d) {
      const int64_t i = rest % fy[d];
      rest /= fy[d];
      ia += (fa[d] == 1 ? 0 : i) * sa, ib += (fb[d] == 1 ? 0 : i) * sb;
      sa *= fa[d], sb *= fb[d];
    }
    const int64_t i = o / n % m, j = o % n;
    double want = 0;
    for (int64_t p = 0; p < k; ++p) want += at<T>(a, (ia * m + i) * k + p) * at<T>(b, (ib * k + p) * n + j);
    ASSERT_NEAR(at<T>(y, o), want, half_step<T>(want) + 1e-4)
        << name(dtype_of<T>) << " " << r->facts.kernel << " at " << o;
  }
}

TEST(MatMul, ShapesOfEveryType) {
  const struct {
    Ints a, b, y;
  } cases[] = {
      {{3}, {3}, {}},
      {{3}, {3, 4}, {4}},
      {{5, 3}, {3}, {5}},
      {{2, 5, 3}, {3}, {2, 5}},
      {{3}, {2, 3, 40}, {2, 40}},
      {{5, 3}, {3, 4}, {5, 4}},
      {{1, 70}, {70, 100}, {1, 100}},
      {{40, 17}, {17, 33}, {40, 33}},
      {{2, 5, 3}, {3, 4}, {2, 5, 4}},
      {{2, 50, 3}, {2, 3, 64}, {2, 50, 64}},
      {{2, 1, 5, 3}, {1, 4, 3, 6}, {2, 4, 5, 6}},
      {{1, 5, 3}, {4, 3, 6}, {4, 5, 6}},
      {{2, 2, 2, 3}, {2, 1, 3, 35}, {2, 2, 2, 35}},
      {{0, 2}, {2}, {0}},                 // pitfall 11
      {{0, 2, 3}, {1, 3, 2}, {0, 2, 2}},  // pitfall 11
      {{2, 0}, {0, 3}, {2, 3}},
      {{2, 3, 0}, {2, 0, 3}, {2, 3, 3}},
      {{2, 3}, {3, 0}, {2, 0}},
  };
  for (const auto& c : cases)
    for (bool constant : {false, true}) {
      check_matmul<float>(c.a, c.b, c.y, constant);
      check_matmul<double>(c.a, c.b, c.y, constant);
      check_matmul<Float16>(c.a, c.b, c.y, constant);
      check_matmul<BFloat16>(c.a, c.b, c.y, constant);
      check_matmul<int32_t>(c.a, c.b, c.y, constant);
      check_matmul<uint64_t>(c.a, c.b, c.y, constant);
    }
}

// Rows and columns beyond one block, with and without a bias row, in both orders of B.
TEST(Gemm, ManyRowsAndColumnsInBFloat16) {
  const Ints row{1030}, one{1};
  for (bool transposed : {false, true}) {
    check_gemm<BFloat16>(130, 1030, 40, false, transposed, &row, 1, 1, true);
    check_gemm<BFloat16>(64, 512, 33, false, transposed, &one, 1, 1, true);
    check_gemm<BFloat16>(3, 700, 20, false, transposed, nullptr, 1, 1, true);
    check_gemm<BFloat16>(70, 100, 20, true, transposed, nullptr, 1, 1, true);
    check_gemm<BFloat16>(70, 100, 20, false, transposed, nullptr, 0.5f, 1, true);
  }
}

TEST(MatMul, IntegersWrap) {
  const int32_t big = std::numeric_limits<int32_t>::max();
  const auto r = run_case(
      {.op = "MatMul", .inputs = {tensor_of<int32_t>({1, 2}, {big, big}), tensor_of<int32_t>({2, 1}, {2, 2})}});
  ASSERT_TRUE(r.ok());
  EXPECT_EQ(output_of<int32_t>(*r)[0], -4);
}

// Pitfall 11: with K = 0 the bias is still added.
TEST(FusedMatMul, AddsTheBiasWhenThereIsNothingToSum) {
  const auto r = run_case(
      {.op = "FusedMatMul",
       .inputs = {tensor_of<float>({2, 0}, {}), tensor_of<float>({0, 3}, {}), tensor_of<float>({3}, {1, 2, 3})},
       .domain = "forethought"});
  ASSERT_TRUE(r.ok()) << r.status();
  EXPECT_EQ(output_of<float>(*r), (std::vector<float>{1, 2, 3, 1, 2, 3}));
}

TEST(FusedMatMul, AppliesBiasAndActivation) {
  for (const char* op : {"FusedMatMul", "FusedGemm"})
    for (uint32_t constants : {0u, 6u}) {
      const auto r = run_case({.op = op,
                               .inputs = {tensor_of<float>({2, 2}, {1, 2, 3, 4}),
                                          tensor_of<float>({2, 2}, {1, 0, 0, 1}), tensor_of<float>({2}, {-2, 1})},
                               .attributes = attributes({{"activation", std::string("LeakyRelu")},
                                                         {"activation_params", std::vector<float>{0.5f}}}),
                               .domain = "forethought",
                               .constants = constants});
      ASSERT_TRUE(r.ok()) << r.status();
      EXPECT_EQ(output_of<float>(*r), (std::vector<float>{-0.5f, 3, 1, 5}));
    }
}

TEST(Gemm, Refuses) {
  const Tensor a = filled<float>({2, 3}, 1), b = filled<float>({3, 4}, 2);
  const struct {
    OpCase c;
    const char* expected;
  } cases[] = {
      {{.op = "Gemm", .inputs = {a, a}}, "columns meet"},
      {{.op = "Gemm", .inputs = {a, filled<float>({3}, 1)}}, "matrix"},
      {{.op = "Gemm", .inputs = {a, b, filled<float>({3}, 1)}}, "broadcast"},
      {{.op = "Gemm", .inputs = {a, filled<double>({3, 4}, 1)}}, "one type"},
      {{.op = "Gemm", .inputs = {filled<int8_t>({2, 3}, 1), filled<int8_t>({3, 4}, 1)}}, "int8"},
      {{.op = "MatMul", .inputs = {a, a}}, "columns meet"},
      {{.op = "MatMul", .inputs = {a, filled<float>({}, 1)}}, "scalar"},
      {{.op = "MatMul", .inputs = {filled<float>({2, 2, 3}, 1), filled<float>({3, 3, 2}, 1)}}, "broadcast"},
      {{.op = "FusedMatMul", .inputs = {a, b, filled<float>({3}, 1)}, .domain = "forethought"}, "bias"},
  };
  for (const auto& c : cases) {
    const auto r = run_case(c.c);
    ASSERT_FALSE(r.ok()) << c.expected;
    EXPECT_NE(r.status().message().find(c.expected), std::string::npos) << r.status();
  }
}

}  // namespace
}  // namespace forethought
