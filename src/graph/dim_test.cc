// Dim: symbolic arithmetic, comparison and broadcasting of dims.
#include "graph/dim.h"

#include <gtest/gtest.h>

namespace forethought {
namespace {

const Dim N = Dim::symbol("N"), C = Dim::symbol("C"), W = Dim::symbol("W");

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
                       Dim::symbol("batch size"), Dim::unknown(), Dim(0) - N}) {
    const auto back = dim_from_text(to_string(d));
    ASSERT_TRUE(back.has_value()) << to_string(d);
    EXPECT_TRUE(back->same(d) || (back->is_unknown() && d.is_unknown())) << to_string(d) << " / " << to_string(*back);
  }
  for (const char* bad : {"", "1 +", "f(1,2)", "(N", "`N", "99999999999999999999"})
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
