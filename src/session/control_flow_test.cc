// If, Loop and sequences through whole sessions: captures, states, scan outputs, skipped outputs, nesting, escapes.
#include <gtest/gtest.h>

#include "session/session_testing.h"

namespace forethought {
namespace {

Value flag(bool b) { return tensor_of<bool>({}, {b}); }
Value number(int64_t n) { return tensor_of<int64_t>({}, {n}); }
Value vec(std::vector<float> v) { return tensor_of<float>({static_cast<int64_t>(v.size())}, v); }

// A loop with the state s ← s + 1 and the scan output 2 · s; `head` is the call up to its body.
std::string counting_loop(const std::string& inputs, const std::string& head, const std::string& results) {
  return "graph(" + inputs + ") {\n  " + head + R"( {
    body: graph(%i: i64[], %c: bool[], %s: f32[1,2]) {
      %so = Add(%s, 1.0)
      %sc = Mul(%so, 2.0)
      %co = Identity(%c)
      return %co, %so, %sc
    }
  }
  return )" +
         results + "\n}\n";
}

TEST(ControlFlow, P25SkippedOutputsOfALoop) {
  const Value start = tensor_of<float>({1, 2}, {5, 6});
  for (bool fixed : {true, false}) {
    const std::string inputs = fixed ? "%s0: f32[1,2]" : "%s0: f32[1,2], %m: i64[], %t: bool[]";
    const std::string call = fixed ? "Loop(i64 2, bool true, %s0)" : "Loop(%m, %t, %s0)";
    std::vector<Value> in = {start};
    if (!fixed) in.insert(in.end(), {number(2), flag(true)});
    auto scans = run_everywhere(counting_loop(inputs, "_, %z = " + call, "%z"), in);
    ASSERT_EQ(scans.size(), 1u);
    EXPECT_EQ(dims_of(scans[0]), (Dims{2, 1, 2}));
    EXPECT_EQ(floats(scans[0]), (std::vector<float>{12, 14, 14, 16}));
    auto states = run_everywhere(counting_loop(inputs, "%y, _ = " + call, "%y"), in);
    ASSERT_EQ(states.size(), 1u);
    EXPECT_EQ(floats(states[0]), (std::vector<float>{7, 8}));
  }
}

TEST(ControlFlow, LoopTripsAndConditions) {
  const std::string text =
      counting_loop("%s0: f32[1,2], %m: i64[], %t: bool[]", "%y, %z = Loop(%m, %t, %s0)", "%y, %z");
  struct {
    int64_t trips;
    bool cond;
    float made;
  } const rows[] = {{5, true, 5}, {0, true, 0}, {3, false, 0}, {-1, true, 0}};
  for (const auto& r : rows) {
    auto out = run_everywhere(text, {tensor_of<float>({1, 2}, {5, 6}), number(r.trips), flag(r.cond)});
    ASSERT_EQ(out.size(), 2u);
    EXPECT_EQ(floats(out[0]), (std::vector<float>{5 + r.made, 6 + r.made}));
    EXPECT_EQ(dims_of(out[1])[0], static_cast<int64_t>(r.made));
  }
}

// States that change places without a node between them, in a body that also passes on what it captured.
TEST(ControlFlow, LoopStatesSwap) {
  const char* text = R"(graph(%a: f32[2], %b: f32[2], %k: f32[3], %m: i64[]) {
    %x, %y, %trips, %ks = Loop(%m, bool true, %a, %b; %k) {
      body: graph(%i: i64[], %c: bool[], %p: f32[2], %q: f32[2], %k2: f32[3]) {
        return %c, %q, %p, %i, %k2
      }
    }
    return %x, %y, %trips, %ks
  })";
  for (int64_t trips : {1, 2, 3}) {
    auto out = run_everywhere(text, {vec({1, 2}), vec({3, 4}), vec({7, 8, 9}), number(trips)});
    ASSERT_EQ(out.size(), 4u);
    EXPECT_EQ(floats(out[0]), trips % 2 ? (std::vector<float>{3, 4}) : (std::vector<float>{1, 2}));
    EXPECT_EQ(floats(out[1]), trips % 2 ? (std::vector<float>{1, 2}) : (std::vector<float>{3, 4}));
    EXPECT_EQ(int64s(out[2]).back(), trips - 1);
    EXPECT_EQ(dims_of(out[3]), (Dims{trips, 3}));
  }
}

