// Reshape, Flatten, Squeeze, Unsqueeze, Identity, Shape and Size: shapes, followed elements, views, refusals.
#include "ops/movement/testing.h"

namespace forethought::movement {
namespace {

TEST(Reshape, Rules) {
  struct Row {
    std::vector<int64_t> wanted, dims;
    bool allowzero = false;
  };
  for (const Row& r : std::vector<Row>{{{4, 3, 2}, {4, 3, 2}},
                                       {{24}, {24}},
                                       {{2, -1}, {2, 12}},
                                       {{0, 4, 3}, {2, 4, 3}},
                                       {{0, 0, -1}, {2, 3, 4}},
                                       {{-1, 0, 4, 1}, {2, 3, 4, 1}},
                                       {{1, 2, 1, 3, 4, 1}, {1, 2, 1, 3, 4, 1}}})
    expect_floats({.op = "Reshape", .inputs = {iota({2, 3, 4}), i64(r.wanted)}}, r.dims,
                  output_of<float>(OpOutcome{{iota({2, 3, 4})}, {}}));
  expect_floats({.op = "Reshape",
                 .inputs = {iota({0, 3, 4}), i64({3, 4, 0})},
                 .attributes = attributes({{"allowzero", int64_t{1}}})},
                {3, 4, 0}, {});
  expect_floats({.op = "Reshape", .inputs = {iota({0, 3}), i64({0, 5})}}, {0, 5}, {});
  expect_floats({.op = "Reshape", .inputs = {iota({0, 3}), i64({3, -1})}}, {3, 0}, {});
  expect_floats({.op = "Reshape", .inputs = {iota({1}), i64({})}}, {}, {0});
  expect_floats({.op = "Reshape", .inputs = {iota({}), i64({1, -1})}}, {1, 1}, {0});
}

TEST(Reshape, P22RankTwenty) {
  std::vector<int64_t> wanted(20, 1);
  wanted[0] = 6;
  expect_floats({.op = "Reshape", .inputs = {iota({2, 3}), i64(wanted)}}, wanted, {0, 1, 2, 3, 4, 5});
}

TEST(Reshape, IsAViewOfNumbersAndACopyOfStrings) {
  const auto r = run_case({.op = "Reshape", .inputs = {iota({2, 3}), i64({6})}});
  ASSERT_TRUE(r.ok());
  ASSERT_EQ(r->facts.aliases.size(), 1u);
  EXPECT_EQ(r->facts.aliases[0].byte_offset, 0);
  const auto s = run_case({.op = "Reshape", .inputs = {tensor_of<std::string>({2}, {"a", "b"}), i64({1, 2})}});
  ASSERT_TRUE(s.ok()) << s.status();
  EXPECT_TRUE(s->facts.aliases.empty());
  EXPECT_EQ(output_of<std::string>(*s), (std::vector<std::string>{"a", "b"}));
}

TEST(Reshape, Refusals) {
  const auto refuse = [](std::vector<int64_t> wanted, std::string_view says, bool allowzero = false) {
    expect_refused({.op = "Reshape",
                    .inputs = {iota({2, 3}), i64(wanted)},
                    .attributes = attributes({{"allowzero", int64_t{allowzero}}})},
                   says);
  };
  refuse({4}, "the numbers of elements differ");
  refuse({4, -1}, "no multiple of 4");
  refuse({-1, -1}, "-1 at both 0 and 1");
  refuse({-2, 3}, "has -2 at 0");
  refuse({1, 2, 0}, "keeps dim 2");
  refuse({0, -1}, "undecided", true);
  refuse({int64_t{1} << 40, int64_t{1} << 40}, "differ");
  expect_refused({.op = "Reshape", .inputs = {iota({2}), tensor_of<int64_t>({1, 1}, {2})}}, "must have one dim");
  expect_refused({.op = "Reshape", .inputs = {iota({2}), tensor_of<float>({1}, {2})}}, "f");
  expect_refused({.op = "Reshape", .inputs = {iota({2})}}, "inputs");
}

TEST(Reshape, OnSymbols) {
  const auto out = [](const char* in, std::vector<std::string> wanted) {
    return inferred("Reshape", {{in}, elements(wanted)});
  };
  EXPECT_EQ(out("[N,12,64]", {"0", "-1"}), "[N,768]");
  EXPECT_EQ(out("[N,S,12,64]", {"0", "0", "768"}), "[N,S,768]");
  EXPECT_EQ(out("[N,S,768]", {"N", "S", "12", "64"}), "[N,S,12,64]");
  EXPECT_EQ(out("[N,C,H]", {"N", "-1"}), "[N,C*H]");
  EXPECT_EQ(out("[2,3]", {"?", "3"}), "[?,3]");  // it may turn out wrong
  EXPECT_EQ(out("[N,3]", {"?", "?"}), "[?,?]");
  EXPECT_EQ(out("?", {"2", "-1"}), "[2,?]");
  EXPECT_EQ(inferred("Reshape", {{"[N,3]"}, {"[3]", {}, DType::kInt64}}), "[?,?,?]");
  EXPECT_EQ(inferred("Reshape", {{"[N,3]"}, {"[1]", {}, DType::kInt64}}), "[?]");
  EXPECT_EQ(inferred("Reshape", {{"[N,3]"}, {"[K]", {}, DType::kInt64}}), "?");
  EXPECT_EQ(inferred("Reshape", {{"[N,3]"}, {"[1099511627776]", {}, DType::kInt64}}), "?");
  EXPECT_EQ(inferred("Reshape", {elements({"N", "7"}), elements({"2", "1"})}), "[2,1] = {N,7}");
}

TEST(Flatten, EveryAxis) {
  struct Row {
    int64_t axis;
    std::vector<int64_t> dims;
  };
  for (const Row& r :
       std::vector<Row>{{0, {1, 24}}, {1, {2, 12}}, {2, {6, 4}}, {3, {24, 1}}, {-1, {6, 4}}, {-3, {1, 24}}})
    expect_floats({.op = "Flatten", .inputs = {iota({2, 3, 4})}, .attributes = attributes({{"axis", r.axis}})}, r.dims,
                  output_of<float>(OpOutcome{{iota({24})}, {}}));
  expect_floats({.op = "Flatten", .inputs = {iota({})}, .attributes = attributes({{"axis", int64_t{0}}})}, {1, 1}, {0});
  expect_floats({.op = "Flatten", .inputs = {iota({3, 0})}}, {3, 0}, {});
  expect_refused({.op = "Flatten", .inputs = {iota({2, 3})}, .attributes = attributes({{"axis", int64_t{3}}})},
                 "axis 3");
  EXPECT_EQ(inferred("Flatten", {{"[N,C,7,7]"}}), "[N,49*C]");
  EXPECT_EQ(inferred("Flatten", {{"?"}}), "[?,?]");
}

TEST(Squeeze, DropsOnes) {
  expect_floats({.op = "Squeeze", .inputs = {iota({1, 3, 1}), i64({0})}}, {3, 1}, {0, 1, 2});
  expect_floats({.op = "Squeeze", .inputs = {iota({1, 3, 1}), i64({-1, 0})}}, {3}, {0, 1, 2});
  expect_floats({.op = "Squeeze", .inputs = {iota({1, 3, 1})}}, {3}, {0, 1, 2});
  expect_floats({.op = "Squeeze", .inputs = {iota({1, 1})}}, {}, {0});
  expect_floats({.op = "Squeeze", .inputs = {iota({3}), i64({})}}, {3}, {0, 1, 2});
  expect_refused({.op = "Squeeze", .inputs = {iota({3, 1}), i64({0})}}, "its extent is not 1");
  expect_refused({.op = "Squeeze", .inputs = {iota({3, 1}), i64({2})}}, "axis 2 is outside");
  expect_refused({.op = "Squeeze", .inputs = {iota({3, 1}), i64({1, -1})}}, "named twice");
  EXPECT_EQ(inferred("Squeeze", {{"[N,1,S]"}, elements({"1"})}), "[N,S]");
  EXPECT_EQ(inferred("Squeeze", {{"[N,1,S]"}, elements({"0"})}), "[1,S]");
  EXPECT_EQ(inferred("Squeeze", {{"[N,1]"}}), "?");
  EXPECT_EQ(inferred("Squeeze", {{"[4,1]"}}), "[4]");
  EXPECT_EQ(inferred("Squeeze", {elements({"N"}), elements({"0"})}), "[] = {N}");
  EXPECT_EQ(inferred("Squeeze", {{"[N,1,S]"}, {"[2]", {}, DType::kInt64}}), "[?]");
}

TEST(Unsqueeze, PutsOnes) {
  expect_floats({.op = "Unsqueeze", .inputs = {iota({3}), i64({0})}}, {1, 3}, {0, 1, 2});
  expect_floats({.op = "Unsqueeze", .inputs = {iota({3, 2}), i64({3, 0, -1})}}, {1, 3, 2, 1, 1}, {0, 1, 2, 3, 4, 5});
  expect_floats({.op = "Unsqueeze", .inputs = {iota({}), i64({0})}}, {1}, {0});
  expect_refused({.op = "Unsqueeze", .inputs = {iota({3}), i64({2})}}, "axis 2 is outside");
  expect_refused({.op = "Unsqueeze", .inputs = {iota({3}), i64({0, -3})}}, "named twice");
  EXPECT_EQ(inferred("Unsqueeze", {{"[N,S]"}, elements({"1", "-1"})}), "[N,1,S,1]");
  EXPECT_EQ(inferred("Unsqueeze", {{"[]", {"N"}, DType::kInt64}, elements({"0"})}), "[1] = {N}");
  EXPECT_EQ(inferred("Unsqueeze", {{"[N,S]"}, {"[1]", {}, DType::kInt64}}), "[?,?,?]");
}

TEST(Identity, EveryKindOfValue) {
  expect_floats({.op = "Identity", .inputs = {iota({2, 2})}}, {2, 2}, {0, 1, 2, 3});
  const auto s = run_case({.op = "Identity", .inputs = {tensor_of<std::string>({2}, {"a", "b"})}});
  ASSERT_TRUE(s.ok()) << s.status();
  EXPECT_EQ(output_of<std::string>(*s), (std::vector<std::string>{"a", "b"}));
  auto sequence = std::make_shared<Sequence>();
  sequence->element = ValueType::tensor(DType::kFloat);
  sequence->items = {iota({2})};
  const auto q = run_case({.op = "Identity", .inputs = {Value(std::shared_ptr<const Sequence>(sequence))}});
  ASSERT_TRUE(q.ok()) << q.status();
  EXPECT_EQ(q->outputs[0].sequence(), sequence.get());
  EXPECT_EQ(inferred("Identity", {elements({"N", "3"})}), "[2] = {N,3}");
}

TEST(Shape, Ranges) {
  struct Row {
    std::vector<std::pair<std::string, AttributeValue>> attributes;
    std::vector<int64_t> want;
  };
  const auto i = [](int64_t v) { return AttributeValue(v); };
  for (const Row& r : std::vector<Row>{{{}, {2, 3, 4}},
                                       {{{"start", i(1)}}, {3, 4}},
                                       {{{"start", i(-1)}}, {4}},
                                       {{{"end", i(-1)}}, {2, 3}},
                                       {{{"start", i(-10)}, {"end", i(99)}}, {2, 3, 4}},
                                       {{{"start", i(2)}, {"end", i(1)}}, {}},
                                       {{{"start", i(1)}, {"end", i(2)}}, {3}}}) {
    const auto o = run_case({.op = "Shape", .inputs = {iota({2, 3, 4})}, .attributes = attributes(r.attributes)});
    ASSERT_TRUE(o.ok()) << o.status();
    EXPECT_EQ(output_of<int64_t>(*o), r.want);
  }
  EXPECT_EQ(inferred("Shape", {{"[N,3,?]"}}), "[3] = {N,3,?}");
  EXPECT_EQ(inferred("Shape", {{"[N,3]"}}, attributes({{"start", int64_t{-1}}})), "[1] = {3}");
  EXPECT_EQ(inferred("Shape", {{"[]"}}), "[0] = {}");
  EXPECT_EQ(inferred("Shape", {{"?"}}), "[?]");
}

TEST(Size, Counts) {
  const auto o = run_case({.op = "Size", .inputs = {tensor_of<std::string>({3, 2}, std::vector<std::string>(6))}});
  ASSERT_TRUE(o.ok()) << o.status();
  EXPECT_EQ(output_of<int64_t>(*o), std::vector<int64_t>{6});
  EXPECT_EQ(inferred("Size", {{"[N,3]"}}), "[] = {3*N}");
  EXPECT_EQ(inferred("Size", {{"[]"}}), "[] = {1}");
  EXPECT_EQ(inferred("Size", {{"[N,?]"}}), "[]");
}

}  // namespace
}  // namespace forethought::movement
