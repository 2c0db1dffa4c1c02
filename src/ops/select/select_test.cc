// ArgMax, ArgMin, NonZero: axes, ties, sizes known only at run, refusals.
#include <gtest/gtest.h>

#include "ops/op_testing.h"

namespace forethought {
namespace {

TEST(ArgExtreme, AxesTiesAndKeepdims) {
  const Tensor x = tensor_of<float>({2, 3}, {2, 7, 7, 5, 5, 1});
  struct {
    const char* op;
    int64_t axis, keepdims, last;
    Dims dims;
    std::vector<int64_t> y;
  } const rows[] = {
      {"ArgMax", 1, 1, 0, {2, 1}, {1, 0}}, {"ArgMax", -1, 0, 1, {2}, {2, 1}},      {"ArgMax", 0, 0, 0, {3}, {1, 0, 0}},
      {"ArgMin", 1, 0, 0, {2}, {0, 2}},    {"ArgMin", 0, 1, 0, {1, 3}, {0, 1, 1}},
  };
  for (const auto& r : rows) {
    auto o = run_case(
        {.op = r.op,
         .inputs = {x},
         .attributes = attributes({{"axis", r.axis}, {"keepdims", r.keepdims}, {"select_last_index", r.last}})});
    ASSERT_TRUE(o.ok()) << o.status();
    EXPECT_EQ(o->outputs[0].tensor().dims, r.dims);
    EXPECT_EQ(output_of<int64_t>(*o), r.y);
  }
}

TEST(ArgExtreme, EmptyAxis) {
  const Tensor x = tensor_of<float>({2, 0}, {});
  auto o = run_case({.op = "ArgMax", .inputs = {x}, .attributes = attributes({{"axis", int64_t{1}}})});
  ASSERT_FALSE(o.ok());
  EXPECT_NE(o.status().message().find("no elements"), std::string::npos) << o.status();
  o = run_case({.op = "ArgMax", .inputs = {x}, .attributes = attributes({{"axis", int64_t{0}}})});
  ASSERT_TRUE(o.ok()) << o.status();
  EXPECT_TRUE(output_of<int64_t>(*o).empty());
  o = run_case({.op = "ArgMax", .inputs = {x}, .attributes = attributes({{"axis", int64_t{2}}})});
  EXPECT_FALSE(o.ok());
}

TEST(NonZero, IsSizedAtRun) {
  auto o = run_case({.op = "NonZero", .inputs = {tensor_of<bool>({2, 2}, {true, false, true, true})}});
  ASSERT_TRUE(o.ok()) << o.status();
  EXPECT_EQ(o->facts.sized_at_run, 1u);
  EXPECT_EQ(o->outputs[0].tensor().dims, (Dims{2, 3}));
  EXPECT_EQ(output_of<int64_t>(*o), (std::vector<int64_t>{0, 1, 1, 0, 0, 1}));
}

TEST(NonZero, ManyBlocksAndEdges) {
  std::vector<int32_t> x(200000, 0);
  for (size_t i = 0; i < x.size(); i += 999) x[i] = -1;
  auto o = run_case({.op = "NonZero", .inputs = {tensor_of<int32_t>({400, 500}, x)}});
  ASSERT_TRUE(o.ok()) << o.status();
  const auto y = output_of<int64_t>(*o);
  const int64_t n = static_cast<int64_t>(y.size()) / 2;
  ASSERT_EQ(n, 201);
  for (int64_t i = 0; i < n; ++i) ASSERT_EQ(y[i] * 500 + y[n + i], i * 999);
  o = run_case({.op = "NonZero", .inputs = {tensor_of<float>({}, {3})}});
  ASSERT_TRUE(o.ok()) << o.status();
  EXPECT_EQ(o->outputs[0].tensor().dims, (Dims{0, 1}));
  o = run_case({.op = "NonZero", .inputs = {tensor_of<float>({0, 3}, {})}});
  ASSERT_TRUE(o.ok()) << o.status();
  EXPECT_EQ(o->outputs[0].tensor().dims, (Dims{2, 0}));
  o = run_case({.op = "NonZero", .inputs = {tensor_of<std::string>({2}, {"", "x"})}});
  ASSERT_TRUE(o.ok()) << o.status();
  EXPECT_EQ(output_of<int64_t>(*o), (std::vector<int64_t>{1}));
}

}  // namespace
}  // namespace forethought
