// GatherND and GatherElements: batches, blocks, negative and wrong indices, types, refusals.
#include <gtest/gtest.h>

#include <algorithm>

#include "ops/op_testing.h"

namespace forethought {
namespace {

using Floats = std::vector<float>;
using Indices = std::vector<int64_t>;

Tensor indices_of(const Dims& dims, const Indices& indices) {
  Tensor t = make_tensor(DType::kInt64, dims).value();
  std::ranges::copy(indices, t.as<int64_t>());
  return t;
}

const Tensor& data() {
  static const Tensor t = tensor_of<float>({2, 3, 2}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  return t;
}

OpCase nd(const Dims& dims, const Indices& indices, int64_t batch_dims = 0) {
  return {.op = "GatherND",
          .inputs = {data(), indices_of(dims, indices)},
          .attributes = attributes({{"batch_dims", batch_dims}})};
}
OpCase elements(const Dims& dims, const Indices& indices, int64_t axis) {
  return {.op = "GatherElements",
          .inputs = {data(), indices_of(dims, indices)},
          .attributes = attributes({{"axis", axis}})};
}

TEST(GatherND, BlocksAndBatches) {
  struct {
    OpCase c;
    Dims dims;
    Floats y;
  } const rows[] = {
      {nd({2, 2}, {1, 0, 0, -1}), {2, 2}, {6, 7, 4, 5}},
      {nd({1, 3}, {-1, -1, -1}), {1}, {11}},
      {nd({2, 1, 1}, {1, 0}), {2, 1, 3, 2}, {6, 7, 8, 9, 10, 11, 0, 1, 2, 3, 4, 5}},
      {nd({2, 1}, {2, 0}, 1), {2, 2}, {4, 5, 6, 7}},
      {nd({2, 3, 1}, {0, 1, 0, 1, 1, 1}, 2), {2, 3}, {0, 3, 4, 7, 9, 11}},
      {nd({2, 0}, {}), {2, 2, 3, 2}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}},
      {nd({0, 2}, {}), {0, 2}, {}}};
  for (const auto& r : rows)
    for (const bool late : {false, true}) {
      OpCase c = r.c;
      c.sized_late = late;
      const auto o = run_case(c);
      ASSERT_TRUE(o.ok()) << o.status();
      EXPECT_EQ(o->outputs[0].tensor().dims, r.dims);
      EXPECT_EQ(output_of<float>(*o), r.y);
    }
}

TEST(GatherElements, AxesAndTypes) {
  struct {
    OpCase c;
    Floats y;
  } const rows[] = {{elements({1, 3, 2}, {1, 0, 0, 1, -1, -2}, 0), {6, 1, 2, 9, 10, 5}},
                    {elements({2, 1, 1}, {2, -3}, 1), {4, 6}},
                    {elements({1, 2, 4}, {0, 1, 1, 0, -1, -2, 0, 1}, -1), {0, 1, 1, 0, 3, 2, 2, 3}},
                    {elements({0, 3, 2}, {}, 0), {}}};
  for (const auto& r : rows) {
    const auto o = run_case(r.c);
    ASSERT_TRUE(o.ok()) << o.status();
    EXPECT_EQ(output_of<float>(*o), r.y);
  }
  const auto words =
      run_case({.op = "GatherElements",
                .inputs = {tensor_of<std::string>({2}, {"a", "b"}), tensor_of<int32_t>({3}, {1, 1, 0})}});
  ASSERT_TRUE(words.ok()) << words.status();
  EXPECT_EQ(output_of<std::string>(*words), (std::vector<std::string>{"b", "b", "a"}));
}

TEST(GatherElements, ManyBlocks) {
  constexpr int64_t kRows = 300, kColumns = 200;
  std::vector<float> x(kRows * kColumns);
  Indices at(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(i);
    at[i] = static_cast<int64_t>(i * 7919 % kRows);
  }
  const auto o =
      run_case({.op = "GatherElements",
                .inputs = {tensor_of<float>({kRows, kColumns}, x), tensor_of<int64_t>({kRows, kColumns}, at)}});
  ASSERT_TRUE(o.ok()) << o.status();
  const auto y = output_of<float>(*o);
  for (size_t i = 0; i < y.size(); ++i) ASSERT_EQ(y[i], static_cast<float>(at[i] * kColumns + i % kColumns)) << i;
}

TEST(GatherPoints, Refusals) {
  struct {
    OpCase c;
    const char* message;
  } const rows[] = {{nd({1, 2}, {0, 3}), "index 3 (element 1 of input 1) is outside axis 1"},
                    {nd({1, 1}, {-3}), "index -3"},
                    {nd({1, 4}, {0, 0, 0, 0}), "4 places"},
                    {nd({3, 1}, {0, 0, 0}, 1), "batch dim 0 is 2 of the data and 3"},
                    {nd({1}, {0}, 1), "more dims than batch_dims"},
                    {nd({1, 1}, {0}, -1), "batch_dims is -1"},
                    {elements({2, 3, 2}, Indices(12, 2), 0), "index 2 (element 0 of input 1) is outside [-2, 1]"},
                    {elements({2, 4, 2}, Indices(16, 0), 0), "no dim of the indices larger"},
                    {elements({2}, {0, 0}, 0), "ranks must be equal"}};
  for (const auto& r : rows) {
    const auto o = run_case(r.c);
    ASSERT_FALSE(o.ok()) << r.message;
    EXPECT_NE(o.status().message().find(r.message), std::string::npos) << o.status();
  }
}

}  // namespace
}  // namespace forethought
