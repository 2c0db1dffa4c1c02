// Dim: symbolic arithmetic, comparison and broadcasting of dims.
#include "graph/dim.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace forethought {
namespace {

const Dim N = Dim::symbol("N"), C = Dim::symbol("C"), W = Dim::symbol("W");
Dim nz(const char* name, const Dim& most) { return Dim::data(name, 0, most); }

TEST(Dim, EqualExpressionsCompareEqual) {
  EXPECT_TRUE((N + N).same(Dim(2) * N));
  EXPECT_TRUE((N * C + 1).same(Dim(1) + C * N));
  EXPECT_TRUE(((N + 1) * (N - 1)).same(N * N - 1));
  EXPECT_TRUE(floor_div(N * C, C).same(N));
  EXPECT_TRUE(floor_div(Dim(4) * N + 2, Dim(4)).same(N + floor_div(Dim(2), Dim(4))));
  EXPECT_TRUE((N - N) == 0);
  EXPECT_FALSE(N.same(C));
  EXPECT_FALSE(Dim::unknown().same(Dim::unknown()));
  EXPECT_TRUE(max(N, N - 1).same(N));
  EXPECT_TRUE(min(N, C).same(min(C, N)));
  EXPECT_TRUE(mod(Dim(6) * N, Dim(3)) == 0);
}

TEST(Dim, TextRoundTrips) {
  for (const Dim& d : {Dim(-3), N, Dim(2) * N + 1, floor_div(W - 3, Dim(2)) + 1, max(N, C) * W - 5, mod(N, C),
                       Dim::symbol("batch size"), Dim::unknown(), Dim(0) - N, nz("nz.1", N * C), nz("a b", 7) + N}) {
    const auto back = dim_from_text(to_string(d));
    ASSERT_TRUE(back.has_value()) << to_string(d);
    EXPECT_TRUE(back->same(d) || (back->is_unknown() && d.is_unknown())) << to_string(d) << " / " << to_string(*back);
  }
  for (const char* bad :
       {"", "1 +", "f(1,2)", "(N", "`N", "99999999999999999999", "upto(1,2", "upto(a+b,2)", "upto(,2)"})
    EXPECT_FALSE(dim_from_text(bad).has_value()) << bad;
}

TEST(Dim, SubstitutesAndOverflowsToUnknown) {
  const Dim d = floor_div(W + 2 * 1 - 3, Dim(2)) + N * C;
  const Dim v = d.substitute([](std::string_view n) -> std::optional<int64_t> {
    return n == "W" ? 9 : n == "N" ? 2 : 5;
  });
  EXPECT_TRUE(v == 14) << to_string(v);
  EXPECT_TRUE((Dim(INT64_MAX) + 1).is_unknown());
  EXPECT_TRUE((Dim(INT64_MAX) * 2).is_unknown());
  EXPECT_TRUE(floor_div(N, Dim(0)).is_unknown());
  EXPECT_TRUE(floor_div(Dim(-7), Dim(2)) == -4);
}

TEST(Dim, WhatDataDecideIsOneDimByNameAndIdAndBound) {
  const Dim d = Dim::data("d", 1, N);
  EXPECT_TRUE(d.same(Dim::data("d", 1, N)));
  EXPECT_FALSE(d.same(Dim::data("d", 2, N)));
  EXPECT_FALSE(d.same(Dim::data("d", 1, C)));
  EXPECT_FALSE(d.same(Dim::data("e", 1, N)));
  EXPECT_FALSE(d.same(Dim::symbol("d")));
  EXPECT_TRUE((d * 2 - d - d) == 0);
  EXPECT_TRUE(d.depends_on_data() && (min(d + 1, C) * W).depends_on_data() && !(N * C).depends_on_data());
  EXPECT_TRUE(Dim::data("d", 1, Dim::unknown()).is_unknown());
  EXPECT_TRUE(Dim::data("d", 1, 0) == 0);
  EXPECT_TRUE(Dim::data("d", 1, -5) == 0);
  EXPECT_EQ(to_string(Dim::data("outer", 1, d * 3)), "upto(outer,3*N)") << "bounds hold no dims that data decide";
  const auto ten = [](std::string_view n) { return n == "N" ? std::optional<int64_t>(10) : std::nullopt; };
  EXPECT_EQ(to_string((d * C).substitute(ten)), "C*upto(d,10)");
  EXPECT_TRUE(Dim::data("N", 1, 20).substitute(ten) == 10);
  std::vector<std::string> names;
  (d + C).symbols(&names);
  std::ranges::sort(names);
  EXPECT_EQ(names, (std::vector<std::string>{"C", "N"}));
}

TEST(Dim, UpperBounds) {
  const Dim d = nz("d", N), e = nz("e", 10);
  struct Case {
    Dim dim;
    const char* bound;
  };
  const Case cases[] = {{7, "7"},
                        {-7, "0"},
                        {N * C - 3, "N*C - 3"},
                        {Dim::unknown(), "?"},
                        {d, "N"},
                        {e, "10"},
                        {d * 2 + 5, "2*N + 5"},
                        {e * C, "10*C"},
                        {e * e * 3, "300"},
                        {e * (e + 1), "110"},
                        {C - d, "C"},
                        {Dim(50) - e, "50"},
                        {e - 20, "0"},
                        {e - N, "10 - N"},
                        {floor_div(e + 5, Dim(4)), "3"},
                        {floor_div(d + 1, Dim(2)), "floor_div(N + 1,2)"},
                        {floor_div(e, C), "floor_div(10,C)"},
                        {floor_div(e, d), "10"},
                        {floor_div(Dim(100), e), "100"},
                        {floor_div(e - 3, d), "?"},
                        {floor_div(e, Dim(-2)), "?"},
                        {floor_div(e, N - 3), "?"},
                        {ceil_div(e, Dim(3)), "4"},
                        {mod(e, Dim(4)), "3"},
                        {mod(e, Dim(40)), "10"},
                        {mod(e - 20, Dim(40)), "39"},
                        {mod(e, Dim(-4)), "?"},
                        {min(e, Dim(4)), "4"},
                        {min(e, N - 3), "min(10,N - 3)"},
                        {max(e, Dim(14)), "14"},
                        {max(e - 20, Dim(1)), "1"},
                        {max(e, d), "max(10,N)"},
                        {max(min(e, Dim(6)) - 2, Dim(0)) * 4, "16"}};
  for (const Case& c : cases) {
    const Dim bound = upper_bound(c.dim);
    const auto want = dim_from_text(c.bound);
    ASSERT_TRUE(want.has_value()) << c.bound;
    const bool clamped = bound.is_symbolic() && bound.same(max(*want, Dim(0)));  // where it might be negative
    EXPECT_TRUE(bound.same(*want) || clamped || (bound.is_unknown() && want->is_unknown()))
        << to_string(c.dim) << " is at most " << to_string(bound) << ", not " << c.bound;
  }
}

// Whatever numbers come, no expression is larger than its bound.
TEST(Dim, UpperBoundsHoldForRandomExpressions) {
  std::mt19937 rng(7);
  const auto pick = [&](int n) { return static_cast<int>(rng() % static_cast<unsigned>(n)); };
  int bounded = 0;
  for (int round = 0; round < 3000; ++round) {
    std::vector<Dim> pool = {N, C, nz("d", N), nz("e", 6), nz("f", N * 2 + C), pick(5), pick(9) + 1};
    for (int k = 0; k < 6; ++k) {
      const Dim a = pool[pick(static_cast<int>(pool.size()))], b = pool[pick(static_cast<int>(pool.size()))];
      const Dim made[] = {a + b, a - b, a * b, floor_div(a, b), mod(a, b), min(a, b), max(a, b)};
      pool.push_back(made[pick(7)]);
    }
    const Dim& dim = pool.back();
    const Dim bound = upper_bound(dim);
    EXPECT_FALSE(bound.depends_on_data());
    for (int trial = 0; trial < 20 && !bound.is_unknown(); ++trial) {
      const int64_t n = pick(8), c = pick(4);
      const int64_t values[] = {n, c, pick(static_cast<int>(n) + 1), pick(7), pick(static_cast<int>(2 * n + c) + 1)};
      const auto lookup = [&](std::string_view name) -> std::optional<int64_t> {
        return values[std::string_view("NCdef").find(name)];
      };
      const Dim real = dim.substitute(lookup), most = bound.substitute(lookup);
      if (!real.is_known() || real.value() < 0) continue;  // divides by 0, or is no dim
      ++bounded;
      ASSERT_TRUE(most.is_known() && real.value() <= most.value())
          << to_string(dim) << " is " << real.value() << ", more than " << to_string(bound) << " = " << to_string(most)
          << " with N " << n << ", C " << c << ", d " << values[2] << ", e " << values[3] << ", f " << values[4];
    }
  }
  EXPECT_GT(bounded, 20000);
}

TEST(Shape, Broadcasts) {
  const SymShape a({N, Dim(1), Dim(3)}), b({Dim(4), Dim(3)});
  const auto r = broadcast(a, b);
  ASSERT_TRUE(r.has_value());
  EXPECT_EQ(to_string(*r), "[N,4,3]");
  EXPECT_FALSE(broadcast(SymShape({Dim(2)}), SymShape({Dim(3)})).has_value());
  EXPECT_TRUE(broadcast(Dim(1), N)->same(N));
  EXPECT_TRUE(broadcast(N, C)->is_unknown());
}

}  // namespace
}  // namespace forethought
