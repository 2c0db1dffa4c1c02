// Sizes by formula: what they say is what the shape rules say, and where they may not be believed the rules are asked.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "session/session_testing.h"
#include "session/small_net_testing.h"

namespace forethought {
namespace {

using Shapes = std::vector<Dims>;

// With each plan validated, sizes by formula are compared with those of the rules.
std::unique_ptr<Session> checked_session(std::string_view text) {
  SessionOptions o;
  o.validate_plans = true;
  o.optimization_level = OptimizationLevel::disabled;
  return session_of(text, o);
}

int64_t by_formula(const Session& session) { return session.summary().plans.by_formula; }

// How many of the shapes, each set planned in turn, came from formulas. All must plan.
int64_t count_by_formula(const Session& session, const std::vector<Shapes>& sets) {
  const int64_t before = by_formula(session);
  for (const Shapes& set : sets) {
    const auto plan = session.plan_for(set);
    EXPECT_TRUE(plan.ok()) << plan.status();
  }
  return by_formula(session) - before;
}

// Inputs: x and z of f32[N,M], w of f32[M,8], b of f32[1,M], i of f32[1,4,H,W].
constexpr const char* kByFormula[] = {
    "%y = Relu(%x)",
    "%y = Add(%x, %z)",
    "%y = Add(%x, %b)",
    "%c = Less(%x, %b)\n%y = Where(%c, %x, %b)",
    "%y = Sum(%x, %z, %b)",
    "%y = Clip(%x, 0.0, 1.0)",
    "%y = Cast<to=11>(%x)",
    "%y = MatMul(%x, %w)",
    "%t = Transpose(%x)\n%y = MatMul(%t, %z)",
    "%y = Gemm<transB=1>(%x, %z)",
    "%y = Softmax<axis=-1>(%x)",
    "%y = ReduceSum<keepdims=0>(%x, [1])",
    "%y = ReduceMean(%x, [0])",
    "%y = ArgMax<axis=1, keepdims=0>(%x)",
    "%y = Concat<axis=0>(%x, %z, %b)",
    "%y = Concat<axis=1>(%x, %z)",
    "%y = Unsqueeze(%x, [0, -1])",
    "%u = Unsqueeze(%x, [0])\n%y = Squeeze(%u, [0])",
    "%y = Flatten<axis=0>(%x)",
    "%y = Gather<axis=1>(%x, [0])",
    "%y = Slice(%x, [1], [9223372036854775807], [1])",
    "%y = Slice(%x, [-3], [-1], [0])",
    "%y = Slice(%x, [0], [5], [0], [2])",
    "%y = Slice(%x, [-1], [-9223372036854775807], [0], [-1])",
    "%s = Shape(%x)\n%d = Slice(%s, [1], [2])\n%y = Slice(%x, [0], %d, [0])",
    "%y = Tile(%x, [2, 3])",
    "%y = Pad(%x, [1, 0, 2, 3])",
    "%y = Pad(%x, [-1, 0, 0, -1])",
    "%y = Reshape(%x, [-1])",
    "%y = Reshape(%x, [0, 0, 1])",
    "%u = MatMul(%x, %w)\n%y = Reshape(%u, [0, 2, -1])",
    "%u = MatMul(%x, %w)\n%y = Reshape(%u, [-1, 4, 2])",
    "%s = Shape(%x)\n%y = ConstantOfShape(%s)",
    "%s = Shape(%x)\n%y = Expand(%b, %s)",
    "%n = Size(%x)\n%u = Unsqueeze(%n, [0])\n%y = ConstantOfShape(%u)",
    "%s = Shape(%x)\n%n = ReduceSum<keepdims=1>(%s, [0])\n%y = ConstantOfShape(%n)",
    "%s = Shape(%x)\n%h = Div(%s, [2, 2])\n%y = ConstantOfShape(%h)",
    "%s = Shape(%x)\n%h = Sub(%s, [1, 1])\n%y = ConstantOfShape(%h)",
    "%u = Tile(%x, [2, 1])\n%y, %rest = Split<axis=0>(%u)",
    "%y = GlobalAveragePool(%i)",
    "%y = MaxPool<kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]>(%i)",
    "%y = AveragePool<kernel_shape=[2,2]>(%i)",
    "%y = Conv<strides=[2,1], pads=[1,0,1,0]>(%i, %f)",
    "%y = Conv<auto_pad=\"SAME_UPPER\", strides=[2,2]>(%i, %f)",
    "%y = Resize<mode=\"nearest\">(%i, _, [1.0, 1.0, 2.0, 0.5])",
    "%y = InstanceNormalization(%i, [1.0,1.0,1.0,1.0], [0.0,0.0,0.0,0.0])",
};

std::string graph_with(std::string_view body) {
  std::string text =
      "graph(%x: f32[N,M], %z: f32[N,M], %w: f32[M,8], %b: f32[1,M], %i: f32[1,4,H,W], %f: f32[2,4,3,3]) {";
  if (body.find("%u)") != body.npos && body.find("%u =") == body.npos) text += "\n%u = Concat<axis=0>(%x, %z)";
  return text + "\n" + std::string(body) + "\nreturn %y\n}";
}

Shapes shapes_of(int64_t n, int64_t m, int64_t h, int64_t w) {
  return {{n, m}, {n, m}, {m, 8}, {1, m}, {1, 4, h, w}, {2, 4, 3, 3}};
}

TEST(SizeFormulas, B7_SayWhatTheRulesSay) {
  for (const char* body : kByFormula) {
    SCOPED_TRACE(body);
    const auto session = checked_session(graph_with(body));
    ASSERT_TRUE(session);
    std::mt19937 random(11);
    int64_t planned = 0;
    for (int i = 0; i < 40; ++i) {
      const auto dim = [&](int64_t least, int64_t most) {
        return least + static_cast<int64_t>(random() % static_cast<uint64_t>(most - least + 1));
      };
      // Small ones, so that sizes meet each other and the constants of the graph.
      const auto plan =
          session->plan_for(shapes_of(dim(1, i < 20 ? 30 : 6), dim(1, i < 20 ? 30 : 6), dim(3, 40), dim(3, 40)));
      if (plan.ok()) ++planned;
      EXPECT_TRUE(plan.ok() || absl::IsInvalidArgument(plan.status())) << plan.status();
    }
    EXPECT_GT(planned, 30);
    EXPECT_EQ(session->summary().formulas_refused, "");
    EXPECT_GT(by_formula(*session), 5);
  }
}

TEST(SizeFormulas, TheRulesAreAskedWhereLessIsEqual) {
  const auto session = checked_session("graph(%x: f32[N,4], %z: f32[K,M]) {\n%y = Add(%x, %z)\nreturn %y\n}");
  ASSERT_TRUE(session);
  EXPECT_EQ(count_by_formula(*session, {{{7, 4}, {7, 4}}, {{8, 4}, {8, 4}}, {{9, 4}, {9, 4}}, {{11, 4}, {11, 4}}}), 2);
  EXPECT_EQ(count_by_formula(*session, {{{9, 4}, {1, 4}}}), 0) << "K is 1";
  EXPECT_EQ(count_by_formula(*session, {{{13, 4}, {1, 4}}}), 1);
  EXPECT_EQ(count_by_formula(*session, {{{9, 4}, {9, 1}}}), 0) << "M is 1";
  EXPECT_EQ(count_by_formula(*session, {{{4, 4}, {4, 4}}}), 1) << "that N is 4 too asks nothing of it";
  // What no formula may excuse.
  for (const Shapes& bad : {Shapes{{7, 4}, {6, 4}}, Shapes{{7, 4}, {7, 5}}}) {
    const auto plan = session->plan_for(bad);
    EXPECT_TRUE(absl::IsInvalidArgument(plan.status())) << plan.status();
    EXPECT_THAT(std::string(plan.status().message()), testing::HasSubstr("does not broadcast"));
  }
}

TEST(SizeFormulas, EmptyDimsAreNoOnes) {
  const auto session = checked_session("graph(%x: f32[N,4], %z: f32[K,4]) {\n%y = Add(%x, %z)\nreturn %y\n}");
  ASSERT_TRUE(session);
  EXPECT_EQ(count_by_formula(*session, {{{5, 4}, {1, 4}}, {{6, 4}, {1, 4}}, {{7, 4}, {1, 4}}}), 1);
  for (int round = 0; round < 3; ++round) {
    const auto plan = session->plan_for(Shapes{{0, 4}, {1, 4}});
    ASSERT_TRUE(plan.ok()) << plan.status();
    const auto dims = (*plan)->values[(*plan)->outputs[0]].dims;
    EXPECT_EQ(Dims(dims.begin(), dims.end()), (Dims{0, 4}));
  }
}

TEST(SizeFormulas, NegativeAndHugeNumbersAreLeftToTheRules) {
  const auto session = checked_session(R"(graph(%x: f32[N,4]) {
    %s = Shape(%x)
    %less = Sub(%s, [3, 0])
    %y = ConstantOfShape(%less)
    return %y
  })");
  ASSERT_TRUE(session);
  EXPECT_EQ(count_by_formula(*session, {{{7, 4}}, {{8, 4}}, {{9, 4}}}), 1);
  const auto plan = session->plan_for(Shapes{{2, 4}});
  EXPECT_TRUE(absl::IsInvalidArgument(plan.status())) << plan.status();
  EXPECT_THAT(std::string(plan.status().message()), testing::HasSubstr("the shape to make has a -1"));
  EXPECT_EQ(count_by_formula(*session, {{{int64_t{1} << 31, 4}}}), 0);
  EXPECT_EQ(count_by_formula(*session, {{{int64_t{1} << 30, 4}}}), 1);
}

// The table has eight rows: a ninth has no place.
TEST(SizeFormulas, ALimitInTheMiddleHolds) {
  const auto session = checked_session(R"(graph(%x: f32[L,2], %table: f32[8,2]) {
    %s = Shape(%x)
    %n = Slice(%s, [0], [1])
    %p = Slice(%table, [0], %n, [0])
    %y = Add(%x, %p)
    return %y
  })");
  ASSERT_TRUE(session);
  const auto at = [](int64_t length) { return Shapes{{length, 2}, {8, 2}}; };
  EXPECT_EQ(count_by_formula(*session, {at(3), at(4), at(5), at(6), at(7)}), 3);
  const auto plan = session->plan_for(at(9));
  EXPECT_TRUE(absl::IsInvalidArgument(plan.status())) << plan.status();
  EXPECT_THAT(std::string(plan.status().message()), testing::HasSubstr("does not broadcast"));
  EXPECT_EQ(count_by_formula(*session, {at(6)}), 1);
}