// A state that doubles in length while a condition computed from it holds: sizes that only the run tells.
TEST(ControlFlow, WhileAStateGrows) {
  const char* text = R"(graph(%x: f32[N], %limit: i64[]) {
    %y, %sums = Loop(_, bool true, %x; %limit) {
      body: graph(%i: i64[], %c: bool[], %s: f32?, %limit2: i64[]) {
        %so = Concat<axis=0>(%s, %s)
        %n = Size(%so)
        %left = Sub(%limit2, %n)
        %more = Max(%left, i64 0)
        %co = Cast<to=9>(%more)
        %sum = ReduceSum<keepdims=0>(%so)
        return %co, %so, %sum
      }
    }
    return %y, %sums
  })";
  auto out = run_everywhere(text, {vec({1, 2, 3}), number(20)});
  ASSERT_EQ(out.size(), 2u);
  EXPECT_EQ(dims_of(out[0]), (Dims{24}));
  EXPECT_EQ(floats(out[1]), (std::vector<float>{12, 24, 48}));
}

TEST(ControlFlow, NestedLoopsShareACapture) {
  const char* text = R"(graph(%s: f32[2], %k: f32[2], %m: i64[], %n: i64[]) {
    %y, %all = Loop(%m, bool true, %s; %k, %n) {
      body: graph(%i: i64[], %c: bool[], %s1: f32[2], %k1: f32[2], %n1: i64[]) {
        %r = Loop(%n1, %c, %s1; %k1) {
          body: graph(%i2: i64[], %c2: bool[], %s2: f32[2], %k2: f32[2]) {
            %t = Add(%s2, %k2)
            return %c2, %t
          }
        }
        %copy = Identity(%r)
        return %c, %r, %copy
      }
    }
    return %y, %all
  })";
  auto out = run_everywhere(text, {vec({0, 0}), vec({1, 2}), number(3), number(4)});
  ASSERT_EQ(out.size(), 2u);
  EXPECT_EQ(floats(out[0]), (std::vector<float>{12, 24}));
  EXPECT_EQ(floats(out[1]), (std::vector<float>{4, 8, 8, 16, 12, 24}));
}

// P25: the first of two outputs skipped.
TEST(ControlFlow, P25SkippedOutputOfAnIf) {
  const char* text = R"(graph(%x: f32[3], %c: bool[]) {
    _, %r = If(%c; %x) {
      then_branch: graph(%a: f32[3]) { %p = Mul(%a, 3.0) %q = Add(%a, 3.0) return %p, %q }
      else_branch: graph(%a: f32[3]) { %p = Mul(%a, 4.0) %q = Add(%a, 4.0) return %p, %q }
    }
    return %r
  })";
  for (bool c : {true, false}) {
    auto out = run_everywhere(text, {vec({0, 1, 2}), flag(c)});
    ASSERT_EQ(out.size(), 1u);
    EXPECT_EQ(floats(out[0]), c ? (std::vector<float>{3, 4, 5}) : (std::vector<float>{4, 5, 6}));
  }
}

// P26 (i): the branch that a constant condition never takes may be wrong; so may one that a run does not take.
TEST(ControlFlow, P26BrokenBranchThatIsNotTaken) {
  const std::string body = R"( {
      then_branch: graph(%a: f32[3,10]) { %p = Squeeze(%a, [0]) return %p }
      else_branch: graph(%a: f32[3,10]) { %q = Identity(%a) return %q }
    }
    return %r
  })";
  Tensor x = tensor_of<float>({3, 10}, std::vector<float>(30, 2));
  auto fixed = run_everywhere("graph(%x: f32[3,10]) { %r = If(bool false; %x)" + body, {x});
  ASSERT_EQ(fixed.size(), 1u);
  EXPECT_EQ(dims_of(fixed[0]), (Dims{3, 10}));
  auto at_run = run_everywhere("graph(%x: f32[3,10], %c: bool[]) { %r = If(%c; %x)" + body, {x, flag(false)});
  ASSERT_EQ(at_run.size(), 1u);
  EXPECT_EQ(floats(at_run[0]), std::vector<float>(30, 2));
}

