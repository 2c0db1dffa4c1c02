// Operators of sequences and optionals: positions, shared elements, pieces, what is not there, refusals.
#include <gtest/gtest.h>

#include "ops/op_testing.h"

namespace forethought {
namespace {

Value numbers(std::vector<float> v) { return tensor_of<float>({static_cast<int64_t>(v.size())}, v); }
Value at(int64_t v) { return tensor_of<int64_t>({}, {v}); }

Value sequence_of(std::vector<Value> items) {
  auto s = std::make_shared<Sequence>();
  s->element = ValueType::tensor(DType::kFloat);
  s->items = std::move(items);
  return std::shared_ptr<const Sequence>(std::move(s));
}

std::vector<float> first_of_each(const Value& v) {
  std::vector<float> r;
  for (const Value& item : v.sequence()->items) r.push_back(item.tensor().as<float>()[0]);
  return r;
}

TEST(Sequence, EmptyAndConstruct) {
  auto e = run_case({.op = "SequenceEmpty", .attributes = attributes({{"dtype", int64_t{7}}})});
  ASSERT_TRUE(e.ok()) << e.status();
  ASSERT_TRUE(e->outputs[0].sequence());
  EXPECT_EQ(e->outputs[0].sequence()->element, ValueType::tensor(DType::kInt64));
  EXPECT_TRUE(e->outputs[0].sequence()->items.empty());

  const Value a = numbers({1}), b = numbers({2, 3});
  auto c = run_case({.op = "SequenceConstruct", .inputs = {a, b}});
  ASSERT_TRUE(c.ok()) << c.status();
  EXPECT_EQ(c->facts.escapes, 3u);
  EXPECT_EQ(first_of_each(c->outputs[0]), (std::vector<float>{1, 2}));
  EXPECT_EQ(c->outputs[0].sequence()->items[1].tensor().data, b.tensor().data);  // escaped, not copied
}

TEST(Sequence, InsertAtEveryPosition) {
  const Value seq = sequence_of({numbers({1}), numbers({2})});
  struct {
    std::optional<int64_t> position;
    std::vector<float> want;
  } const rows[] = {
      {std::nullopt, {1, 2, 9}}, {0, {9, 1, 2}}, {1, {1, 9, 2}}, {2, {1, 2, 9}}, {-1, {1, 9, 2}}, {-2, {9, 1, 2}},
  };
  for (const auto& r : rows) {
    OpCase c{.op = "SequenceInsert", .inputs = {seq, numbers({9})}};
    if (r.position) c.inputs.push_back(at(*r.position));
    auto o = run_case(c);
    ASSERT_TRUE(o.ok()) << o.status();
    EXPECT_EQ(first_of_each(o->outputs[0]), r.want);
  }
  EXPECT_EQ(first_of_each(seq), (std::vector<float>{1, 2}));  // the given sequence stays as it is
}

TEST(Sequence, AtSharesTheElement) {
  const Value a = numbers({1}), b = numbers({2, 3});
  for (int64_t position : {1, -1}) {
    auto o = run_case({.op = "SequenceAt", .inputs = {sequence_of({a, b}), at(position)}});
    ASSERT_TRUE(o.ok()) << o.status();
    EXPECT_EQ(o->facts.sized_at_run, 1u);
    EXPECT_EQ(output_of<float>(*o), (std::vector<float>{2, 3}));
    EXPECT_EQ(o->outputs[0].tensor().data, b.tensor().data);
  }
  // An element that the caller only lent is copied.
  Tensor lent = b.tensor();
  lent.owner.reset();
  auto o = run_case({.op = "SequenceAt", .inputs = {sequence_of({lent}), tensor_of<int32_t>({1}, {0})}});
  ASSERT_TRUE(o.ok()) << o.status();
  EXPECT_EQ(output_of<float>(*o), (std::vector<float>{2, 3}));
  EXPECT_NE(o->outputs[0].tensor().data, b.tensor().data);
}

TEST(Sequence, LengthAndErase) {
  const Value a = numbers({1}), b = numbers({2}), d = numbers({3});
  for (const std::vector<Value>& items : {std::vector<Value>{}, {a}, {a, b, d}}) {
    auto n = run_case({.op = "SequenceLength", .inputs = {sequence_of(items)}});
    ASSERT_TRUE(n.ok()) << n.status();
    EXPECT_EQ(output_of<int64_t>(*n), std::vector<int64_t>{static_cast<int64_t>(items.size())});
  }
  struct {
    std::optional<int64_t> position;
    std::vector<float> want;
  } const rows[] = {{std::nullopt, {1, 2}}, {0, {2, 3}}, {1, {1, 3}}, {-1, {1, 2}}, {-3, {2, 3}}};
  for (const auto& r : rows) {
    OpCase c{.op = "SequenceErase", .inputs = {sequence_of({a, b, d})}};
    if (r.position) c.inputs.push_back(at(*r.position));
    auto o = run_case(c);
    ASSERT_TRUE(o.ok()) << o.status();
    EXPECT_EQ(first_of_each(o->outputs[0]), r.want);
  }
}

TEST(Sequence, SplitsAndPutsTogether) {
  const Value x = tensor_of<float>({3, 2}, {1, 2, 3, 4, 5, 6});
  struct {
    int64_t axis, keepdims;
    Value split;
    std::vector<Dims> dims;
    std::vector<float> first;
  } const rows[] = {
      {0, 1, {}, {{1, 2}, {1, 2}, {1, 2}}, {1, 3, 5}},
      {0, 0, {}, {{2}, {2}, {2}}, {1, 3, 5}},
      {-1, 0, {}, {{3}, {3}}, {1, 2}},
      {0, 0, at(2), {{2, 2}, {1, 2}}, {1, 5}},
      {0, 1, tensor_of<int32_t>({2}, {1, 2}), {{1, 2}, {2, 2}}, {1, 3}},
      {1, 1, tensor_of<int64_t>({3}, {1, 0, 1}), {{3, 1}, {3, 0}, {3, 1}}, {1, 0, 2}},
  };
  for (const auto& r : rows) {
    OpCase c{
        .op = "SplitToSequence", .inputs = {x}, .attributes = attributes({{"axis", r.axis}, {"keepdims", r.keepdims}})};
    if (r.split.is_tensor()) c.inputs.push_back(r.split);
    auto pieces = run_case(c);
    ASSERT_TRUE(pieces.ok()) << pieces.status();
    const auto& items = pieces->outputs[0].sequence()->items;
    ASSERT_EQ(items.size(), r.dims.size());
    for (size_t i = 0; i < items.size(); ++i) {
      EXPECT_EQ(items[i].tensor().dims, r.dims[i]);
      if (items[i].tensor().elements() > 0) {
        EXPECT_EQ(items[i].tensor().as<float>()[0], r.first[i]);
      }
      const bool shares =
          items[i].tensor().data >= x.tensor().data && items[i].tensor().data < x.tensor().as<float>() + 6;
      EXPECT_EQ(shares, r.axis == 0);
    }
    const bool new_axis = !r.split.is_tensor() && r.keepdims == 0;
    auto whole = run_case({.op = "ConcatFromSequence",
                           .inputs = {pieces->outputs[0]},
                           .attributes = attributes({{"axis", r.axis}, {"new_axis", int64_t{new_axis}}})});
    ASSERT_TRUE(whole.ok()) << whole.status();
    EXPECT_EQ(whole->outputs[0].tensor().dims, (Dims{3, 2}));
    EXPECT_EQ(output_of<float>(*whole), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  }
  const Value text = tensor_of<std::string>({2, 2}, {"a", "b", "c", "d"});
  auto pieces = run_case({.op = "SplitToSequence", .inputs = {text}});
  ASSERT_TRUE(pieces.ok()) << pieces.status();
  auto whole = run_case(
      {.op = "ConcatFromSequence", .inputs = {pieces->outputs[0]}, .attributes = attributes({{"axis", int64_t{1}}})});
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_EQ(output_of<std::string>(*whole), (std::vector<std::string>{"a", "b", "c", "d"}));
}

TEST(Optional, HoldsOrDoesNot) {
  const Value x = numbers({1, 2});
  auto made = run_case({.op = "Optional", .inputs = {x}});
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->outputs[0].tensor().data, x.tensor().data);
  auto empty = run_case({.op = "Optional", .attributes = attributes({{"type", ValueType::tensor(DType::kFloat)}})});
  ASSERT_TRUE(empty.ok()) << empty.status();
  EXPECT_TRUE(empty->outputs[0].is_none());
  for (const Value& v : {x, sequence_of({x})}) {
    auto got = run_case({.op = "OptionalGetElement", .inputs = {v}});
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(got->outputs[0].is_tensor(), v.is_tensor());
    auto has = run_case({.op = "OptionalHasElement", .inputs = {v}});
    ASSERT_TRUE(has.ok()) << has.status();
    EXPECT_EQ(*has->outputs[0].tensor().as<uint8_t>(), 1);
  }
  auto has = run_case({.op = "OptionalHasElement"});
  ASSERT_TRUE(has.ok()) << has.status();
  EXPECT_EQ(*has->outputs[0].tensor().as<uint8_t>(), 0);
}

TEST(Sequence, Refusals) {
  const Value seq = sequence_of({numbers({1}), numbers({2})});
  struct {
    OpCase c;
    const char* says;
  } const rows[] = {
      {{.op = "SequenceAt", .inputs = {seq, at(2)}}, "position 2 is outside a sequence of 2"},
      {{.op = "SequenceAt", .inputs = {seq, at(-3)}}, "position -3"},
      {{.op = "SequenceAt", .inputs = {seq, tensor_of<int64_t>({2}, {0, 1})}}, "not one"},
      {{.op = "SequenceAt", .inputs = {numbers({1}), at(0)}}, "not a sequence"},
      {{.op = "SequenceInsert", .inputs = {seq, numbers({1}), at(3)}}, "position 3"},
      {{.op = "SequenceInsert", .inputs = {seq, tensor_of<int32_t>({1}, {1})}}, "cannot hold"},
      {{.op = "SequenceConstruct", .inputs = {numbers({1}), tensor_of<int32_t>({1}, {1})}}, "beside"},
      {{.op = "SequenceErase", .inputs = {seq, at(2)}}, "position 2"},
      {{.op = "SequenceErase", .inputs = {sequence_of({})}}, "nothing to erase"},
      {{.op = "SequenceLength", .inputs = {numbers({1})}}, "not a sequence"},
      {{.op = "SplitToSequence", .inputs = {numbers({1, 2}), at(0)}}, "at least one"},
      {{.op = "SplitToSequence", .inputs = {numbers({1, 2}), tensor_of<int64_t>({1}, {3})}}, "2 of 2 are left"},
      {{.op = "SplitToSequence", .inputs = {numbers({1, 2}), tensor_of<int64_t>({1}, {1})}}, "1 of 2 elements over"},
      {{.op = "SplitToSequence", .inputs = {numbers({1, 2})}, .attributes = attributes({{"axis", int64_t{1}}})},
       "axis 1"},
      {{.op = "ConcatFromSequence",
        .inputs = {sequence_of({numbers({1}), numbers({1, 2})})},
        .attributes = attributes({{"axis", int64_t{0}}, {"new_axis", int64_t{1}}})},
       "all must be equal"},
      {{.op = "ConcatFromSequence", .inputs = {sequence_of({})}, .attributes = attributes({{"axis", int64_t{0}}})},
       "nothing to put together"},
      {{.op = "ConcatFromSequence", .inputs = {seq}, .attributes = attributes({{"axis", int64_t{2}}})}, "axis 2"},
      {{.op = "Optional"}, "its type is open"},
      {{.op = "SequenceEmpty", .attributes = attributes({{"dtype", int64_t{99}}})}, "no element type"},
  };
  for (const auto& r : rows) {
    auto o = run_case(r.c);
    ASSERT_FALSE(o.ok()) << r.says;
    EXPECT_NE(o.status().message().find(r.says), std::string::npos) << o.status();
  }
}

}  // namespace
}  // namespace forethought
