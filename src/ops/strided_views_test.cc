// Operators that give and take strided views, against the same on row-major tensors.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "ops/op_testing.h"

namespace forethought {
namespace {

template <typename T>
Tensor numbers(std::initializer_list<int64_t> dims) {
  Tensor t = make_tensor(dtype_of<T>, Dims(dims)).value();
  for (int64_t i = 0; i < t.elements(); ++i) t.as<T>()[i] = static_cast<T>(static_cast<float>(i * 37 % 101) - 50.0f);
  return t;
}
Tensor ints(const std::vector<int64_t>& v) { return tensor_of<int64_t>({std::ssize(v)}, v); }

std::string bytes(const Value& v) { return {v.tensor().as<char>(), static_cast<size_t>(v.tensor().bytes())}; }
std::vector<std::string> all_bytes(const OpOutcome& o) {
  std::vector<std::string> all;
  for (const Value& v : o.outputs) all.push_back(bytes(v));
  return all;
}

struct Row {
  const char* op;
  std::vector<Value> inputs;
  Attributes attributes = {};
  uint32_t constants = 0;
  int outputs = 1;
};
OpCase case_of(const Row& r) {
  OpCase c;
  c.op = r.op;
  c.inputs = r.inputs;
  c.attributes = r.attributes;
  c.constants = r.constants;
  c.outputs = r.outputs;
  return c;
}
AttributeValue perm(std::vector<int64_t> p) { return AttributeValue(std::move(p)); }

std::vector<Row> givers() {
  return {
      {"Transpose", {numbers<float>({3, 4, 5})}, attributes({{"perm", perm({1, 0, 2})}})},
      {"Transpose", {numbers<int8_t>({3, 4, 5})}, attributes({{"perm", perm({2, 0, 1})}})},
      {"Slice", {numbers<double>({6, 7}), ints({1}), ints({6}), ints({1})}, {}, 0b1110},
      {"Slice", {numbers<float>({6, 7}), ints({-1, 5}), ints({-9, 0}), ints({0, 1}), ints({-2, -1})}, {}, 0b11110},
      {"Split", {numbers<Float16>({4, 10}), ints({3, 7})}, attributes({{"axis", AttributeValue(int64_t{1})}}), 2, 2},
      {"Expand", {numbers<float>({3, 1, 2}), ints({2, 3, 4, 2})}, {}, 2},
  };
}

// Where the view is honoured, and where its step copies into a place that lies the same way.
TEST(StridedViews, B17_GiversStepOverTheirInput) {
  for (const Row& r : givers()) {
    SCOPED_TRACE(r.op);
    OpCase c = case_of(r);
    const auto dense = run_case(c);
    ASSERT_TRUE(dense.ok()) << dense.status();
    EXPECT_TRUE(std::ranges::none_of(dense->facts.aliases, &Alias::strided));
    c.views = true;
    for (const bool share : {false, true}) {
      c.share = share;
      const auto viewed = run_case(c);
      ASSERT_TRUE(viewed.ok()) << viewed.status();
      EXPECT_EQ(std::ranges::count(viewed->facts.aliases, true, &Alias::strided), r.outputs);
      EXPECT_EQ(all_bytes(*viewed), all_bytes(*dense)) << (share ? "in its input" : "in a place of its own");
    }
  }
}

std::vector<Row> takers() {
  const AttributeValue one(int64_t{1});
  std::vector<Row> rows = givers();
  for (Row& r : std::vector<Row>{
           {"Add", {numbers<float>({5, 70}), numbers<float>({5, 70})}},
           {"Mul", {numbers<float>({4, 3, 6}), numbers<float>({3, 1})}},
           {"Sub", {numbers<int32_t>({9, 3}), numbers<int32_t>({9, 3})}},
           {"Sigmoid", {numbers<float>({2, 5, 40})}},
           {"Less", {numbers<int64_t>({3, 80}), numbers<int64_t>({80})}},
           {"Cast", {numbers<float>({7, 9})}, attributes({{"to", AttributeValue(int64_t{10})}})},
           {"Cast", {numbers<float>({7, 9})}, attributes({{"to", one}})},
           {"Clip", {numbers<float>({7, 9}), tensor_of<float>({}, {-20.0f})}},
           {"Max", {numbers<float>({2, 66}), numbers<float>({2, 66}), numbers<float>({1, 66})}},
           {"MatMul", {numbers<float>({2, 5, 40}), numbers<float>({2, 40, 50})}},
           {"MatMul", {numbers<float>({3, 70, 9}), numbers<float>({9, 65})}},
           {"MatMul", {numbers<float>({9}), numbers<float>({2, 9, 33})}},
           {"MatMul", {numbers<float>({7, 9}), numbers<float>({9})}},
           {"MatMul", {numbers<Float16>({2, 5, 40}), numbers<Float16>({40, 50})}},
           {"MatMul", {numbers<int64_t>({2, 5, 4}), numbers<int64_t>({2, 4, 3})}},
           {"MatMul", {numbers<double>({2, 3, 5, 4}), numbers<double>({2, 1, 4, 3})}},
           {"Gemm", {numbers<float>({20, 30}), numbers<float>({30, 40})}},
           {"Gemm",
            {numbers<float>({30, 20}), numbers<float>({40, 30})},
            attributes({{"transA", one}, {"transB", one}})},
           {"Concat", {numbers<float>({2, 3, 4}), numbers<float>({2, 5, 4})}, attributes({{"axis", one}})},
           {"Reshape", {numbers<float>({2, 3, 4}), ints({6, 2, 2})}, {}, 2},
           {"Flatten", {numbers<float>({2, 3, 4})}},
           {"Squeeze", {numbers<float>({2, 1, 4}), ints({1})}, {}, 2},
           {"Unsqueeze", {numbers<float>({2, 4}), ints({1})}, {}, 2},
           {"Identity", {numbers<float>({2, 4})}},
       })
    rows.push_back(std::move(r));
  return rows;
}

// Ways for a tensor to lie: with gaps between rows, between elements, columns first, backwards, batches apart.
std::vector<Dims> ways(const Dims& dims) {
  const size_t rank = dims.size();
  std::vector<Dims> all(5, row_major_strides(dims));
  for (size_t d = 0; d + 1 < rank; ++d) all[0][d] = all[0][d] / dims.back() * (dims.back() + 3);
  for (int64_t& s : all[1]) s *= 2;
  int64_t step = 1;
  for (size_t d = 0; d < rank; step *= dims[d++]) all[2][d] = step;
  for (int64_t& s : all[3]) s = -s;
  step = 1;
  if (rank > 1)
    for (const size_t d : {rank - 2, rank - 1}) all[4][d] = step, step *= dims[d];
  return all;
}

// Where outputs share bytes with inputs, and where they do not.
void expect_like(const OpOutcome& dense, OpCase c) {
  for (const bool share : {false, true}) {
    c.share = share;
    const auto strided = run_case(c);
    ASSERT_TRUE(strided.ok()) << strided.status();
    EXPECT_EQ(all_bytes(*strided), all_bytes(dense));
  }
}

TEST(StridedViews, B17_TakersReadInAnySteps) {
  for (const Row& r : takers()) {
    OpCase c = case_of(r);
    const auto dense = run_case(c);
    ASSERT_TRUE(dense.ok()) << r.op << ": " << dense.status();
    for (size_t input = 0; input < r.inputs.size(); ++input) {
      const Tensor& t = r.inputs[input].tensor();
      if (has_bit(r.constants, input) || t.dims.empty()) continue;
      for (const Dims& steps : ways(t.dims)) {
        SCOPED_TRACE(absl::StrCat(r.op, " input ", input, " ", to_string(t.dims), " in ", to_string(steps)));
        c = case_of(r);
        c.inputs[input] = in_steps(t, steps).value();
        for (const bool views : {false, true}) {
          c.views = views;
          expect_like(*dense, c);
        }
      }
    }
  }
}

// Matrices, rows and elements that repeat, as Expand gives them.
TEST(StridedViews, B17_TakersReadWhatRepeats) {
  for (const Row& r : takers()) {
    for (size_t input = 0; input < r.inputs.size(); ++input) {
      Tensor t = r.inputs[input].tensor();
      for (size_t d = 0; d < t.dims.size() && !has_bit(r.constants, input); ++d) {
        SCOPED_TRACE(absl::StrCat(r.op, " input ", input, " ", to_string(t.dims), " repeats along ", d));
        Dims steps = row_major_strides(t.dims);
        steps[d] = 0;
        OpCase c = case_of(r);
        Tensor view = t;
        view.strides = steps;
        c.inputs[input] = row_major(view).value();
        const auto dense = run_case(c);
        ASSERT_TRUE(dense.ok()) << dense.status();
        c.inputs[input] = view;
        c.views = true;
        expect_like(*dense, c);
      }
    }
  }
}

}  // namespace
}  // namespace forethought