// P26 (ii): the shape of the branch taken.
TEST(ControlFlow, P26BranchesOfDifferentShapes) {
  const char* text = R"(graph(%x: f32[10], %c: bool[]) {
    %r = If(%c; %x) {
      then_branch: graph(%a: f32[10]) { %p = Neg(%a) return %p }
      else_branch: graph(%a: f32[10]) { %q = Unsqueeze(%a, [0]) return %q }
    }
    %z = Neg(%r)
    return %r, %z
  })";
  for (bool c : {true, false}) {
    auto out = run_everywhere(text, {vec({0, 1, 2, 3, 4, 5, 6, 7, 8, 9}), flag(c)});
    ASSERT_EQ(out.size(), 2u);
    EXPECT_EQ(dims_of(out[0]), c ? (Dims{10}) : (Dims{1, 10}));
    EXPECT_EQ(floats(out[1])[9], c ? 9 : -9);
  }
}

// P24: depth costs time in proportion, and too much of it an error, not the stack.
TEST(ControlFlow, P24NestedIfs) {
  for (int depth : {5, 20, 31}) {
    std::string inner = "graph(%x0: f32[2], %c0: bool[]) { %r = Neg(%x0) return %r }";
    for (int d = 1; d <= depth; ++d) {
      const std::string n = std::to_string(d);
      inner = "graph(%x" + n + ": f32[2], %c" + n + ": bool[]) { %r = If(%c" + n + "; %x" + n + ", %c" + n +
              ") { then_branch: " + inner +
              " else_branch: graph(%a: f32[2], %b: bool[]) { %e = Identity(%a) return %e } } return %r }";
    }
    for (bool c : {true, false}) {
      auto s = session_of(inner);
      ASSERT_TRUE(s) << depth;
      std::vector<Value> out(1);
      const Status ran = s->run_ordered(std::vector<Value>{vec({1, 2}), flag(c)}, out);
      ASSERT_TRUE(ran.ok()) << ran;
      EXPECT_EQ(floats(out[0]), c ? (std::vector<float>{-1, -2}) : (std::vector<float>{1, 2}));
    }
  }
}

// Loops in loops whose states all change their shape: each level is looked at more than once, but not without bound.
TEST(ControlFlow, P24NestedLoopsAreInferredInBoundedTime) {
  std::string inner = "%r = Neg(%x0)";
  const int depth = 24;
  for (int d = 1; d <= depth; ++d) {
    const std::string n = std::to_string(d), m = std::to_string(d - 1);
    inner = "_, %r = Loop(i64 1, bool true, f32 [1.0]; %x" + n + ") { body: graph(%i: i64[], %c: bool[], %s: f32?, %x" +
            m + ": f32[2]) { %g = Concat<axis=0>(%s, %s) " + inner + " return %c, %g, %r } }";
  }
  auto s = session_of("graph(%x" + std::to_string(depth) + ": f32[2]) { " + inner + " return %r }");
  ASSERT_TRUE(s);
  std::vector<Value> out(1);
  const Status ran = s->run_ordered(std::vector<Value>{vec({1, 2})}, out);
  ASSERT_TRUE(ran.ok()) << ran;
  EXPECT_EQ(floats(out[0]), (std::vector<float>{-1, -2}));
}

