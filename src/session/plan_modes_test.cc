// One model in every mode of planning: the same bits, and bytes that differ as the modes say.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "session/plan_report.h"
#include "session/session_testing.h"
#include "session/small_net_testing.h"

namespace forethought {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// Values that grow and shrink: slots have to be larger than what they hold.
constexpr const char* kWidths = R"(graph(%x: f32[8,64]) {
  %a = Concat<axis=1>(%x, %x, %x)
  %b = Softmax(%a)
  %c = ReduceSum(%b, [0])
  %d = Transpose(%c)
  %e = MatMul(%d, %c)
  %f = Softmax(%e)
  %g = ReduceMax(%f, [1])
  %h = MatMul(%a, %g)
  %i = Concat<axis=1>(%h, %b)
  %y = Transpose(%i)
  return %y
})";

struct Made {
  std::vector<std::vector<float>> outputs;
  Plan plan;
  std::string text;
};

Made made_with(const SessionOptions& options, const std::string& net, const Dims& dims) {
  Made made;
  const auto session = session_of(net, options);
  if (!session) return made;
  std::vector<Value> outputs(session->outputs().size());
  for (int repeat = 0; repeat < 2; ++repeat) {
    const Status status = session->run_ordered(std::vector{random_floats(dims, 3)}, outputs);
    EXPECT_TRUE(status.ok()) << status;
  }
  for (const Value& v : outputs) made.outputs.push_back(floats(v));
  const auto program = session->plan_for(std::vector<Dims>{dims});
  EXPECT_TRUE(program.ok()) << program.status();
  made.plan = (*program)->plan;
  made.text = plan_text(session->prepared(), **program);
  return made;
}

TEST(PlanModes, A66_SlotsPackedAndOffGiveTheSameBits) {
  for (const auto& [net, dims] :
       {std::pair{small_net(), Dims{1, 3, 20, 20}}, std::pair{std::string(kWidths), Dims{8, 64}}}) {
    for (const int lanes : {1, 2}) {
      SessionOptions o;
      o.optimization_level = OptimizationLevel::disabled;
      o.intra_op_threads = 2;
      o.lanes = lanes;
      o.validate_plans = true;
      const Made packed = made_with(o, net, dims);
      o.plan = PlanMode::slots;
      const Made slots = made_with(o, net, dims);
      o.plan = PlanMode::off;
      const Made off = made_with(o, net, dims);
      EXPECT_EQ(packed.outputs, slots.outputs);
      EXPECT_EQ(packed.outputs, off.outputs);
      EXPECT_LE(packed.plan.peak, slots.plan.peak);
      EXPECT_LT(slots.plan.peak, off.plan.peak);
      EXPECT_EQ(packed.plan.lower_bound, slots.plan.lower_bound);  // the same values share bytes
      EXPECT_EQ(packed.plan.aliases, slots.plan.aliases);
      EXPECT_EQ(packed.plan.overwrites, slots.plan.overwrites);
      EXPECT_EQ(packed.plan.windows, slots.plan.windows);
      EXPECT_GT(slots.plan.slots, 1);
      EXPECT_EQ(packed.plan.slots + off.plan.slots, 0);
      EXPECT_THAT(slots.text, HasSubstr(absl::StrCat("peak ", slots.plan.peak, " B in ", slots.plan.slots, " slots")));
      EXPECT_THAT(packed.text, Not(HasSubstr(" slot")));
    }
  }
}

TEST(PlanModes, A66_TheVariableSaysWhatOptionsLeaveOpen) {
  const auto slots_with = [](PlanMode mode) {
    SessionOptions o;
    o.optimization_level = OptimizationLevel::disabled;
    o.plan = mode;
    return made_with(o, kWidths, {8, 64}).plan.slots;
  };
  ASSERT_EQ(setenv("FORETHOUGHT_PLAN", "slots", 1), 0);
  EXPECT_GT(slots_with(PlanMode::packed), 0);
  EXPECT_EQ(slots_with(PlanMode::off), 0);
  unsetenv("FORETHOUGHT_PLAN");
  EXPECT_EQ(slots_with(PlanMode::packed), 0);
  EXPECT_GT(slots_with(PlanMode::slots), 0);
}

}  // namespace
}  // namespace forethought
