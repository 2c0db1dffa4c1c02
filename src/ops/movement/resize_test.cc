// Resize as an operator: sizes and scales, policies, old forms, inference, refusals. Values are tested with the
// kernels.
#include <cmath>

#include "ops/movement/testing.h"

namespace forethought::movement {
namespace {

Tensor f32(const std::vector<float>& v) { return tensor_of<float>({static_cast<int64_t>(v.size())}, v); }
std::pair<std::string, AttributeValue> text(const char* key, const char* v) { return {key, std::string(v)}; }

TEST(Resize, NearestByScalesAndSizes) {
  const std::vector<float> want = {0, 0, 1, 1, 0, 0, 1, 1, 2, 2, 3, 3, 2, 2, 3, 3};
  expect_floats({.op = "Resize", .inputs = {iota({1, 1, 2, 2}), Value(), f32({1, 1, 2, 2})}}, {1, 1, 4, 4}, want);
  expect_floats({.op = "Resize", .inputs = {iota({1, 1, 2, 2}), Value(), Value(), i64({1, 1, 4, 4})}}, {1, 1, 4, 4},
                want);
  // Files of opset 11 give what they do not mean as empty tensors.
  expect_floats({.op = "Resize", .inputs = {iota({1, 1, 2, 2}), f32({}), f32({}), i64({1, 1, 4, 4})}}, {1, 1, 4, 4},
                want);
  expect_floats({.op = "Resize",
                 .inputs = {iota({1, 1, 2, 2}), Value(), f32({2, 2})},
                 .attributes = attributes({{"axes", std::vector<int64_t>{3, -2}}})},
                {1, 1, 4, 4}, want);
  expect_floats({.op = "Resize", .inputs = {iota({1, 2}), Value(), f32({1, 1})}}, {1, 2}, {0, 1});
  expect_floats({.op = "Resize", .inputs = {iota({2, 2}), Value(), f32({0.4f, 1})}}, {0, 2}, {});
}

TEST(Resize, LinearByScales) {
  expect_floats({.op = "Resize",
                 .inputs = {iota({1, 1, 1, 2}), Value(), f32({1, 1, 1, 2})},
                 .attributes = attributes({text("mode", "linear")})},
                {1, 1, 1, 4}, {0, 0.25f, 0.75f, 1});
}

TEST(Resize, KeepsTheAspectRatio) {
  const auto dims = [](const char* policy, std::vector<int64_t> sizes) {
    const auto r = run_case(
        {.op = "Resize",
         .inputs = {iota({1, 1, 4, 2}), Value(), Value(), i64(sizes)},
         .attributes = attributes({text("keep_aspect_ratio_policy", policy), {"axes", std::vector<int64_t>{2, 3}}})});
    EXPECT_TRUE(r.ok()) << r.status();
    return dims_of(r->outputs[0]);
  };
  EXPECT_EQ(dims("not_larger", {7, 8}), (std::vector<int64_t>{1, 1, 7, 4}));  // 3.5 rounds up
  EXPECT_EQ(dims("not_smaller", {7, 8}), (std::vector<int64_t>{1, 1, 16, 8}));
  EXPECT_EQ(dims("stretch", {7, 8}), (std::vector<int64_t>{1, 1, 7, 8}));
}

TEST(Resize, CropsARegion) {
  const auto crop = [](DType roi_type) {
    Tensor roi = f32({0, 0.5f, 1, 1.5f});
    if (roi_type == DType::kDouble) roi = tensor_of<double>({4}, {0, 0.5, 1, 1.5});
    return OpCase{.op = "Resize",
                  .inputs = {iota({2, 3}), roi, Value(), i64({2, 3})},
                  .attributes = attributes({text("mode", "linear"),
                                            text("coordinate_transformation_mode", "tf_crop_and_resize"),
                                            {"extrapolation_value", 9.0f}})};
  };
  for (DType t : {DType::kFloat, DType::kDouble}) expect_floats(crop(t), {2, 3}, {1, 2, 9, 4, 5, 9});
  OpCase lacks = crop(DType::kFloat);
  lacks.inputs[1] = Value();
  expect_refused(lacks, "needs the input roi");
  lacks.inputs[1] = f32({0, 1});
  expect_refused(lacks, "roi has 2 elements");
}

TEST(Resize, KeepsChannelBlocks) {
  const Layout l = Layout::blocked(8);
  std::vector<float> in(16), want;
  for (size_t i = 0; i < 16; ++i) in[i] = static_cast<float>(i);
  for (int y : {0, 0, 1, 1})
    for (int c = 0; c < 8; ++c) want.push_back(static_cast<float>(y * 8 + c));
  const auto r = run_case({.op = "Resize",
                           .inputs = {tensor_of<float>({1, 8, 2}, in), Value(), f32({1, 1, 2})},
                           .input_layouts = {l},
                           .output_layouts = {l}});
  ASSERT_TRUE(r.ok()) << r.status();
  EXPECT_EQ(output_of<float>(*r), want);
}

TEST(Resize, Refusals) {
  const Tensor x = iota({1, 1, 2, 2});
  const auto with = [&](std::vector<std::pair<std::string, AttributeValue>> a) {
    return OpCase{.op = "Resize", .inputs = {x, Value(), f32({1, 1, 2, 2})}, .attributes = attributes(std::move(a))};
  };
  expect_refused(with({text("mode", "bilinear")}), "'bilinear'; there are nearest, linear, cubic");
  expect_refused(with({text("nearest_mode", "up")}), "'up'");
  expect_refused(with({text("coordinate_transformation_mode", "x")}), "'coordinate_transformation_mode' is 'x'");
  expect_refused(with({text("keep_aspect_ratio_policy", "x")}), "'keep_aspect_ratio_policy' is 'x'");
  expect_refused(with({{"antialias", int64_t{1}}}), "'antialias' needs");
  expect_refused(with({{"axes", std::vector<int64_t>{0, 1, 2, 4}}}), "axis 4 is outside");
  expect_refused(with({{"axes", std::vector<int64_t>{0, 1, 2, -2}}}), "named twice");
  expect_refused({.op = "Resize", .inputs = {x}}, "neither scales nor sizes");
  expect_refused({.op = "Resize", .inputs = {x, Value(), f32({1, 1, 2, 2}), i64({1, 1, 4, 4})}},
                 "both scales and sizes");
  expect_refused({.op = "Resize", .inputs = {x, Value(), f32({2, 2})}}, "2 scales for 4 axes");
  expect_refused({.op = "Resize", .inputs = {x, Value(), Value(), i64({2})}}, "1 sizes for 4 axes");
  for (float bad : {0.0f, -1.0f, NAN, INFINITY})
    expect_refused({.op = "Resize", .inputs = {x, Value(), f32({1, 1, bad, 1})}}, "no positive number");
  expect_refused({.op = "Resize", .inputs = {x, Value(), f32({1, 1, 1e30f, 1})}}, "cannot be scaled");
  expect_refused({.op = "Resize", .inputs = {x, Value(), Value(), i64({1, 1, -4, 4})}}, "is -4");
  expect_refused({.op = "Resize", .inputs = {iota({0}), Value(), Value(), i64({3})}}, "of an axis that has none");
  expect_refused({.op = "Resize",
                  .inputs = {tensor_of<bool>({1}, {true}), Value(), f32({2})},
                  .attributes = attributes({text("mode", "linear")})},
                 "only mode nearest");
}

TEST(Resize, OnSymbols) {
  const auto sized = [](const char* in, std::vector<std::string> sizes) {
    return inferred("Resize", {{in}, {"[0]"}, {"[0]"}, elements(sizes)});
  };
  EXPECT_EQ(sized("[N,3,H,W]", {"N", "3", "64", "2*W"}), "[N,3,64,2*W]");
  EXPECT_EQ(inferred("Resize", {{"[N,3,H]"}, {"[0]"}, {"[0]"}, {"[3]", {}, DType::kInt64}}), "[?,?,?]");
  EXPECT_EQ(inferred("Resize", {{"[N,3,H]"}, {"[0]"}, {"[3]"}, {"[0]", {}, DType::kInt64}}), "[?,?,?]");
  // Scales as constants, dims as symbols: run_case() checks them against the run.
  for (float scale : {2.0f, 0.5f, 0.3f, 1.0f}) {
    const auto r = run_case({.op = "Resize", .inputs = {iota({2, 5}), Value(), f32({1, scale})}, .constants = 4});
    EXPECT_TRUE(r.ok()) << r.status();
  }
}

}  // namespace
}  // namespace forethought::movement
