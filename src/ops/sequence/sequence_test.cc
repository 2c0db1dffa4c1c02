// SequenceEmpty, SequenceConstruct, SequenceInsert, SequenceAt: positions, shared elements, refusals.
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
