// ReduceSum, ReduceMean, ReduceMax, ReduceMin: axes, keepdims, empty axes, layouts, propagation, refusals.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ops/op_testing.h"

namespace forethought {
namespace {

const float kInf = std::numeric_limits<float>::infinity();

Tensor iota(std::initializer_list<int64_t> dims) {
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  std::vector<float> v(n);
  for (int64_t i = 0; i < n; ++i) v[i] = static_cast<float>(i);
  return tensor_of<float>(dims, v);
}

struct Row {
  const char* op;
  Tensor x;
  std::optional<std::vector<int64_t>> axes;
  int64_t keepdims, noop;
  Dims dims;
  std::vector<float> y;
};

TEST(Reduce, AxesAndKeepdims) {
  const Tensor x = iota({2, 3, 2});
  const std::vector<Row> rows = {
      {"ReduceSum", x, std::vector<int64_t>{1}, 1, 0, {2, 1, 2}, {6, 9, 24, 27}},
      {"ReduceSum", x, std::vector<int64_t>{-2}, 0, 0, {2, 2}, {6, 9, 24, 27}},
      {"ReduceSum", x, std::vector<int64_t>{2, 0}, 0, 0, {3}, {14, 22, 30}},
      {"ReduceSum", x, std::nullopt, 1, 0, {1, 1, 1}, {66}},
      {"ReduceSum", x, std::vector<int64_t>{}, 0, 0, {}, {66}},
      {"ReduceSum", x, std::vector<int64_t>{}, 0, 1, {2, 3, 2}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}},
      {"ReduceSum", x, std::nullopt, 0, 1, {2, 3, 2}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}},
      {"ReduceMean", x, std::vector<int64_t>{1}, 0, 0, {2, 2}, {2, 3, 8, 9}},
      {"ReduceMax", x, std::vector<int64_t>{0, 2}, 1, 0, {1, 3, 1}, {7, 9, 11}},
      {"ReduceMin", x, std::vector<int64_t>{0, 2}, 1, 0, {1, 3, 1}, {0, 2, 4}},
      {"ReduceMax", tensor_of<float>({}, {5}), std::nullopt, 1, 0, {}, {5}},
      {"ReduceSum", iota({2, 0, 4}), std::vector<int64_t>{1}, 1, 0, {2, 1, 4}, std::vector<float>(8, 0)},
      {"ReduceSum", iota({2, 0, 4}), std::vector<int64_t>{1}, 0, 0, {2, 4}, std::vector<float>(8, 0)},
      {"ReduceSum", iota({2, 0, 4}), std::vector<int64_t>{0}, 0, 0, {0, 4}, {}},
      {"ReduceSum", iota({0}), std::nullopt, 1, 0, {1}, {0}},
      {"ReduceMax", iota({2, 0}), std::vector<int64_t>{1}, 0, 0, {2}, {-kInf, -kInf}},
  };
  for (size_t i = 0; i < rows.size(); ++i)
    for (uint32_t constants : {0u, 2u}) {
      const Row& r = rows[i];
      OpCase c{.op = r.op,
               .inputs = {r.x},
               .attributes = attributes({{"keepdims", r.keepdims}, {"noop_with_empty_axes", r.noop}})};
      if (r.axes) {
        c.inputs.push_back(tensor_of<int64_t>({static_cast<int64_t>(r.axes->size())}, *r.axes));
        c.constants = constants;
      }
      auto o = run_case(c);
      ASSERT_TRUE(o.ok()) << i << ' ' << o.status();
      EXPECT_EQ(o->outputs[0].tensor().dims, r.dims) << i;
      EXPECT_EQ(output_of<float>(*o), r.y) << i;
    }
}

TEST(Reduce, LargeSplitsGiveTheSameAsOne) {
  const Tensor x = iota({3, 700, 70});
  auto o = run_case({.op = "ReduceMax", .inputs = {x, tensor_of<int64_t>({2}, {0, 2})}});
  ASSERT_TRUE(o.ok()) << o.status();
  for (int64_t i = 0; i < 700; ++i) ASSERT_EQ(output_of<float>(*o)[i], static_cast<float>((2 * 700 + i) * 70 + 69));
}

