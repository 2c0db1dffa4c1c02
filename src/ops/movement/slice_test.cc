// Slice, Split, Concat and Gather: elements, views and windows, followed elements, refusals.
#include <climits>

#include "ops/movement/testing.h"

namespace forethought::movement {
namespace {

using Ints = std::vector<int64_t>;

TEST(Slice, Ranges) {
  struct Row {
    Ints starts, ends, axes, steps, dims;
    std::vector<float> want;
  };
  const int64_t big = INT64_MAX, least = INT64_MIN;
  for (const Row& r : std::vector<Row>{{{0}, {2}, {0}, {1}, {2, 3}, {0, 1, 2, 3, 4, 5}},
                                       {{1}, {3}, {1}, {1}, {4, 2}, {1, 2, 4, 5, 7, 8, 10, 11}},
                                       {{-2, 1}, {big, big}, {0, 1}, {1, 1}, {2, 2}, {7, 8, 10, 11}},
                                       {{0}, {big}, {0}, {2}, {2, 3}, {0, 1, 2, 6, 7, 8}},
                                       {{-1}, {least}, {1}, {-1}, {4, 3}, {2, 1, 0, 5, 4, 3, 8, 7, 6, 11, 10, 9}},
                                       {{big}, {least}, {0}, {-3}, {2, 3}, {9, 10, 11, 0, 1, 2}},
                                       {{3}, {1}, {0}, {1}, {0, 3}, {}},
                                       {{100}, {200}, {0}, {1}, {0, 3}, {}},
                                       {{0}, {1}, {-2}, {big}, {1, 3}, {0, 1, 2}},
                                       {{3}, {least}, {0}, {least}, {1, 3}, {9, 10, 11}},
                                       {{}, {}, {}, {}, {4, 3}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}}}) {
    expect_floats({.op = "Slice", .inputs = {iota({4, 3}), i64(r.starts), i64(r.ends), i64(r.axes), i64(r.steps)}},
                  r.dims, r.want);
  }
  expect_floats({.op = "Slice", .inputs = {iota({4, 3}), i64({1, 1}), i64({2, 3})}}, {1, 2}, {4, 5});
  expect_floats({.op = "Slice", .inputs = {iota({3}), i64({1}), i64({3}), Value(), i64({1})}}, {2}, {1, 2});
  expect_floats(
      {.op = "Slice", .inputs = {iota({3}), tensor_of<int32_t>({1}, {-2}), tensor_of<int32_t>({1}, {INT_MAX})}}, {2},
      {1, 2});
}

TEST(Slice, ContiguousPiecesAreViews) {
  const auto view = run_case({.op = "Slice", .inputs = {iota({4, 3}), i64({1}), i64({3})}, .constants = 6});
  ASSERT_TRUE(view.ok());
  ASSERT_EQ(view->facts.aliases.size(), 1u);
  EXPECT_EQ(view->facts.aliases[0].byte_offset, 12);
  const auto copy = run_case({.op = "Slice", .inputs = {iota({4, 3}), i64({1}), i64({3}), i64({1})}, .constants = 14});
  ASSERT_TRUE(copy.ok());
  EXPECT_TRUE(copy->facts.aliases.empty());
  EXPECT_EQ(copy->facts.kernel, "slice.rows.f32");
}

TEST(Slice, Strings) {
  const auto r =
      run_case({.op = "Slice",
                .inputs = {tensor_of<std::string>({3}, {"a", "b", "c"}), i64({2}), i64({-4}), i64({0}), i64({-1})}});
  ASSERT_TRUE(r.ok()) << r.status();
  EXPECT_EQ(output_of<std::string>(*r), (std::vector<std::string>{"c", "b", "a"}));
}

TEST(Slice, Refusals) {
  const auto refuse = [](Ints starts, Ints ends, Ints axes, Ints steps, std::string_view says) {
    expect_refused({.op = "Slice", .inputs = {iota({4, 3}), i64(starts), i64(ends), i64(axes), i64(steps)}}, says);
  };
  refuse({0}, {1}, {2}, {1}, "axis 2 is outside");
  refuse({0, 0}, {1, 1}, {0, -2}, {1, 1}, "named twice");
  refuse({0}, {1}, {0}, {0}, "is 0");
  refuse({0}, {1, 1}, {0}, {1}, "as many");
  refuse({0}, {1}, {0}, {1, 1}, "as many");
  expect_refused({.op = "Slice", .inputs = {iota({4}), i64({0, 0}), i64({1, 1})}}, "2 starts");
  expect_refused({.op = "Slice", .inputs = {iota({4}), iota({1}), i64({1})}}, "f");
}

TEST(Slice, OnSymbols) {
  const auto out = [](const char* in, const char* start, const char* end, const char* step = "1") {
    return inferred("Slice", {{in}, elements({start}), elements({end}), elements({"0"}), elements({step})});
  };
  EXPECT_EQ(out("[N,3]", "0", "9223372036854775807"), "[N,3]");
  EXPECT_EQ(out("[N,3]", "0", "2147483647", "2"), "[floor_div(N + 1,2),3]");
  EXPECT_EQ(out("[N]", "0", "5"), "[min(5,N)]");
  EXPECT_EQ(out("[N]", "0", "N"), "[N]");
  EXPECT_EQ(out("[N]", "0", "M"), "[min(M,N)]");
  EXPECT_EQ(out("[N]", "-2", "9223372036854775807"), "[min(2,N)]");
  EXPECT_EQ(out("[N]", "-1", "-9223372036854775807", "-1"), "[N]");
  EXPECT_EQ(out("[N]", "?", "5"), "[?]");
  EXPECT_EQ(out("[N]", "0", "3 - M"), "[?]");
  EXPECT_EQ(out("[10]", "2", "?"), "[?]");
  EXPECT_EQ(out("[10]", "2", "-1"), "[7]");
  EXPECT_EQ(inferred("Slice", {{"[N,S]"}, elements({"0"}), elements({"1"}), {"[1]", {}, DType::kInt64}}), "[?,?]");
  EXPECT_EQ(inferred("Slice", {elements({"N", "C", "H"}), elements({"-2"}), elements({"3"})}), "[2] = {C,H}");
  EXPECT_EQ(inferred("Slice",
                     {elements({"N", "C", "H"}), elements({"2"}), elements({"-9"}), elements({"0"}), elements({"-1"})}),
            "[3] = {H,C,N}");
  // Whatever the symbol stands for, what inference says must hold: N from 0 on against the run.
  for (int64_t n = 0; n < 8; ++n)
    for (int64_t start : {-9, -2, -1, 0, 1, 5})
      for (int64_t end : {-9, -1, 0, 3, 7, INT_MAX})
        for (int64_t step : {1, 2, -1}) {
          const auto d = shape_from(
              out("[N]", std::to_string(start).c_str(), std::to_string(end).c_str(), std::to_string(step).c_str()));
          const auto real = shape_from(out(("[" + std::to_string(n) + "]").c_str(), std::to_string(start).c_str(),
                                           std::to_string(end).c_str(), std::to_string(step).c_str()));
          const Dim said = d.dims[0].substitute([n](std::string_view) { return std::optional<int64_t>(n); });
          EXPECT_TRUE(said.is_unknown() || said.same(real.dims[0]))
              << n << " " << start << ":" << end << ":" << step << " " << to_string(d);
        }
}

TEST(Split, Pieces) {
  const auto pieces = [](OpCase c, std::vector<std::vector<float>> want) {
    c.outputs = static_cast<int>(want.size());
    for (bool share : {false, true}) {
      c.share = share;
      const auto r = run_case(c);
      ASSERT_TRUE(r.ok()) << r.status();
      for (size_t i = 0; i < want.size(); ++i)
        EXPECT_EQ(output_of<float>(*r, static_cast<int>(i)), want[i]) << i << " " << r->facts.kernel;
    }
  };
  const auto axis = [](int64_t a) { return std::pair<std::string, AttributeValue>("axis", a); };
  const auto parts = [](int64_t n) { return std::pair<std::string, AttributeValue>("num_outputs", n); };
  pieces({.op = "Split", .inputs = {iota({6})}, .attributes = attributes({parts(3)})}, {{0, 1}, {2, 3}, {4, 5}});
  pieces({.op = "Split", .inputs = {iota({7})}, .attributes = attributes({parts(3)})}, {{0, 1, 2}, {3, 4, 5}, {6}});
  pieces({.op = "Split", .inputs = {iota({6}), i64({2, 4})}}, {{0, 1}, {2, 3, 4, 5}});
  pieces({.op = "Split", .inputs = {iota({2, 4}), i64({1, 3})}, .attributes = attributes({axis(-1)})},
         {{0, 4}, {1, 2, 3, 5, 6, 7}});
  pieces({.op = "Split", .inputs = {iota({0}), i64({0, 0, 0})}}, {{}, {}, {}});
  pieces({.op = "Split", .inputs = {iota({4})}}, {{0, 1}, {2, 3}});
  pieces({.op = "Split", .inputs = {iota({3}), i64({3})}}, {{0, 1, 2}});
  const auto r = run_case({.op = "Split", .inputs = {iota({6}), i64({2, 4})}, .outputs = 2});
  ASSERT_EQ(r->facts.aliases.size(), 2u);
  EXPECT_EQ(r->facts.aliases[1].byte_offset, 8);
}

TEST(Split, Refusals) {
  const auto parts = [](int64_t n) { return attributes({{"num_outputs", n}}); };
  expect_refused({.op = "Split", .inputs = {iota({6}), i64({2, 3})}, .outputs = 2},
                 "5 elements together, the axis has 6");
  expect_refused({.op = "Split", .inputs = {iota({6}), i64({-1, 7})}, .outputs = 2}, "-1 elements");
  expect_refused({.op = "Split", .inputs = {iota({6}), i64({2, 2, 2})}, .outputs = 2}, "3 sizes for 2 outputs");
  expect_refused({.op = "Split", .inputs = {iota({7})}, .outputs = 2}, "cannot be split evenly");
  expect_refused({.op = "Split", .inputs = {iota({3})}, .attributes = parts(5), .outputs = 5}, "does not reach");
  expect_refused({.op = "Split", .inputs = {iota({6})}, .attributes = parts(3), .outputs = 2}, "'num_outputs' is 3");
  expect_refused({.op = "Split", .inputs = {iota({})}, .outputs = 1}, "axis 0 is outside");
  expect_refused({.op = "Split", .inputs = {iota({6}), i64({INT64_MAX, INT64_MAX})}, .outputs = 2}, "elements");
}

TEST(Split, OnSymbols) {
  EXPECT_EQ(inferred("Split", {{"[N,6]"}}, attributes({{"axis", int64_t{1}}, {"num_outputs", int64_t{4}}}), 3, 4),
            "[N,0]");
  EXPECT_EQ(inferred("Split", {{"[2*N]"}}, {}, 1, 2), "[N]");
  EXPECT_EQ(inferred("Split", {{"[N]"}, elements({"2", "N - 2"})}, {}, 1, 2), "[N - 2]");
  EXPECT_EQ(inferred("Split", {{"[N]"}, {"[2]", {}, DType::kInt64}}, {}, 1, 2), "[?]");
  EXPECT_EQ(inferred("Split", {elements({"N", "C", "H"}), elements({"1", "2"})}, {}, 1, 2), "[2] = {C,H}");
}

TEST(Concat, EveryAxis) {
  const Tensor a = iota({2, 2}), b = tensor_of<float>({2, 1}, {8, 9}), c = tensor_of<float>({1, 2}, {8, 9});
  const auto axis = [](int64_t v) { return attributes({{"axis", v}}); };
  expect_floats({.op = "Concat", .inputs = {a, b}, .attributes = axis(1)}, {2, 3}, {0, 1, 8, 2, 3, 9});
  expect_floats({.op = "Concat", .inputs = {b, a, b}, .attributes = axis(-1)}, {2, 4}, {8, 0, 1, 8, 9, 2, 3, 9});
  expect_floats({.op = "Concat", .inputs = {a, c}, .attributes = axis(0)}, {3, 2}, {0, 1, 2, 3, 8, 9});
  expect_floats({.op = "Concat", .inputs = {a, iota({0, 2}), c}, .attributes = axis(-2)}, {3, 2}, {0, 1, 2, 3, 8, 9});
  expect_floats({.op = "Concat", .inputs = {a}, .attributes = axis(0)}, {2, 2}, {0, 1, 2, 3});
  expect_floats({.op = "Concat", .inputs = {iota({0}), iota({0})}, .attributes = axis(0)}, {0}, {});
  const auto s = run_case({.op = "Concat",
                           .inputs = {tensor_of<std::string>({1}, {"a"}), tensor_of<std::string>({2}, {"b", "c"})},
                           .attributes = axis(0)});
  ASSERT_TRUE(s.ok()) << s.status();
  EXPECT_EQ(output_of<std::string>(*s), (std::vector<std::string>{"a", "b", "c"}));
}

TEST(Concat, OffersWindowsWhereInputsLieTogether) {
  const auto axis = [](int64_t v) { return attributes({{"axis", v}}); };
  const auto r = run_case({.op = "Concat", .inputs = {iota({1, 2, 3}), iota({1, 4, 3})}, .attributes = axis(1)});
  ASSERT_EQ(r->facts.windows.size(), 2u);
  EXPECT_EQ(r->facts.windows[1].in, 1);
  EXPECT_EQ(r->facts.windows[1].byte_offset, 24);
  EXPECT_TRUE(
      run_case({.op = "Concat", .inputs = {iota({2, 2}), iota({2, 4})}, .attributes = axis(1)})->facts.windows.empty());
  const auto one = run_case({.op = "Concat", .inputs = {iota({2, 2}), iota({0, 2})}, .attributes = axis(0)});
  EXPECT_TRUE(one->facts.windows.empty());
  EXPECT_EQ(one->facts.aliases.size(), 1u);
}

TEST(Concat, OfFullChannelBlocks) {
  // [1,8,2] and [1,16,2] in blocks of 8 channels.
  std::vector<float> a(16), b(32), want;
  for (size_t i = 0; i < 16; ++i) a[i] = static_cast<float>(i);
  for (size_t i = 0; i < 32; ++i) b[i] = static_cast<float>(100 + i);
  want = a;
  want.insert(want.end(), b.begin(), b.end());
  const Layout l = Layout::blocked(8);
  const auto r = run_case({.op = "Concat",
                           .inputs = {tensor_of<float>({1, 8, 2}, a), tensor_of<float>({1, 16, 2}, b)},
                           .attributes = attributes({{"axis", int64_t{1}}}),
                           .input_layouts = {l, l},
                           .output_layouts = {l}});
  ASSERT_TRUE(r.ok()) << r.status();
  EXPECT_EQ(output_of<float>(*r), want);
}

TEST(Concat, Refusals) {
  const auto axis = [](int64_t v) { return attributes({{"axis", v}}); };
  expect_refused({.op = "Concat", .inputs = {iota({2, 2}), iota({2, 2})}, .attributes = axis(2)}, "axis 2 is outside");
  expect_refused({.op = "Concat", .inputs = {iota({2, 2}), iota({2})}, .attributes = axis(0)}, "ranks must be equal");
  expect_refused({.op = "Concat", .inputs = {iota({2, 2}), iota({2, 3})}, .attributes = axis(0)}, "along axis 1");
  expect_refused({.op = "Concat", .inputs = {iota({}), iota({})}, .attributes = axis(0)}, "axis 0 is outside");
  expect_refused({.op = "Concat", .inputs = {iota({2}), i64({1})}, .attributes = axis(0)}, "tensor(int64)");
  expect_refused({.op = "Concat", .inputs = {iota({2}), Value()}, .attributes = axis(0)}, "skipped");
  expect_refused({.op = "Concat", .inputs = {iota({2})}}, "'axis' is missing");
}

TEST(Concat, OnSymbols) {
  const auto axis = [](int64_t v) { return attributes({{"axis", v}}); };
  EXPECT_EQ(inferred("Concat", {{"[N,P,64]"}, {"[N,S,?]"}}, axis(1)), "[N,P + S,64]");
  EXPECT_EQ(inferred("Concat", {{"[?,3]"}, {"[N,?]"}}, axis(1)), "[N,?]");
  EXPECT_EQ(inferred("Concat", {{"?"}, {"[2,3]"}}, axis(0)), "[?,3]");
  EXPECT_EQ(inferred("Concat", {{"?"}, {"?"}}, axis(0)), "?");
  EXPECT_EQ(inferred("Concat", {elements({"N"}), elements({"-1", "3"})}, axis(0)), "[3] = {N,-1,3}");
  EXPECT_EQ(inferred("Concat", {elements({"N"}), {"[1]", {}, DType::kInt64}}, axis(0)), "[2] = {N,?}");
}

TEST(Gather, Slices) {
  const auto axis = [](int64_t v) { return attributes({{"axis", v}}); };
  expect_floats({.op = "Gather", .inputs = {iota({3, 2}), i64({2, 0, -1})}}, {3, 2}, {4, 5, 0, 1, 4, 5});
  expect_floats({.op = "Gather", .inputs = {iota({2, 3}), tensor_of<int32_t>({1, 2}, {2, -3})}, .attributes = axis(1)},
                {2, 1, 2}, {2, 0, 5, 3});
  expect_floats({.op = "Gather", .inputs = {iota({3, 2}), tensor_of<int64_t>({}, {1})}, .attributes = axis(-2)}, {2},
                {2, 3});
  expect_floats({.op = "Gather", .inputs = {iota({3, 2}), i64({})}}, {0, 2}, {});
  expect_floats({.op = "Gather", .inputs = {iota({3, 0}), i64({1})}}, {1, 0}, {});
  const auto s = run_case({.op = "Gather", .inputs = {tensor_of<std::string>({2}, {"a", "b"}), i64({1, 1, 0})}});
  ASSERT_TRUE(s.ok()) << s.status();
  EXPECT_EQ(output_of<std::string>(*s), (std::vector<std::string>{"b", "b", "a"}));
}

TEST(Gather, Refusals) {
  expect_refused({.op = "Gather", .inputs = {iota({3, 2}), i64({0, 3})}},
                 "index 3 (element 1 of input 1) is outside [-3, 2]");
  expect_refused({.op = "Gather", .inputs = {iota({3, 2}), i64({INT64_MIN})}}, "is outside");
  expect_refused({.op = "Gather", .inputs = {iota({0, 2}), i64({0})}}, "is outside");
  expect_refused({.op = "Gather", .inputs = {iota({}), i64({0})}}, "axis 0 is outside");
  expect_refused({.op = "Gather", .inputs = {iota({2}), i64({0})}, .attributes = attributes({{"axis", int64_t{1}}})},
                 "axis 1 is outside");
  expect_refused({.op = "Gather", .inputs = {iota({2}), iota({1})}}, "f");
}

TEST(Gather, OnSymbols) {
  EXPECT_EQ(inferred("Gather", {{"[V,64]"}, {"[N,S]", {}, DType::kInt64}}), "[N,S,64]");
  EXPECT_EQ(inferred("Gather", {elements({"N", "3", "H"}), {"[]", {"-1"}, DType::kInt64}}), "[] = {H}");
  EXPECT_EQ(inferred("Gather", {elements({"N", "3", "H"}), elements({"0", "2"})}), "[2] = {N,H}");
  EXPECT_EQ(inferred("Gather", {elements({"N"}), elements({"7"})}), "[1]");
  EXPECT_EQ(inferred("Gather", {{"[V,64]"}, {"?", {}, DType::kInt64}}), "?");
}

}  // namespace
}  // namespace forethought::movement