TEST(SizeFormulas, WhyThereAreNoneIsTold) {
  const std::pair<const char*, const char*> rows[] = {
      {"graph(%x: f32[2,3]) {\n%y = Relu(%x)\nreturn %y\n}", "no input has open dims"},
      {"graph(%x: f32[N,4]) {\n%y = Reshape(%x, [-1, 3]) \"fold\"\nreturn %y\n}", "node fold (Reshape)"},
      {"graph(%x: f32[N,4]) {\n%y, %z = Split<axis=0>(%x) \"halve\"\nreturn %y, %z\n}", "node halve (Split)"},
      {"graph(%x: f32[N,4]) {\n%i = NonZero(%x) \"find\"\n%y = Cast<to=1>(%i)\nreturn %y\n}", "node find (NonZero)"},
  };
  for (const auto& [text, why] : rows) {
    const auto session = checked_session(text);
    ASSERT_TRUE(session) << text;
    for (const int64_t n : {6, 12, 18}) {
      const Dims dims = session->inputs()[0].shape.is_known() ? Dims{2, 3} : Dims{n, 4};
      const auto plan = session->plan_for(Shapes{dims});
      EXPECT_TRUE(plan.ok()) << plan.status();
    }
    EXPECT_THAT(session->summary().formulas_refused, testing::HasSubstr(why));
    EXPECT_EQ(by_formula(*session), 0);
  }
}

}  // namespace
}  // namespace forethought