TEST(Reduce, IntegersAndBools) {
  auto sum = run_case({.op = "ReduceSum", .inputs = {tensor_of<int32_t>({2}, {2147483647, 1})}});
  ASSERT_TRUE(sum.ok()) << sum.status();
  EXPECT_EQ(output_of<int32_t>(*sum)[0], std::numeric_limits<int32_t>::min());
  auto max = run_case({.op = "ReduceMax",
                       .inputs = {tensor_of<bool>({2, 2}, {false, true, false, false}), tensor_of<int64_t>({1}, {1})}});
  ASSERT_TRUE(max.ok()) << max.status();
  EXPECT_EQ(output_of<uint8_t>(*max), (std::vector<uint8_t>{1, 0}));
}

TEST(Reduce, ChannelLayouts) {
  // nChw8c of [1, 3, 1, 2]: 2 positions of 8 channels, 5 of them padding.
  std::vector<float> blocked(16, 0), last = {1, 2, 3, 5, 6, 9};
  for (int c = 0; c < 3; ++c) blocked[c] = last[c], blocked[8 + c] = last[3 + c];
  Tensor x = tensor_of<float>({1, 8, 1, 2}, blocked);
  x.dims = {1, 3, 1, 2};
  const Layout b = Layout::blocked(8);
  auto o = run_case({.op = "ReduceMean",
                     .inputs = {x, tensor_of<int64_t>({2}, {2, 3})},
                     .input_layouts = {b},
                     .output_layouts = {b}});
  ASSERT_TRUE(o.ok()) << o.status();
  EXPECT_EQ(o->outputs[0].tensor().dims, (Dims{1, 3, 1, 1}));
  const float* y = o->outputs[0].tensor().as<float>();
  EXPECT_EQ(std::vector<float>(y, y + 8), (std::vector<float>{3, 4, 6, 0, 0, 0, 0, 0}));
  Tensor z = tensor_of<float>({1, 3, 1, 2}, last);
  const Layout l = Layout::channels_last();
  o = run_case(
      {.op = "ReduceMax", .inputs = {z, tensor_of<int64_t>({2}, {2, 3})}, .input_layouts = {l}, .output_layouts = {l}});
  ASSERT_TRUE(o.ok()) << o.status();
  EXPECT_EQ(output_of<float>(*o), (std::vector<float>{5, 6, 9}));
}

TEST(Reduce, FollowsShapeArithmetic) {
  const GraphNode node{.op = {"", "ReduceMax", 20},
                       .inputs = {ValueId{0}},
                       .outputs = {ValueId{1}},
                       .attributes = attributes({{"keepdims", int64_t{0}}})};
  auto op = operator_library().bind(node);
  ASSERT_TRUE(op.ok()) << op.status();
  const ValueType type = ValueType::tensor(DType::kInt64);
  const SymShape shape(true, {Dim(3)});
  SymValue v;
  v.ints = {Dim(4), Dim::symbol("N"), Dim(7)};
  const InferInput in{true, &type, &shape, nullptr, &v};
  InferOutput out{.wanted = true};
  InferCtx c({&in, 1}, {&out, 1});
  ASSERT_TRUE((*op)->infer(c).ok());
  ASSERT_TRUE(out.has_value);
  EXPECT_TRUE(out.value.ints[0].same(max(max(Dim(4), Dim::symbol("N")), Dim(7)))) << to_string(out.value.ints[0]);
  EXPECT_EQ(out.shape.rank(), 0);
}

TEST(Reduce, Refusals) {
  struct {
    OpCase c;
    const char* says;
  } const rows[] = {
      {{.op = "ReduceSum", .inputs = {iota({2}), tensor_of<int64_t>({1}, {1})}}, "axis 1 is outside"},
      {{.op = "ReduceSum", .inputs = {iota({2, 2}), tensor_of<int64_t>({2}, {1, -1})}}, "twice"},
      {{.op = "ReduceSum", .inputs = {tensor_of<int8_t>({1}, {1})}}, "int8"},
      {{.op = "ReduceMax", .inputs = {tensor_of<int16_t>({1}, {1})}}, "int16"},
      {{.op = "ReduceSum", .inputs = {iota({2}), tensor_of<int64_t>({1, 1}, {0})}}, "rank 2"},
      {{.op = "ReduceSum", .inputs = {iota({2})}, .attributes = attributes({{"axes", std::vector<int64_t>{0}}})},
       "axes"},
  };
  for (const auto& r : rows) {
    auto o = run_case(r.c);
    ASSERT_FALSE(o.ok()) << r.says;
    EXPECT_NE(o.status().message().find(r.says), std::string::npos) << o.status();
  }
}

}  // namespace
}  // namespace forethought
