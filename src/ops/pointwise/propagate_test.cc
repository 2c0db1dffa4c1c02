// Small tensors followed through shape arithmetic, as numbers and as symbols.
#include "ops/pointwise/propagate.h"

#include <gtest/gtest.h>

#include "ops/op_testing.h"

namespace forethought {
namespace {

struct Operand {
  DType dtype;
  SymShape shape;
  SymValue value;
};
Operand ints(std::initializer_list<Dim> v, DType dtype = DType::kInt64) {
  Operand o{dtype, SymShape(true, {Dim(static_cast<int64_t>(v.size()))}), {}};
  o.value.ints.assign(v.begin(), v.end());
  return o;
}
Operand scalar(Dim v, DType dtype = DType::kInt64) {
  Operand o{dtype, SymShape::scalar(), {}};
  o.value.ints.push_back(std::move(v));
  return o;
}
Operand floats(std::initializer_list<double> v) {
  Operand o{DType::kFloat, SymShape(true, {Dim(static_cast<int64_t>(v.size()))}), {}};
  o.value.is_float = true;
  o.value.floats.assign(v.begin(), v.end());
  return o;
}

// The elements of output 0, as text; "none" if it has none.
std::string infer(const char* op, const std::vector<Operand>& in, Attributes a = {}) {
  Graph graph;
  std::vector<ValueId> ids;
  for (const Operand& o : in) ids.push_back(graph.add_input("x", ValueType::tensor(o.dtype), o.shape));
  GraphNode& node = graph.node(graph.add_node({"", op, 1}, op, ids, {graph.add_value("y")}, std::move(a)));
  auto bound = operator_library().bind(node);
  EXPECT_TRUE(bound.ok()) << bound.status();
  std::vector<ValueType> types;
  for (const Operand& o : in) types.push_back(ValueType::tensor(o.dtype));
  std::vector<InferInput> inputs;
  for (size_t i = 0; i < in.size(); ++i) inputs.push_back({true, &types[i], &in[i].shape, nullptr, &in[i].value});
  std::vector<InferOutput> out(1);
  out[0].wanted = true;
  InferCtx c(inputs, out);
  EXPECT_TRUE((*bound)->infer(c).ok());
  if (!out[0].has_value) return "none";
  std::string text;
  for (const Dim& d : out[0].value.ints) absl::StrAppend(&text, text.empty() ? "" : " ", to_string(d));
  for (double d : out[0].value.floats) absl::StrAppend(&text, text.empty() ? "" : " ", d);
  return text;
}

TEST(Propagate, ShapeArithmetic) {
  const Dim n = Dim::symbol("N");
  EXPECT_EQ(infer("Add", {ints({2, n}), scalar(3)}), "5 " + to_string(n + 3));
  EXPECT_EQ(infer("Sub", {ints({n, 7}), ints({n, 2})}), "0 5");
  EXPECT_EQ(infer("Mul", {scalar(n), ints({0, 4})}), "0 " + to_string(n * 4));
  EXPECT_EQ(infer("Div", {ints({-7, 7, n, n - 5}), scalar(2)}), "-3 3 " + to_string(floor_div(n, 2)) + " ?");
  EXPECT_EQ(infer("Div", {ints({1}), ints({0})}), "0");
  EXPECT_EQ(infer("Min", {ints({n, 3}), scalar(2)}), to_string(min(n, 2)) + " 2");
  EXPECT_EQ(infer("Max", {ints({1, 3}), scalar(2), scalar(3)}), "3 3");
  EXPECT_EQ(infer("Neg", {ints({4})}), "-4");
  EXPECT_EQ(infer("Abs", {ints({-4, n})}), "4 ?");
}

TEST(Propagate, WhatDoesNotFitIsUnknown) {
  EXPECT_EQ(infer("Add", {ints({2147483647}, DType::kInt32), ints({1}, DType::kInt32)}), "?");
  EXPECT_EQ(infer("Mul", {ints({int64_t{1} << 40}), ints({int64_t{1} << 40})}), "?");
}

TEST(Propagate, FloatsCastsAndChoices) {
  const Dim n = Dim::symbol("N");
  const auto to = [](DType t) { return attributes({{"to", static_cast<int64_t>(t)}}); };
  EXPECT_EQ(infer("Cast", {ints({3, 4})}, to(DType::kFloat)), "3 4");
  EXPECT_EQ(infer("Cast", {ints({3, n})}, to(DType::kFloat)), "none");
  EXPECT_EQ(infer("Cast", {ints({300, n})}, to(DType::kInt8)), "? N");
  EXPECT_EQ(infer("Cast", {floats({2.7, -2.7})}, to(DType::kInt64)), "2 -2");
  EXPECT_EQ(infer("Mul", {floats({1.5, 2}), floats({2})}), "3 4");
  EXPECT_EQ(infer("Floor", {floats({1.5, -1.5})}), "1 -2");
  EXPECT_EQ(infer("Ceil", {floats({1.5, -1.5})}), "2 -1");
  EXPECT_EQ(infer("Equal", {ints({n, 3, n}), ints({n, 4, 4})}), "1 0 ?");
  EXPECT_EQ(infer("Not", {ints({1, 0}, DType::kBool)}), "0 1");
  EXPECT_EQ(infer("Where", {ints({1, 0, Dim()}, DType::kBool), ints({n, n, 5}), ints({7, 8, 5})}), "N 8 5");
}

}  // namespace
}  // namespace forethought
