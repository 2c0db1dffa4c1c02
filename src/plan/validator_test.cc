// The validator rejects plans with each kind of fault: by hand with its message, and seeded into random valid plans.
#include "plan/validator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/planner.h"
#include "plan/seeded_faults_for_tests.h"

namespace forethought {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

using seeded::Subject;

TEST(Validator, RejectsEverySeededFault) {
  for (const seeded::Kind& kind : seeded::kKinds) {
    int seeded = 0;
    for (uint64_t seed = 0; seed < 400; ++seed) {
      Subject subject = seeded::subject(seed);
      ASSERT_TRUE(validate(subject.problem, subject.plan).ok());
      Random rng(seed * 31 + 7);
      if (!kind.seed(subject, rng)) continue;
      ++seeded;
      const Status verdict = validate(subject.problem, subject.plan);
      EXPECT_FALSE(verdict.ok()) << kind.name << ", seed " << seed;
      if (kind.message) {
        EXPECT_THAT(std::string(verdict.message()), StartsWith(kind.message)) << "seed " << seed;
      }
    }
    EXPECT_GE(seeded, 40) << kind.name << " found too few places";
  }
}

// Three values of 64 bytes: a lives over steps 0 and 1, b over 1 and 2; y is the output.
Subject chain() {
  Subject s;
  const auto add = [&](Role role, int32_t index, const char* name) {
    PlanValue v;
    v.name = name;
    v.bytes = 64;
    v.role = role;
    v.index = index;
    s.problem.values.push_back(v);
  };
  add(Role::input, 0, "x");
  add(Role::execution, kNoId, "a");
  add(Role::execution, kNoId, "b");
  add(Role::output, 0, "y");
  for (int i = 0; i < 3; ++i) {
    PlanStep step;
    step.name = i == 0 ? "First" : i == 1 ? "Second" : "Third";
    step.reads = {i};
    step.writes = {i + 1};
    s.problem.steps.push_back(step);
  }
  s.plan = *plan(s.problem, Effort::replan);
  return s;
}

TEST(Validator, MessagesNameValuesAndSteps) {
  Subject s = chain();
  ASSERT_TRUE(validate(s.problem, s.plan).ok());
  s.plan.values[2].offset = s.plan.values[1].offset;
  const std::string message(validate(s.problem, s.plan).message());
  EXPECT_THAT(message, StartsWith("overlap: "));
  for (const char* part : {"#1 Second", "%1 a", "%2 b", "#0 First"}) EXPECT_THAT(message, HasSubstr(part));
}

TEST(Validator, RejectsWritesIntoInputsAndOutputsThatChange) {
  Subject s = chain();
  s.plan.values[1] = s.plan.values[0];  // a in the caller's input
  s.plan.values[1].first_step = 0;
  s.plan.values[1].last_step = 1;
  s.plan.values[1].root = 0;
  EXPECT_THAT(std::string(validate(s.problem, s.plan).message()), StartsWith("in-place hazard"));

  s = chain();  // a second output's bytes are written after it was made
  s.problem.values[1].role = Role::output;
  s.problem.values[1].index = 1;
  s.plan = *plan(s.problem, Effort::replan);
  ASSERT_TRUE(validate(s.problem, s.plan).ok());
  s.plan.values[2].arena = ArenaKind::output;
  s.plan.values[2].index = 1;
  s.plan.values[2].offset = 0;
  EXPECT_THAT(std::string(validate(s.problem, s.plan).message()), StartsWith("overlap"));
}

TEST(Validator, RejectsProblemsThatMakeNoSense) {
  Subject s = chain();
  s.problem.steps[1].reads = {77};
  EXPECT_THAT(std::string(validate(s.problem, s.plan).message()), StartsWith("unknown id"));
  s = chain();
  s.problem.steps[2].writes.clear();
  EXPECT_THAT(std::string(validate(s.problem, s.plan).message()), StartsWith("read before write"));
  s = chain();
  s.problem.lanes = 0;
  EXPECT_FALSE(validate(s.problem, s.plan).ok());
  s = chain();
  s.problem.values[1].alignment = 0;
  EXPECT_FALSE(validate(s.problem, s.plan).ok());
}

}  // namespace
}  // namespace forethought