// Elements of a sequence outlive the step that made them, and no later step may write over them.
TEST(Sequences, ElementsEscape) {
  const char* text = R"(graph(%x: f32[4], %at: i64[]) {
    %a = Relu(%x)
    %q = SequenceConstruct(%a, %x)
    %b = Neg(%a)
    %d = Exp(%b)
    %y = SequenceAt(%q, %at)
    %r = Relu(%y)
    %again = SequenceAt(%q, %at)
    %w = Sub(%again, %d)
    return %w, %r, %q
  })";
  auto first = run_everywhere(text, {vec({-1, 0, -3, 0}), number(0)}, 1e-6);
  ASSERT_EQ(first.size(), 3u);
  EXPECT_EQ(floats(first[0]), (std::vector<float>{-1, -1, -1, -1}));
  auto second = run_everywhere(text, {vec({-1, 0, -3, 0}), number(-1)}, 1e-6);
  EXPECT_EQ(floats(second[0]), (std::vector<float>{-2, -1, -4, -1}));
  ASSERT_TRUE(second[2].sequence());
  EXPECT_EQ(floats(second[2].sequence()->items[1]), (std::vector<float>{-1, 0, -3, 0}));
}

TEST(Sequences, AsLoopState) {
  const char* text = R"(graph(%x: f32[2], %m: i64[], %at: i64[]) {
    %q0 = SequenceConstruct(%x)
    %q = Loop(%m, bool true, %q0; %x) {
      body: graph(%i: i64[], %c: bool[], %s: seq(tensor(float)), %x2: f32[2]) {
        %f = Cast<to=1>(%i)
        %e = Mul(%x2, %f)
        %t = SequenceInsert(%s, %e, i64 0)
        return %c, %t
      }
    }
    %y = SequenceAt(%q, %at)
    %z = Neg(%y)
    return %q, %z
  })";
  for (int64_t trips : {0, 1, 4}) {
    auto out = run_everywhere(text, {vec({1, 2}), number(trips), number(0)});
    ASSERT_EQ(out.size(), 2u);
    ASSERT_TRUE(out[0].sequence());
    EXPECT_EQ(out[0].sequence()->items.size(), static_cast<size_t>(trips + 1));
    const float k = trips ? static_cast<float>(trips - 1) : 1;
    EXPECT_EQ(floats(out[1]), (std::vector<float>{-k, -2 * k}));
  }
}

TEST(Sequences, ABranchGivesOne) {
  const char* text = R"(graph(%x: f32[2], %c: bool[]) {
    %q = If(%c; %x) {
      then_branch: graph(%a: f32[2]) { %s = SequenceConstruct(%a, %a) return %s }
      else_branch: graph(%a: f32[2]) { %s = SequenceEmpty() return %s }
    }
    return %q
  })";
  for (bool c : {true, false}) {
    auto out = run_everywhere(text, {vec({1, 2}), flag(c)});
    ASSERT_EQ(out.size(), 1u);
    ASSERT_TRUE(out[0].sequence());
    EXPECT_EQ(out[0].sequence()->items.size(), c ? 2u : 0u);
  }
}

TEST(ControlFlow, ErrorsNameTheTrip) {
  auto s = session_of(R"(graph(%x: f32[2], %m: i64[]) {
    %q0 = SequenceConstruct(%x)
    %y = Loop(%m, bool true, %x; %q0) {
      body: graph(%i: i64[], %c: bool[], %s: f32[2], %q: seq(tensor(float))) {
        %t = SequenceAt(%q, %i)
        return %c, %t
      }
    }
    return %y
  })");
  ASSERT_TRUE(s);
  std::vector<Value> out(1);
  const Status ran = s->run_ordered(std::vector<Value>{vec({1, 2}), number(3)}, out);
  ASSERT_FALSE(ran.ok());
  EXPECT_NE(ran.message().find("trip 1"), std::string::npos) << ran;
  EXPECT_NE(ran.message().find("position 1 is outside a sequence of 1"), std::string::npos) << ran;
  const Status fine = s->run_ordered(std::vector<Value>{vec({1, 2}), number(1)}, out);  // the session is still usable
  ASSERT_TRUE(fine.ok()) << fine;
  EXPECT_EQ(floats(out[0]), (std::vector<float>{1, 2}));
}

}  // namespace
}  // namespace forethought
