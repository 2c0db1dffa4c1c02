// Compress, TopK, Unique, NonMaxSuppression: values, ties, axes, types, sizes known only at run, refusals.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ops/op_testing.h"

namespace forethought {
namespace {

using Ints = std::vector<int64_t>;
using Floats = std::vector<float>;

std::string error_of(const OpCase& c) {
  const auto o = run_case(c);
  return o.ok() ? "none" : std::string(o.status().message());
}

TEST(Compress, TakesAlongAnAxisOrOfAllElements) {
  const Tensor x = tensor_of<float>({3, 2}, {1, 2, 3, 4, 5, 6});
  struct {
    std::optional<int64_t> axis;
    std::vector<bool> condition;
    Dims dims;
    Floats y;
  } const rows[] = {{0, {false, true, true}, {2, 2}, {3, 4, 5, 6}},
                    {1, {false, true}, {3, 1}, {2, 4, 6}},
                    {-2, {true}, {1, 2}, {1, 2}},
                    {0, {}, {0, 2}, {}},
                    {std::nullopt, {false, true, false, false, true}, {2}, {2, 5}},
                    {std::nullopt, {true, true, true, true, true, true, true}, {6}, {1, 2, 3, 4, 5, 6}}};
  for (const auto& r : rows)
    for (uint32_t constants : {0u, 2u}) {
      OpCase c{.op = "Compress",
               .inputs = {x, tensor_of<bool>({static_cast<int64_t>(r.condition.size())}, r.condition)},
               .constants = constants};
      if (r.axis) c.attributes = attributes({{"axis", *r.axis}});
      const auto o = run_case(c);
      ASSERT_TRUE(o.ok()) << o.status();
      EXPECT_EQ(o->outputs[0].tensor().dims, r.dims);
      EXPECT_EQ(output_of<float>(*o), r.y);
    }
  const auto words =
      run_case({.op = "Compress",
                .inputs = {tensor_of<std::string>({3}, {"a", "b", "c"}), tensor_of<bool>({3}, {true, false, true})}});
  ASSERT_TRUE(words.ok()) << words.status();
  EXPECT_EQ(output_of<std::string>(*words), (std::vector<std::string>{"a", "c"}));
  EXPECT_NE(error_of({.op = "Compress",
                      .inputs = {x, tensor_of<bool>({1}, {true})},
                      .attributes = attributes({{"axis", int64_t{2}}})})
                .find("axis 2 is outside"),
            std::string::npos);
  EXPECT_NE(error_of({.op = "Compress", .inputs = {x, tensor_of<bool>({1, 1}, {true})}}).find("one dim"),
            std::string::npos);
}

TEST(TopK, OrderTiesAndAxes) {
  const Tensor x = tensor_of<float>({2, 4}, {3, 7, 7, 1, -2, 0, -0.0f, -9});
  struct {
    int64_t axis, k, largest;
    Floats y;
    Ints at;
  } const rows[] = {{1, 2, 1, {7, 7, 0, 0}, {1, 2, 1, 2}},
                    {-1, 3, 0, {1, 3, 7, -9, -2, 0}, {3, 0, 1, 3, 0, 1}},
                    {0, 1, 1, {3, 7, 7, 1}, {0, 0, 0, 0}},
                    {0, 2, 0, {-2, 0, 0, -9, 3, 7, 7, 1}, {1, 1, 1, 1, 0, 0, 0, 0}},
                    {1, 0, 1, {}, {}}};
  for (const auto& r : rows)
    for (uint32_t constants : {0u, 2u}) {
      const auto o = run_case({.op = "TopK",
                               .inputs = {x, tensor_of<int64_t>({1}, {r.k})},
                               .attributes = attributes({{"axis", r.axis}, {"largest", r.largest}}),
                               .outputs = 2,
                               .constants = constants});
      ASSERT_TRUE(o.ok()) << o.status();
      EXPECT_EQ(output_of<float>(*o), r.y);
      EXPECT_EQ(output_of<int64_t>(*o, 1), r.at);
      EXPECT_EQ(o->outputs[0].tensor().dims, o->outputs[1].tensor().dims);
    }
}

TEST(TopK, TypesAndNaN) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  const auto top = [](Value x, int64_t largest) {
    const auto o = run_case({.op = "TopK",
                             .inputs = {std::move(x), tensor_of<int64_t>({1}, {2})},
                             .attributes = attributes({{"largest", largest}}),
                             .outputs = 2});
    return o.ok() ? output_of<int64_t>(*o, 1) : Ints{};
  };
  EXPECT_EQ(top(tensor_of<float>({4}, {1, -kNaN, INFINITY, kNaN}), 1), (Ints{1, 3}));
  EXPECT_EQ(top(tensor_of<float>({4}, {kNaN, -INFINITY, INFINITY, kNaN}), 0), (Ints{1, 2}));
  EXPECT_EQ(top(tensor_of<double>({3}, {-1e-300, -1e300, 0}), 1), (Ints{2, 0}));
  EXPECT_EQ(top(tensor_of<uint64_t>({3}, {~uint64_t{0}, 1, uint64_t{1} << 63}), 1), (Ints{0, 2}));
  EXPECT_EQ(top(tensor_of<int64_t>({3}, {INT64_MIN, INT64_MAX, -1}), 0), (Ints{0, 2}));
  EXPECT_EQ(top(tensor_of<int8_t>({3}, {-128, 127, -1}), 1), (Ints{1, 2}));
  EXPECT_EQ(top(tensor_of<Float16>({3}, {Float16(-2.f), Float16(5.f), Float16(1.f)}), 1), (Ints{1, 2}));
}

TEST(TopK, RefusesWhatCannotBe) {
  const Tensor x = tensor_of<float>({3}, {1, 2, 3});
  for (uint32_t constants : {0u, 2u}) {
    const auto error = [&](Ints k) {
      return error_of({.op = "TopK",
                       .inputs = {x, tensor_of<int64_t>({static_cast<int64_t>(k.size())}, k)},
                       .outputs = 2,
                       .constants = constants});
    };
    EXPECT_NE(error({4}).find("the axis has 3 elements"), std::string::npos);
    EXPECT_NE(error({-1}).find("must not be negative"), std::string::npos);
    EXPECT_NE(error({1, 2}).find("one element"), std::string::npos);
  }
}

TEST(Unique, WithAndWithoutAxis) {
  struct {
    Value x;
    std::optional<int64_t> axis;
    int64_t sorted;
    Floats y;
    Ints first, inverse, counts;
  } const rows[] = {
      {tensor_of<float>({6}, {2, 1, 1, 3, 4, 3}), {}, 1, {1, 2, 3, 4}, {1, 0, 3, 4}, {1, 0, 0, 2, 3, 2}, {2, 1, 2, 1}},
      {tensor_of<float>({6}, {2, 1, 1, 3, 4, 3}), {}, 0, {2, 1, 3, 4}, {0, 1, 3, 4}, {0, 1, 1, 2, 3, 2}, {1, 2, 2, 1}},
      {tensor_of<float>({3, 2}, {1, 0, 1, 0, 0, 5}), 0, 1, {0, 5, 1, 0}, {2, 0}, {1, 1, 0}, {1, 2}},
      {tensor_of<float>({3, 2}, {1, 0, 1, 0, 0, 5}), 0, 0, {1, 0, 0, 5}, {0, 2}, {0, 0, 1}, {2, 1}},
      {tensor_of<float>({2, 3}, {1, 0, 1, 2, 3, 2}), -1, 1, {0, 1, 3, 2}, {1, 0}, {1, 0, 1}, {1, 2}},
      {tensor_of<float>({3}, {-0.0f, 0.0f, 1}), {}, 1, {0, 1}, {0, 2}, {0, 0, 1}, {2, 1}},
      {tensor_of<float>({}, {7}), {}, 1, {7}, {0}, {0}, {1}},
      {tensor_of<float>({0}, {}), {}, 1, {}, {}, {}, {}}};
  for (const auto& r : rows) {
    OpCase c{.op = "Unique", .inputs = {r.x}, .attributes = attributes({{"sorted", r.sorted}}), .outputs = 4};
    if (r.axis) c.attributes.set("axis", *r.axis);
    const auto o = run_case(c);
    ASSERT_TRUE(o.ok()) << o.status();
    EXPECT_EQ(output_of<float>(*o), r.y);
    EXPECT_EQ(output_of<int64_t>(*o, 1), r.first);
    EXPECT_EQ(output_of<int64_t>(*o, 2), r.inverse);
    EXPECT_EQ(output_of<int64_t>(*o, 3), r.counts);
  }
  const auto words = run_case({.op = "Unique", .inputs = {tensor_of<std::string>({4}, {"b", "a", "b", ""})}});
  ASSERT_TRUE(words.ok()) << words.status();
  EXPECT_EQ(output_of<std::string>(*words), (std::vector<std::string>{"", "a", "b"}));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto nans = run_case({.op = "Unique", .inputs = {tensor_of<float>({3}, {nan, 1, -nan})}});
  ASSERT_TRUE(nans.ok()) << nans.status();
  EXPECT_EQ(output_of<float>(*nans).size(), 2u);
}

// Two classes; boxes 0 and 1 overlap by 0.8, box 2 stands apart.
TEST(NonMaxSuppression, LimitsThresholdsAndCentres) {
  const Floats corners = {0, 0, 1, 1, 0, 0.1f, 1, 1, 5, 5, 6, 6};
  const Floats centres = {0.5f, 0.5f, 1, 1, 0.55f, 0.5f, 0.9f, 1, 5.5f, 5.5f, 1, 1};
  const Tensor scores = tensor_of<float>({1, 2, 3}, {0.9f, 0.8f, 0.3f, 0.1f, 0.6f, 0.6f});
  struct {
    int64_t most;
    float overlap;
    std::optional<float> threshold;
    Ints y;
  } const rows[] = {{3, 0.5f, {}, {0, 0, 0, 0, 0, 2, 0, 1, 1, 0, 1, 2}},
                    {1, 0.5f, {}, {0, 0, 0, 0, 1, 1}},
                    {9, 0.95f, {}, {0, 0, 0, 0, 0, 1, 0, 0, 2, 0, 1, 1, 0, 1, 2, 0, 1, 0}},
                    {3, 0.5f, 0.5f, {0, 0, 0, 0, 1, 1, 0, 1, 2}},
                    {0, 0.5f, {}, {}}};
  for (const int64_t centered : {0, 1})
    for (const auto& r : rows) {
      OpCase c{.op = "NonMaxSuppression",
               .inputs = {tensor_of<float>({1, 3, 4}, centered ? centres : corners), scores,
                          tensor_of<int64_t>({1}, {r.most}), tensor_of<float>({1}, {r.overlap})},
               .attributes = attributes({{"center_point_box", centered}})};
      if (r.threshold) c.inputs.push_back(tensor_of<float>({1}, {*r.threshold}));
      const auto o = run_case(c);
      ASSERT_TRUE(o.ok()) << o.status();
      EXPECT_EQ(output_of<int64_t>(*o), r.y) << "centred " << centered;
    }
  EXPECT_NE(error_of({.op = "NonMaxSuppression",
                      .inputs = {tensor_of<float>({1, 3, 4}, corners), tensor_of<float>({1, 2, 2}, {1, 2, 3, 4})}})
                .find("[batches,boxes,4]"),
            std::string::npos);
}

}  // namespace
}  // namespace forethought
