// Add, Sub, Mul, Div, Pow, PRelu, Max, Min, Sum, Mean, Clip: broadcasting, types, NaN, in place, refusals.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ops/op_testing.h"

namespace forethought {
namespace {
const float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(Arithmetic, BroadcastsBothWays) {
  struct Case {
    const char* op;
    std::vector<float> want;
  };
  const Case cases[] = {{"Add", {11, 12, 13, 21, 22, 23}}, {"Sub", {9, 8, 7, 19, 18, 17}},
                        {"Mul", {10, 20, 30, 20, 40, 60}}, {"Div", {10, 5, 10.0f / 3, 20, 10, 20.0f / 3}},
                        {"Max", {10, 10, 10, 20, 20, 20}}, {"Min", {1, 2, 3, 1, 2, 3}},
                        {"Sum", {11, 12, 13, 21, 22, 23}}, {"Mean", {5.5f, 6, 6.5f, 10.5f, 11, 11.5f}}};
  for (const Case& c : cases) {
    auto r = run_case({.op = c.op,
                       .inputs = {tensor_of<float>({2, 1}, {10, 20}), tensor_of<float>({1, 1, 3}, {1, 2, 3})},
                       .share = true});
    ASSERT_TRUE(r.ok()) << c.op << r.status();
    EXPECT_EQ(r->outputs[0].tensor().dims, (Dims{1, 2, 3}));
    EXPECT_EQ(output_of<float>(*r), c.want) << c.op;
    EXPECT_TRUE(r->facts.overwrites.empty()) << "a broadcast input must not be overwritten";
  }
}

TEST(Arithmetic, RunsInPlaceOfEitherOperand) {
  auto r = run_case({.op = "Sub",
                     .inputs = {tensor_of<float>({2, 2}, {1, 2, 3, 4}), tensor_of<float>({2, 2}, {4, 3, 2, 1})},
                     .share = true});
  ASSERT_TRUE(r.ok());
  EXPECT_EQ(r->facts.overwrites.size(), 2u);
  EXPECT_EQ(output_of<float>(*r), (std::vector<float>{-3, -1, 1, 3}));
  auto second = run_case(
      {.op = "Sub", .inputs = {tensor_of<float>({}, {1}), tensor_of<float>({2, 2}, {4, 3, 2, 1})}, .share = true});
  ASSERT_EQ(second->facts.overwrites.size(), 1u);
  EXPECT_EQ(second->facts.overwrites[0].in, 1);
  EXPECT_EQ(output_of<float>(*second), (std::vector<float>{-3, -2, -1, 0}));
}

template <typename T>
std::vector<T> run2(const char* op, const std::vector<T>& a, const std::vector<T>& b) {
  auto r = run_case(
      {.op = op,
       .inputs = {tensor_of<T>({static_cast<int64_t>(a.size())}, a), tensor_of<T>({static_cast<int64_t>(b.size())}, b)},
       .share = true});
  EXPECT_TRUE(r.ok()) << op << r.status();
  return r.ok() ? output_of<T>(*r) : std::vector<T>{};
}

TEST(Arithmetic, IntegersOfEachWidth) {
  EXPECT_EQ(run2<int8_t>("Add", {127, 1}, {1, 1}), (std::vector<int8_t>{-128, 2}));
  EXPECT_EQ(run2<uint8_t>("Sub", {0, 9}, {1, 1}), (std::vector<uint8_t>{255, 8}));
  EXPECT_EQ(run2<int16_t>("Mul", {300}, {300}), (std::vector<int16_t>{24464}));
  EXPECT_EQ(run2<int32_t>("Div", {7, -7, 7, std::numeric_limits<int32_t>::min()}, {2, 2, 0, -1}),
            (std::vector<int32_t>{3, -3, 0, std::numeric_limits<int32_t>::min()}));
  EXPECT_EQ(run2<uint64_t>("Max", {~uint64_t{0}}, {1}), (std::vector<uint64_t>{~uint64_t{0}}));
  EXPECT_EQ(run2<int64_t>("Min", {-5, 5}, {0, 0}), (std::vector<int64_t>{-5, 0}));
}

TEST(Arithmetic, P4SmallIntegersOfShapes) {
  EXPECT_EQ(run2<int64_t>("Add", {3}, {5}), std::vector<int64_t>{8});
  EXPECT_EQ(run2<int64_t>("Sub", {5}, {3}), std::vector<int64_t>{2});
}

TEST(Arithmetic, P9NanInMinAndMax) {
  for (bool first : {false, true}) {
    const Tensor x = tensor_of<float>({3, 1}, {kNan, 1, 20}), k = tensor_of<float>({1}, {10});
    auto min = run_case({.op = "Min", .inputs = first ? std::vector<Value>{k, x} : std::vector<Value>{x, k}});
    auto max = run_case({.op = "Max", .inputs = first ? std::vector<Value>{k, x} : std::vector<Value>{x, k}});
    const auto lo = output_of<float>(*min), hi = output_of<float>(*max);
    EXPECT_TRUE(std::isnan(lo[0]) && lo[1] == 1 && lo[2] == 10);
    EXPECT_TRUE(std::isnan(hi[0]) && hi[1] == 10 && hi[2] == 20);
  }
}

TEST(Arithmetic, VariadicOperatorsTakeOneOrMany) {
  for (const char* op : {"Max", "Min", "Sum", "Mean"}) {
    auto one = run_case({.op = op, .inputs = {tensor_of<float>({3}, {3, 0, 2})}, .share = true});
    ASSERT_TRUE(one.ok()) << op << one.status();
    EXPECT_EQ(output_of<float>(*one), (std::vector<float>{3, 0, 2})) << op;
  }
  std::vector<Value> many;
  for (int i = 0; i < 40; ++i)
    many.push_back(tensor_of<Float16>({i % 2 ? 2 : 1}, std::vector<Float16>(i % 2 ? 2 : 1, Float16(1.0f + i))));
  auto mean = run_case({.op = "Mean", .inputs = many});
  ASSERT_TRUE(mean.ok()) << mean.status();
  EXPECT_EQ(static_cast<float>(output_of<Float16>(*mean)[1]), 20.5f);
}

TEST(Arithmetic, PowKeepsTheTypeOfTheBase) {
  auto mixed = run_case(
      {.op = "Pow", .inputs = {tensor_of<float>({3}, {1, 2, 3}), tensor_of<int64_t>({3}, {4, 5, 6})}, .share = true});
  EXPECT_EQ(output_of<float>(*mixed), (std::vector<float>{1, 32, 729}));
  auto integer =
      run_case({.op = "Pow", .inputs = {tensor_of<int64_t>({3}, {1, 2, 3}), tensor_of<float>({3}, {4, 5, 6})}});
  EXPECT_EQ(output_of<int64_t>(*integer), (std::vector<int64_t>{1, 32, 729}));
  auto half = run_case(
      {.op = "Pow", .inputs = {tensor_of<Float16>({2}, {Float16(2.0f), Float16(3.0f)}), tensor_of<uint8_t>({}, {3})}});
  EXPECT_EQ(static_cast<float>(output_of<Float16>(*half)[1]), 27.0f);
  auto square = run_case({.op = "Pow", .inputs = {tensor_of<float>({2}, {-3, 4}), tensor_of<float>({}, {2})}});
  EXPECT_EQ(output_of<float>(*square), (std::vector<float>{9, 16}));
}

TEST(Arithmetic, PReluBroadcastsItsSlopeOneWay) {
  auto r = run_case({.op = "PRelu",
                     .inputs = {tensor_of<float>({1, 2, 2}, {-1, 2, -3, -4}), tensor_of<float>({2, 1}, {0.5f, 2})},
                     .share = true});
  ASSERT_TRUE(r.ok());
  EXPECT_EQ(output_of<float>(*r), (std::vector<float>{-0.5f, 2, -6, -8}));
  auto wide = run_case({.op = "PRelu", .inputs = {tensor_of<float>({1}, {1}), tensor_of<float>({2}, {1, 1})}});
  EXPECT_EQ(wide.status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(Arithmetic, ClipTakesEachBoundOrNone) {
  const Tensor x = tensor_of<float>({4}, {-2, 0.5f, 3, kNan});
  const Value lo = tensor_of<float>({}, {-1}), hi = tensor_of<float>({}, {1});
  const auto run = [&](std::vector<Value> in) {
    auto r = run_case({.op = "Clip", .inputs = std::move(in), .share = true});
    EXPECT_TRUE(r.ok()) << r.status();
    const auto y = output_of<float>(*r);
    EXPECT_TRUE(std::isnan(y[3]));
    return std::vector<float>(y.begin(), y.begin() + 3);
  };
  EXPECT_EQ(run({x}), (std::vector<float>{-2, 0.5f, 3}));
  EXPECT_EQ(run({x, lo}), (std::vector<float>{-1, 0.5f, 3}));
  EXPECT_EQ(run({x, Value(), hi}), (std::vector<float>{-2, 0.5f, 1}));
  EXPECT_EQ(run({x, lo, hi}), (std::vector<float>{-1, 0.5f, 1}));
  EXPECT_EQ(run({x, hi, lo}), (std::vector<float>{-1, -1, -1}));
}

template <typename T>
void p18() {
  auto relu = run_case({.op = "Relu", .inputs = {tensor_of<T>({3}, {T(-2.0f), T(0.5f), T(3.0f)})}});
  ASSERT_TRUE(relu.ok()) << relu.status();
  auto clip =
      run_case({.op = "Clip", .inputs = {relu->outputs[0], tensor_of<T>({}, {T(-1.0f)}), tensor_of<T>({}, {T(1.0f)})}});
  ASSERT_TRUE(clip.ok()) << clip.status();
  const auto y = output_of<T>(*clip);
  EXPECT_EQ(static_cast<float>(y[0]), 0);
  EXPECT_EQ(static_cast<float>(y[1]), static_cast<float>(T(0.5f)));
  EXPECT_EQ(static_cast<float>(y[2]), 1);
}

TEST(Arithmetic, P18ReluThenClipInEachType) {
  p18<double>();
  p18<float>();
  p18<Float16>();
  p18<int32_t>();
  p18<int8_t>();
  auto empty = run_case({.op = "Clip", .inputs = {tensor_of<float>({1}, {1}), tensor_of<float>({0}, {})}});
  EXPECT_EQ(empty.status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(Arithmetic, RefusesMixedTypesAndShapesThatDoNotMatch) {
  auto types = run_case({.op = "Add", .inputs = {tensor_of<float>({1}, {1}), tensor_of<int32_t>({1}, {1})}});
  EXPECT_EQ(types.status().code(), absl::StatusCode::kInvalidArgument);
  auto shapes = run_case({.op = "Mul", .inputs = {tensor_of<float>({2}, {1, 2}), tensor_of<float>({3}, {1, 2, 3})}});
  EXPECT_EQ(shapes.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(shapes.status().message().find("[3]"), absl::string_view::npos) << shapes.status();
  auto bools = run_case({.op = "Add", .inputs = {tensor_of<bool>({1}, {true}), tensor_of<bool>({1}, {true})}});
  EXPECT_EQ(bools.status().code(), absl::StatusCode::kUnimplemented);
}

TEST(Arithmetic, BlockedLayoutsOfOneShape) {
  const auto blocked = [](float start) {
    Tensor x = make_tensor(DType::kFloat, Dims{8}).value();
    for (int c = 0; c < 5; ++c) x.as<float>()[c] = start + static_cast<float>(c);
    x.dims = {1, 5, 1};
    return x;
  };
  const Layout b8 = Layout::blocked(8);
  auto div = run_case({.op = "Div",
                       .inputs = {blocked(1), blocked(1)},
                       .share = true,
                       .input_layouts = {b8, b8},
                       .output_layouts = {b8}});
  ASSERT_TRUE(div.ok()) << div.status();
  auto plus = run_case({.op = "Add",
                        .inputs = {blocked(1), tensor_of<float>({1, 1, 1}, {10})},
                        .input_layouts = {b8, Layout()},
                        .output_layouts = {b8}});
  ASSERT_TRUE(plus.ok()) << plus.status();
  for (int c = 0; c < 8; ++c) {
    EXPECT_EQ(div->outputs[0].tensor().as<float>()[c], c < 5 ? 1 : 0);
    EXPECT_EQ(plus->outputs[0].tensor().as<float>()[c], c < 5 ? 11 + static_cast<float>(c) : 0);
  }
}

// [N, C, H] values in blocks of 4, the padding zero.
Tensor blocked4(const Dims& dims, float start) {
  const int64_t n = dims[0], c = dims[1], blocks = (c + 3) / 4, h = dims[2];
  Tensor x = make_tensor(DType::kFloat, Dims{n * blocks * h * 4}).value();
  for (int64_t i = 0; i < n; ++i)
    for (int64_t k = 0; k < c; ++k)
      for (int64_t s = 0; s < h; ++s)
        x.as<float>()[((i * blocks + k / 4) * h + s) * 4 + k % 4] = start + static_cast<float>((i * c + k) * h + s);
  x.dims = dims;
  return x;
}

TEST(Arithmetic, BlockedLayoutsThatBroadcast) {
  const Layout b4 = Layout::blocked(4);
  const Tensor x = blocked4({2, 6, 5}, 1);
  const Tensor gate = blocked4({2, 6, 1}, 3);  // a gate for each channel, as squeeze-and-excite has
  std::vector<float> slope(6);
  for (int i = 0; i < 6; ++i) slope[i] = static_cast<float>(i) - 2;
  for (bool constant : {false, true}) {
    const Tensor other = constant ? tensor_of<float>({6, 1}, slope) : gate;
    auto r = run_case({.op = "Mul",
                       .inputs = {x, other},
                       .constants = constant ? 2u : 0u,
                       .share = true,
                       .input_layouts = {b4, constant ? Layout() : b4},
                       .output_layouts = {b4}});
    ASSERT_TRUE(r.ok()) << r.status();
    const float* y = r->outputs[0].tensor().as<float>();
    for (int i = 0; i < 2; ++i)
      for (int k = 0; k < 8; ++k)
        for (int s = 0; s < 5; ++s) {
          const float value = 1 + static_cast<float>((i * 6 + k) * 5 + s),
                      factor = constant ? slope[k % 6] : 3 + static_cast<float>(i * 6 + k);
          EXPECT_EQ(y[((i * 2 + k / 4) * 5 + s) * 4 + k % 4], k < 6 ? value * factor : 0) << i << ' ' << k << ' ' << s;
        }
  }
}

TEST(Arithmetic, ChannelsLastBroadcastsAVectorOfChannels) {
  Tensor x = tensor_of<float>({1, 2, 2, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  x.dims = {1, 3, 2, 2};
  const Layout last = Layout::channels_last();
  auto r = run_case({.op = "Add",
                     .inputs = {x, tensor_of<float>({3, 1, 1}, {100, 200, 300})},
                     .constants = 2,
                     .input_layouts = {last, Layout()},
                     .output_layouts = {last}});
  ASSERT_TRUE(r.ok()) << r.status();
  const float* y = r->outputs[0].tensor().as<float>();
  EXPECT_EQ(std::vector<float>(y, y + 6), (std::vector<float>{101, 202, 303, 104, 205, 306}));
}

TEST(Arithmetic, LayoutsItAcceptsAndRefuses) {
  const Layout b8 = Layout::blocked(8);
  const auto accepts = [&](std::initializer_list<SymShape> shapes, std::initializer_list<Layout> layouts,
                           bool constant) {
    Graph graph;
    const ValueType type = ValueType::tensor(DType::kFloat);
    std::vector<ValueId> ids;
    for (const SymShape& s : shapes) ids.push_back(graph.add_input("x", type, s));
    auto op = operator_library().bind(graph.node(graph.add_node({"", "Add", 1}, "n", ids, {graph.add_value("y")}, {})));
    EXPECT_TRUE(op.ok());
    const SymShape* in_shapes[] = {shapes.begin(), shapes.begin() + 1};
    const SymShape* out_shapes[] = {shapes.begin()};
    const ValueType* types[] = {&type, &type};
    const Tensor contents;
    const Tensor* constants[] = {nullptr, constant ? &contents : nullptr};
    const std::vector<Layout> in(layouts);
    Layout out[1];
    LayoutQuery q{in_shapes, out_shapes, types, constants, in, 8, out};
    return (*op)->accepts(q) && out[0] == b8;
  };
  const Dim n = Dim::symbol("N");
  const SymShape x(true, {n, 16, 7, 7});
  EXPECT_TRUE(accepts({x, x}, {b8, b8}, false));
  EXPECT_TRUE(accepts({x, SymShape(true, {n, 16, 1, 1})}, {b8, b8}, false));
  EXPECT_TRUE(accepts({x, SymShape::scalar()}, {b8, Layout()}, false));
  EXPECT_TRUE(accepts({x, SymShape(true, {16, 1, 1})}, {b8, Layout()}, true));
  EXPECT_FALSE(accepts({x, SymShape(true, {16, 1, 1})}, {b8, Layout()}, false));  // not constant
  EXPECT_FALSE(accepts({x, SymShape(true, {7})}, {b8, Layout()}, true));          // not channels
  EXPECT_FALSE(accepts({x, SymShape(true, {n, 1, 7, 7})}, {b8, b8}, false));      // one channel for all
  EXPECT_FALSE(accepts({x, x}, {b8, Layout()}, true));
}

}  // namespace
}  // namespace forethought
