// The generated schema table: counts, known facts, and lookup by opset.
#include "graph/schema/schema.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

namespace forethought {
namespace {

TEST(Schema, TableIsCompleteAndSorted) {
  const auto all = all_schemas();
  EXPECT_EQ(all.size(), 659u);
  EXPECT_TRUE(std::is_sorted(all.begin(), all.end(), [](const OpSchema& a, const OpSchema& b) {
    return std::tuple(a.domain, a.name, a.since_version) < std::tuple(b.domain, b.name, b.since_version);
  }));
  EXPECT_EQ(newest_opset(""), 28);
  EXPECT_EQ(newest_opset("ai.onnx.ml"), 5);
  EXPECT_FALSE(is_known_domain("com.example"));
}

TEST(Schema, FindsTheVersionOfAnOpset) {
  struct Case {
    std::string_view op;
    int opset;
    int since;
  };
  for (const Case& c : {Case{"Slice", 9, 1},
                        {"Slice", 10, 10},
                        {"Slice", 12, 11},
                        {"Slice", 28, 13},
                        {"Relu", 14, 14},
                        {"Relu", 13, 13},
                        {"NonZero", 8, 0},
                        {"NoSuchOp", 28, 0}}) {
    const OpSchema* s = find_schema("ai.onnx", c.op, c.opset);
    EXPECT_EQ(s ? s->since_version : 0, c.since) << c.op << " at " << c.opset;
  }
  EXPECT_EQ(schema_versions("", "Add").size(), 5u);
}

TEST(Schema, KnowsFormalsAndTypes) {
  const OpSchema* clip = find_schema("", "Clip", 13);
  ASSERT_NE(clip, nullptr);
  ASSERT_EQ(clip->inputs.size(), 3u);
  EXPECT_EQ(clip->min_inputs, 1);
  EXPECT_EQ(clip->max_inputs, 3);
  EXPECT_EQ(clip->inputs[1].name, "min");
  EXPECT_EQ(clip->inputs[1].kind, FormalKind::kOptional);
  EXPECT_TRUE(clip->inputs[0].allowed->allows_tensor(DType::kBFloat16));
  EXPECT_FALSE(clip->inputs[0].allowed->allows_tensor(DType::kString));
  EXPECT_TRUE(clip->context_dependent_body);

  const OpSchema* concat = find_schema("", "Concat", 13);
  EXPECT_EQ(concat->input(7), &concat->inputs[0]);
  EXPECT_EQ(concat->inputs[0].min_arity, 1);
  EXPECT_EQ(concat->output(1), nullptr);

  const OpSchema* insert = find_schema("", "SequenceInsert", 11);
  EXPECT_EQ(insert->inputs[0].allowed->tensor, 0u);
  EXPECT_TRUE(TypeSet(insert->inputs[0].allowed->sequence).contains(DType::kInt64));
  EXPECT_TRUE(find_schema("ai.onnx.ml", "ZipMap", 1)->outputs[0].allowed->sequence_of_maps);
  EXPECT_TRUE(find_schema("", "RandomNormal", 22)->non_deterministic);
  EXPECT_TRUE(find_schema("", "Upsample", 10)->deprecated);
}

TEST(Schema, KnowsAttributesAndDefaults) {
  const AttributeSchema* alpha = find_schema("", "LeakyRelu", 16)->find_attribute("alpha");
  ASSERT_NE(alpha, nullptr);
  EXPECT_EQ(alpha->type, AttrType::kFloat);
  EXPECT_TRUE(alpha->has_default);
  EXPECT_EQ(alpha->f, 0.01f);
  EXPECT_EQ(find_schema("", "Concat", 13)->find_attribute("axis")->required, true);
  EXPECT_EQ(find_schema("", "MaxPool", 22)->find_attribute("auto_pad")->s, "NOTSET");
  const AttributeSchema* axes = find_schema("", "MeanVarianceNormalization", 13)->find_attribute("axes");
  EXPECT_EQ(std::vector<int64_t>(axes->ints.begin(), axes->ints.end()), (std::vector<int64_t>{0, 2, 3}));
  const AttributeSchema* activations = find_schema("", "LSTM", 22)->find_attribute("activations");
  EXPECT_FALSE(activations->has_default);
  EXPECT_EQ(find_schema("", "GRU", 1)->find_attribute("activations")->type, AttrType::kStrings);
}

TEST(Schema, ChoosesBodies) {
  const OpSchema* mvn = find_schema("", "MeanVarianceNormalization", 18);
  ASSERT_EQ(mvn->bodies.size(), 2u);
  EXPECT_EQ(mvn->body_for(17)->opset, 13);
  EXPECT_EQ(mvn->body_for(20)->opset, 18);
  EXPECT_EQ(mvn->body_for(12), nullptr);
  EXPECT_FALSE(mvn->bodies[0].bytes.empty());
}

TEST(Schema, NamesTheNearest) {
  struct Case {
    std::string_view domain, op, nearest;
  };
  for (const Case& c : {Case{"", "relu", "Relu"},
                        {"", "MatMull", "MatMul"},
                        {"", "Reshap", "Reshape"},
                        {"", "TotallyUnknownThing", ""},
                        {"com.x", "Softmx", "Softmax"}}) {
    const OpSchema* s = nearest_schema(c.domain, c.op);
    EXPECT_EQ(s ? s->name : "", c.nearest) << c.op;
  }
  EXPECT_EQ(nearest_schema("", std::string(100'000, 'x')), nullptr);
}

}  // namespace
}  // namespace forethought
