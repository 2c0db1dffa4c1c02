// Relu: zeroes negatives, keeps NaN, refuses strings.
#include <gtest/gtest.h>

#include <cmath>

#include "ops/op_testing.h"

namespace forethought {
namespace {

TEST(Relu, ZeroesNegativesAndKeepsNaN) {
  for (bool share : {false, true}) {
    auto r = run_case({.op = "Relu", .inputs = {tensor_of<float>({2, 2}, {-1, 2, -0.5f, NAN})}, .share = share});
    ASSERT_TRUE(r.ok()) << r.status();
    const auto y = output_of<float>(*r);
    EXPECT_EQ(y[0], 0);
    EXPECT_EQ(y[1], 2);
    EXPECT_EQ(y[2], 0);
    EXPECT_TRUE(std::isnan(y[3]));
  }
}

TEST(Relu, RefusesStrings) {
  auto r = run_case({.op = "Relu", .inputs = {tensor_of<std::string>({1}, {"a"})}});
  ASSERT_FALSE(r.ok());
  EXPECT_NE(r.status().message().find("tensor(string)"), std::string::npos) << r.status();
}

}  // namespace
}  // namespace forethought
