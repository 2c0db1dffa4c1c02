// Transpose, Expand, Tile, Pad, DepthToSpace, SpaceToDepth, Constant, ConstantOfShape and Reorder.
#include <climits>

#include "ops/movement/testing.h"

namespace forethought::movement {
namespace {

using Ints = std::vector<int64_t>;

TEST(Transpose, Permutes) {
  expect_floats({.op = "Transpose", .inputs = {iota({2, 3})}}, {3, 2}, {0, 3, 1, 4, 2, 5});
  expect_floats({.op = "Transpose", .inputs = {iota({2, 1, 3})}, .attributes = attributes({{"perm", Ints{1, 2, 0}}})},
                {1, 3, 2}, {0, 3, 1, 4, 2, 5});
  expect_floats({.op = "Transpose", .inputs = {iota({})}}, {}, {0});
  expect_floats({.op = "Transpose", .inputs = {iota({3, 0})}}, {0, 3}, {});
  // Moving dims of one element moves nothing: a view.
  const auto r =
      run_case({.op = "Transpose", .inputs = {iota({1, 3, 1})}, .attributes = attributes({{"perm", Ints{1, 0, 2}}})});
  ASSERT_TRUE(r.ok());
  EXPECT_EQ(r->facts.aliases.size(), 1u);
  const auto bools = run_case({.op = "Transpose", .inputs = {tensor_of<bool>({2, 2}, {true, true, false, false})}});
  ASSERT_TRUE(bools.ok()) << bools.status();
  EXPECT_EQ(output_of<bool>(*bools), (std::vector<bool>{true, false, true, false}));
}

TEST(Transpose, RefusalsAndSymbols) {
  const auto perm = [](Ints p) { return attributes({{"perm", p}}); };
  expect_refused({.op = "Transpose", .inputs = {iota({2, 3})}, .attributes = perm({0, 0})}, "no permutation");
  expect_refused({.op = "Transpose", .inputs = {iota({2, 3})}, .attributes = perm({0, 2})}, "no permutation");
  expect_refused({.op = "Transpose", .inputs = {iota({2, 3})}, .attributes = perm({-1, 0})}, "no permutation");
  expect_refused({.op = "Transpose", .inputs = {iota({2, 3})}, .attributes = perm({0})}, "orders 1 dims");
  EXPECT_EQ(inferred("Transpose", {{"[N,S,12,64]"}}, perm({0, 2, 1, 3})), "[N,12,S,64]");
  EXPECT_EQ(inferred("Transpose", {{"?"}}, perm({1, 0})), "[?,?]");
  EXPECT_EQ(inferred("Transpose", {{"?"}}), "?");
}

TEST(Expand, Broadcasts) {
  expect_floats({.op = "Expand", .inputs = {iota({3, 1}), i64({2, 1, 2})}}, {2, 3, 2},
                {0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2});
  expect_floats({.op = "Expand", .inputs = {iota({2, 3}), i64({1})}}, {2, 3}, {0, 1, 2, 3, 4, 5});
  expect_floats({.op = "Expand", .inputs = {iota({}), i64({2})}}, {2}, {0, 0});
  expect_floats({.op = "Expand", .inputs = {iota({1, 2}), i64({0, 2})}}, {0, 2}, {});
  expect_floats({.op = "Expand", .inputs = {iota({2}), i64({})}}, {2}, {0, 1});
  expect_refused({.op = "Expand", .inputs = {iota({2, 3}), i64({2, 2})}}, "cannot expand");
  expect_refused({.op = "Expand", .inputs = {iota({1}), i64({-1})}}, "has a -1");
  expect_refused({.op = "Expand", .inputs = {iota({1, 1}), i64({int64_t{1} << 40, int64_t{1} << 40})}},
                 "than can be counted");
  EXPECT_EQ(inferred("Expand", {{"[N,1]"}, elements({"1", "S"})}), "[N,S]");
  EXPECT_EQ(inferred("Expand", {{"[N,1]"}, {"[3]", {}, DType::kInt64}}), "[?,?,?]");
  EXPECT_EQ(inferred("Expand", {{"[5,1]"}, {"[3]", {}, DType::kInt64}}), "[?,5,?]");
  EXPECT_EQ(inferred("Expand", {{"[]", {"N"}, DType::kInt64}, elements({"2"})}), "[2] = {N,N}");
}

TEST(Tile, Repeats) {
  expect_floats({.op = "Tile", .inputs = {iota({2, 2}), i64({1, 2})}}, {2, 4}, {0, 1, 0, 1, 2, 3, 2, 3});
  expect_floats({.op = "Tile", .inputs = {iota({2}), i64({3})}}, {6}, {0, 1, 0, 1, 0, 1});
  expect_floats({.op = "Tile", .inputs = {iota({2}), i64({0})}}, {0}, {});
  expect_floats({.op = "Tile", .inputs = {iota({}), i64({})}}, {}, {0});
  expect_floats({.op = "Tile", .inputs = {iota({0, 2}), i64({3, 2})}}, {0, 4}, {});
  expect_refused({.op = "Tile", .inputs = {iota({2}), i64({-1})}}, "repeated -1 times");
  expect_refused({.op = "Tile", .inputs = {iota({2}), i64({1, 1})}}, "one a dim");
  expect_refused({.op = "Tile", .inputs = {iota({2}), i64({INT64_MAX})}}, "than can be counted");
  expect_refused({.op = "Tile", .inputs = {iota({2, 2}), i64({int64_t{1} << 40, int64_t{1} << 40})}},
                 "than can be counted");
  EXPECT_EQ(inferred("Tile", {{"[N,3]"}, elements({"2", "K"})}), "[2*N,3*K]");
  EXPECT_EQ(inferred("Tile", {{"[N,3]"}, {"[2]", {}, DType::kInt64}}), "[?,?]");
  EXPECT_EQ(inferred("Tile", {elements({"N", "1"}), elements({"2"})}), "[4] = {N,1,N,1}");
}

TEST(Pad, Modes) {
  const auto mode = [](const char* m) { return attributes({{"mode", std::string(m)}}); };
  const Tensor seven = tensor_of<float>({}, {7});
  expect_floats({.op = "Pad", .inputs = {iota({2, 2}), i64({0, 1, 1, 0}), seven}}, {3, 3}, {7, 0, 1, 7, 2, 3, 7, 7, 7});
  expect_floats({.op = "Pad", .inputs = {iota({3}), i64({1, 1})}}, {5}, {0, 0, 1, 2, 0});
  expect_floats({.op = "Pad", .inputs = {iota({4}), i64({-1, -2})}}, {1}, {1});
  expect_floats({.op = "Pad", .inputs = {iota({2, 2}), i64({1, 0}), Value(), i64({-1})}}, {2, 3}, {0, 0, 1, 0, 2, 3});
  expect_floats({.op = "Pad", .inputs = {iota({2, 2}), i64({1, 0}), seven, tensor_of<int32_t>({1}, {0})}}, {3, 2},
                {7, 7, 0, 1, 2, 3});
  expect_floats({.op = "Pad", .inputs = {iota({3}), i64({2, 1})}, .attributes = mode("reflect")}, {6},
                {2, 1, 0, 1, 2, 1});
  expect_floats({.op = "Pad", .inputs = {iota({3}), i64({2, 1})}, .attributes = mode("edge")}, {6}, {0, 0, 0, 1, 2, 2});
  expect_floats({.op = "Pad", .inputs = {iota({3}), i64({4, 1})}, .attributes = mode("wrap")}, {8},
                {2, 0, 1, 2, 0, 1, 2, 0});
  expect_floats({.op = "Pad", .inputs = {iota({0, 2}), i64({1, 0, 0, 0}), seven}}, {1, 2}, {7, 7});
  expect_floats({.op = "Pad", .inputs = {iota({}), i64({})}}, {}, {0});
  const auto none = run_case({.op = "Pad", .inputs = {iota({3}), i64({0, 0})}, .constants = 2});
  EXPECT_EQ(none->facts.aliases.size(), 1u);
  const auto s = run_case({.op = "Pad", .inputs = {tensor_of<std::string>({1}, {"a"}), i64({1, 1})}});
  ASSERT_TRUE(s.ok()) << s.status();
  EXPECT_EQ(output_of<std::string>(*s), (std::vector<std::string>{"", "a", ""}));
}

TEST(Pad, KeepsChannelBlocks) {
  const Layout l = Layout::blocked(8);
  std::vector<float> in(16), want(24);
  for (size_t i = 0; i < 16; ++i) in[i] = want[8 + i] = static_cast<float>(i + 1);
  const auto r = run_case({.op = "Pad",
                           .inputs = {tensor_of<float>({1, 8, 2}, in), i64({0, 0, 1, 0, 0, 0})},
                           .input_layouts = {l},
                           .output_layouts = {l}});
  ASSERT_TRUE(r.ok()) << r.status();
  EXPECT_EQ(output_of<float>(*r), want);
}

TEST(Pad, RefusesChannelBlocksWhereChannelsMove) {
  const Layout b8 = Layout::blocked(8);
  const ValueType type = ValueType::tensor(DType::kFloat), ints = ValueType::tensor(DType::kInt64);
  const SymShape x(true, {1, 8, 4}), y(true, {1, 8, 6}), some(true, {Dim()});
  const auto accepts = [&](std::optional<std::vector<int64_t>> pads, std::optional<std::vector<int64_t>> axes) {
    Graph graph;
    std::vector<ValueId> ids{graph.add_input("x", type, x), graph.add_input("pads", ints, some)};
    std::vector<const ValueType*> types{&type, &ints};
    std::vector<const SymShape*> shapes{&x, &some};
    Tensor tensors[2];
    std::vector<const Tensor*> constants{nullptr, nullptr};
    std::vector<Layout> in{b8, Layout()};
    if (pads) constants[1] = &(tensors[0] = tensor_of<int64_t>({std::ssize(*pads)}, *pads));
    if (axes) {
      ids.insert(ids.end(), {ValueId(), graph.add_input("axes", ints, some)});
      types.insert(types.end(), {nullptr, &ints});
      shapes.insert(shapes.end(), {nullptr, &some});
      tensors[1] = tensor_of<int64_t>({std::ssize(*axes)}, *axes);
      constants.insert(constants.end(), {nullptr, &tensors[1]});
      in.resize(4);
    }
    auto op = operator_library().bind(graph.node(graph.add_node({"", "Pad", 1}, "n", ids, {graph.add_value("y")}, {})));
    EXPECT_TRUE(op.ok()) << op.status();
    const SymShape* out_shapes[] = {&y};
    Layout out[1];
    LayoutQuery q{shapes, out_shapes, types, constants, in, 8, out};
    return (*op)->accepts(q) && out[0] == b8;
  };
  EXPECT_TRUE(accepts({{0, 0, 1, 0, 0, 1}}, {}));
  EXPECT_TRUE(accepts({{1, 1}}, {{-1}}));
  EXPECT_TRUE(accepts({{1, 0, 1, 0}}, {{2, 1}}));
  EXPECT_FALSE(accepts({{0, 1, 1, 0, -1, 1}}, {}));  // as many channels as before, but others
  EXPECT_FALSE(accepts({{1, 1, 1, -1}}, {{2, -2}}));
  EXPECT_FALSE(accepts({}, {}));  // known only at run
}

TEST(Pad, P8LimitsOfReflectPadding) {
  const auto reflect = attributes({{"mode", std::string("reflect")}});
  for (uint32_t constants : {0u, 2u}) {
    expect_refused(
        {.op = "Pad", .inputs = {iota({3, 2}), i64({0, 2, 0, 0})}, .attributes = reflect, .constants = constants},
        "at most 1");
    expect_refused({.op = "Pad", .inputs = {iota({6}), i64({-5, 5})}, .attributes = reflect, .constants = constants},
                   "after cropping");
  }
  const auto r = run_case({.op = "Pad", .inputs = {iota({3, 4}), i64({1, 0, 0, 0})}, .attributes = reflect});
  ASSERT_TRUE(r.ok()) << r.status();
  EXPECT_EQ(output_of<float>(*r), (std::vector<float>{4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}));
}

TEST(Pad, Refusals) {
  expect_refused({.op = "Pad", .inputs = {iota({3}), i64({-2, -2})}}, "crop more than axis 0");
  expect_refused({.op = "Pad", .inputs = {iota({3}), i64({1})}}, "1 pads for 1 axes");
  expect_refused({.op = "Pad", .inputs = {iota({3}), i64({1, 1}), Value(), i64({1})}}, "axis 1 is outside");
  expect_refused({.op = "Pad", .inputs = {iota({3}), i64({1, 1, 1, 1}), Value(), i64({0, -1})}}, "named twice");
  expect_refused(
      {.op = "Pad", .inputs = {iota({3}), i64({1, 1})}, .attributes = attributes({{"mode", std::string("mirror")}})},
      "'mirror'");
  expect_refused({.op = "Pad", .inputs = {iota({3}), i64({1, 1}), iota({2})}}, "one element");
  expect_refused({.op = "Pad", .inputs = {iota({3}), i64({INT64_MAX, INT64_MAX})}}, "");
  EXPECT_EQ(inferred("Pad", {{"[N,H]"}, elements({"0", "1", "0", "2"})}), "[N,H + 3]");
  EXPECT_EQ(inferred("Pad", {{"[N,H]"}, {"[4]", {}, DType::kInt64}}), "[?,?]");
}

TEST(DepthToSpace, Modes) {
  const auto of = [](const char* m) { return attributes({{"blocksize", int64_t{2}}, {"mode", std::string(m)}}); };
  expect_floats({.op = "DepthToSpace", .inputs = {iota({1, 8, 1, 2})}, .attributes = of("DCR")}, {1, 2, 2, 4},
                {0, 4, 1, 5, 8, 12, 9, 13, 2, 6, 3, 7, 10, 14, 11, 15});
  expect_floats({.op = "DepthToSpace", .inputs = {iota({1, 8, 1, 2})}, .attributes = of("CRD")}, {1, 2, 2, 4},
                {0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15});
  for (const char* m : {"DCR", "CRD"}) {
    const auto there = run_case({.op = "DepthToSpace", .inputs = {iota({2, 12, 3, 5})}, .attributes = of(m)});
    ASSERT_TRUE(there.ok());
    expect_floats({.op = "SpaceToDepth", .inputs = {there->outputs[0]}, .attributes = of(m)}, {2, 12, 3, 5},
                  output_of<float>(OpOutcome{{iota({360})}, {}}));
  }
  expect_refused({.op = "DepthToSpace", .inputs = {iota({1, 6, 1, 1})}, .attributes = of("DCR")}, "no multiple");
  expect_refused({.op = "DepthToSpace", .inputs = {iota({1, 6, 1})}, .attributes = of("DCR")}, "N,C,H,W");
  expect_refused({.op = "DepthToSpace", .inputs = {iota({1, 8, 1, 1})}, .attributes = of("XYZ")}, "'XYZ'");
  expect_refused(
      {.op = "DepthToSpace", .inputs = {iota({1, 8, 1, 1})}, .attributes = attributes({{"blocksize", int64_t{0}}})},
      "'blocksize' is 0");
  EXPECT_EQ(inferred("DepthToSpace", {{"[N,12,H,W]"}}, of("DCR")), "[N,3,2*H,2*W]");
}

TEST(SpaceToDepth, Modes) {
  const auto of = [](int64_t b) { return attributes({{"blocksize", b}}); };
  expect_floats({.op = "SpaceToDepth", .inputs = {iota({1, 1, 2, 4})}, .attributes = of(2)}, {1, 4, 1, 2},
                {0, 2, 1, 3, 4, 6, 5, 7});
  expect_refused({.op = "SpaceToDepth", .inputs = {iota({1, 1, 3, 4})}, .attributes = of(2)}, "axis 2");
  expect_refused({.op = "SpaceToDepth", .inputs = {iota({4})}, .attributes = of(2)}, "N,C,H,W");
  expect_refused({.op = "SpaceToDepth", .inputs = {iota({1, 1, 2, 2})}}, "'blocksize' is missing");
  EXPECT_EQ(inferred("SpaceToDepth", {{"[N,3,2*H,64]"}}, of(2)), "[N,12,H,32]");
}

TEST(Constant, EveryAttribute) {
  const auto run = [](const char* key, AttributeValue v) {
    return run_case({.op = "Constant", .attributes = attributes({{key, std::move(v)}})});
  };
  EXPECT_EQ(output_of<float>(*run("value", iota({2, 2}))), (std::vector<float>{0, 1, 2, 3}));
  EXPECT_EQ(output_of<float>(*run("value_float", 2.5f)), (std::vector<float>{2.5f}));
  EXPECT_EQ(output_of<float>(*run("value_floats", std::vector<float>{1, 2})), (std::vector<float>{1, 2}));
  EXPECT_EQ(output_of<int64_t>(*run("value_int", int64_t{7})), (Ints{7}));
  EXPECT_EQ(output_of<int64_t>(*run("value_ints", Ints{})), (Ints{}));
  EXPECT_EQ(output_of<std::string>(*run("value_string", std::string("a"))), (std::vector<std::string>{"a"}));
  EXPECT_EQ(output_of<std::string>(*run("value_strings", std::vector<std::string>{"a", "b"})),
            (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(run("value_float", 2.5f)->outputs[0].tensor().dims.size(), 0u);
  EXPECT_EQ(inferred("Constant", {}, attributes({{"value_ints", Ints{3, -1}}})), "[2] = {3,-1}");
  expect_refused({.op = "Constant"}, "0 of the value attributes");
  expect_refused({.op = "Constant", .attributes = attributes({{"value_int", int64_t{1}}, {"value_float", 1.0f}})},
                 "2 of the value attributes");
}

TEST(ConstantOfShape, Fills) {
  expect_floats({.op = "ConstantOfShape", .inputs = {i64({2, 1})}}, {2, 1}, {0, 0});
  expect_floats({.op = "ConstantOfShape",
                 .inputs = {i64({3})},
                 .attributes = attributes({{"value", tensor_of<float>({1}, {4})}})},
                {3}, {4, 4, 4});
  expect_floats({.op = "ConstantOfShape", .inputs = {i64({})}}, {}, {0});
  expect_floats({.op = "ConstantOfShape", .inputs = {i64({0, 4})}}, {0, 4}, {});
  const auto halves = run_case({.op = "ConstantOfShape",
                                .inputs = {i64({70000})},
                                .attributes = attributes({{"value", tensor_of<bool>({1}, {true})}})});
  ASSERT_TRUE(halves.ok()) << halves.status();
  EXPECT_EQ(output_of<bool>(*halves), std::vector<bool>(70000, true));
  expect_refused({.op = "ConstantOfShape", .inputs = {i64({-1})}}, "has a -1");
  expect_refused({.op = "ConstantOfShape", .inputs = {i64({INT64_MAX, 2})}}, "than can be counted");
  expect_refused({.op = "ConstantOfShape", .inputs = {tensor_of<int64_t>({1, 1}, {1})}}, "must have one dim");
  expect_refused({.op = "ConstantOfShape", .inputs = {i64({1})}, .attributes = attributes({{"value", iota({2})}})},
                 "one element");
  EXPECT_EQ(inferred("ConstantOfShape", {elements({"N", "3"})}), "[N,3]");
  EXPECT_EQ(inferred("ConstantOfShape", {elements({"2"})}, attributes({{"value", i64({5})}})), "[2] = {5,5}");
  // Nothing is allocated to know the shape of something huge.
  EXPECT_EQ(inferred("ConstantOfShape", {elements({"1099511627776"})}), "[1099511627776]");
  EXPECT_EQ(inferred("ConstantOfShape", {{"[1099511627776]", {}, DType::kInt64}}), "?");
}

TEST(Reorder, BetweenLayouts) {
  const Layout plain = Layout::plain(), last = Layout::channels_last();
  for (const Layout& other : {Layout::blocked(8), Layout::blocked(16), last}) {
    const auto there = run_case({.op = "Reorder",
                                 .inputs = {iota({2, 3, 2, 2})},
                                 .domain = "forethought",
                                 .input_layouts = {plain},
                                 .output_layouts = {other}});
    ASSERT_TRUE(there.ok()) << there.status();
    const float* p = there->outputs[0].tensor().as<float>();
    EXPECT_EQ(p[0], 0);
    EXPECT_EQ(p[1], 4);
    EXPECT_EQ(p[2], 8);
    EXPECT_EQ(p[3], other == last ? 1.0f : 0.0f);
    const auto back = run_case({.op = "Reorder",
                                .inputs = {there->outputs[0]},
                                .domain = "forethought",
                                .input_layouts = {other},
                                .output_layouts = {plain}});
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(output_of<float>(*back), output_of<float>(OpOutcome{{iota({24})}, {}}));
  }
  expect_refused(
      {.op = "Reorder", .inputs = {i64({1, 2})}, .domain = "forethought", .output_layouts = {Layout::blocked(8)}},
      "needs two dims");
  expect_refused({.op = "Reorder",
                  .inputs = {tensor_of<double>({1, 2}, {1, 2})},
                  .domain = "forethought",
                  .output_layouts = {Layout::blocked(8)}},
                 "this build has f32");
  expect_refused({.op = "Reorder",
                  .inputs = {iota({1, 8})},
                  .domain = "forethought",
                  .input_layouts = {Layout::blocked(8)},
                  .output_layouts = {last}},
                 "go through plain");
}

}  // namespace
}  // namespace forethought::movement
