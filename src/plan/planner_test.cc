// What the planner decides for small problems whose right answer is known, and which problems it refuses.
#include "plan/planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "plan/names.h"
#include "plan/validator.h"

namespace forethought {
namespace {

using testing::HasSubstr;

// Builds problems in a few words; steps are on lane 0 unless said.
struct Builder {
  PlanProblem p;
  ValueNo value(Role role, int64_t bytes, int32_t index = kNoId) {
    PlanValue v;
    v.bytes = bytes;
    v.role = role;
    v.index = index;
    v.alignment = 4;
    p.values.push_back(v);
    return static_cast<ValueNo>(p.values.size()) - 1;
  }
  ValueNo temp(int64_t bytes) { return value(Role::execution, bytes); }
  PlanStep& step(const ValueNos& reads, const ValueNos& writes, int lane = 0) {
    PlanStep& s = p.steps.emplace_back();
    s.reads = reads;
    s.writes = writes;
    s.lane = lane;
    return s;
  }
  PlanStep& relu(ValueNo in, ValueNo out, int lane = 0) {
    PlanStep& s = step({in}, {out}, lane);
    s.may_overwrite.push_back({out, in});
    return s;
  }
  PlanStep& reshape(ValueNo in, ValueNo out) {
    PlanStep& s = step({in}, {out});
    s.aliases.push_back({out, in, 0});
    return s;
  }
  Plan made(Effort effort = Effort::load) const {
    const auto result = plan(p, effort);
    EXPECT_TRUE(result.ok()) << result.status();
    if (!result.ok()) return {};
    const Status verdict = validate(p, *result);
    EXPECT_TRUE(verdict.ok()) << verdict;
    return *result;
  }
  std::string refusal() const {
    const auto result = plan(p, Effort::replan);
    return result.ok() ? "accepted" : std::string(result.status().message());
  }
};

TEST(Planner, AnEmptyProblemHasAnEmptyPlan) {
  const Plan plan = Builder().made();
  EXPECT_EQ(plan.peak, 0);
  EXPECT_EQ(plan.naive, 0);
}

TEST(Planner, ChainOfOverwritesUsesOneBuffer) {
  Builder b;
  ValueNo v = b.value(Role::input, 1024, 0);
  ValueNo next = b.temp(1024);
  b.relu(v, next);
  EXPECT_EQ(b.made().values[next].overwrites, kNoId) << "an input is never overwritten";
  for (int i = 0; i < 10; ++i) v = next, b.relu(v, next = b.temp(1024));
  const Plan plan = b.made();
  EXPECT_EQ(plan.peak, 1024);
  EXPECT_EQ(plan.naive, 11 * 1024);
  EXPECT_EQ(plan.values[next].overwrites, v);
}

TEST(Planner, ChainOfPlainStepsUsesTwoBuffers) {
  Builder b;
  ValueNo v = b.value(Role::input, 64, 0);
  for (int i = 0; i < 10; ++i) {
    const ValueNo next = b.temp(1024);
    b.step({v}, {next});
    v = next;
  }
  const Plan plan = b.made();
  EXPECT_EQ(plan.peak, 2048);
  EXPECT_EQ(plan.lower_bound, 2048);
}

TEST(Planner, AThousandViewsOwnNothingAndPinTheirRoot) {
  Builder b;
  const ValueNo in = b.value(Role::input, 64, 0), root = b.temp(4096);
  b.step({in}, {root});
  ValueNo v = root;
  for (int i = 0; i < 1000; ++i) {
    const ValueNo next = b.temp(4096);
    b.reshape(v, next);
    v = next;
  }
  const ValueNo other = b.temp(4096), sum = b.temp(64);
  b.step({in}, {other});
  b.step({v, other}, {sum});
  const Plan plan = b.made();
  EXPECT_EQ(plan.values[v].root, root);
  EXPECT_EQ(plan.peak, 2 * 4096 + 64);
  EXPECT_EQ(plan.values[root].last_step, 1) << "its own accesses end, its bytes live on in the views";
}

TEST(Planner, MalformedViewCyclesAreErrors) {
  Builder b;
  const ValueNo x = b.temp(64), y = b.temp(64), z = b.temp(64);
  b.reshape(x, y);
  b.reshape(y, z);
  b.reshape(z, x);
  EXPECT_THAT(b.refusal(), HasSubstr("cyclic views"));
  Builder self;
  const ValueNo v = self.temp(64);
  self.reshape(v, v);
  EXPECT_THAT(self.refusal(), HasSubstr("cyclic views"));
}

// An output that is a view of an input, a weight or another output is copied exactly once; inner views stay views.
TEST(Planner, OutputsNeverShareBytesWithWhatIsNotTheirs) {
  for (const Role source : {Role::input, Role::weight, Role::output}) {
    Builder b;
    const ValueNo in = b.value(source, 256, 0), mid = b.temp(256);
    const ValueNo out = b.value(Role::output, 256, 1);
    if (source == Role::output) b.step({b.value(Role::input, 4, 0)}, {in});
    b.reshape(in, mid);
    b.reshape(mid, out);
    const Plan plan = b.made();
    const StepNo last = static_cast<StepNo>(b.p.steps.size()) - 1;
    EXPECT_TRUE(plan.alias_honoured(last - 1, 0)) << name(source);
    EXPECT_FALSE(plan.alias_honoured(last, 0)) << name(source);
    EXPECT_EQ(plan.values[out].root, out);
    EXPECT_EQ(plan.peak, 0);
  }
}

TEST(Planner, TheSourceOfAnOutputsViewIsBornInTheOutput) {
  Builder b;
  const ValueNo in = b.value(Role::input, 256, 0), mid = b.temp(256), flat = b.temp(256);
  const ValueNo out = b.value(Role::output, 256, 0), again = b.value(Role::output, 256, 1);
  b.step({in}, {mid});
  b.reshape(mid, flat);
  b.reshape(flat, out);
  b.reshape(mid, again);
  const Plan plan = b.made();
  EXPECT_EQ(plan.values[mid].arena, ArenaKind::output);
  EXPECT_EQ(plan.values[mid].index, 0);
  EXPECT_TRUE(plan.alias_honoured(2, 0));
  EXPECT_FALSE(plan.alias_honoured(3, 0)) << "two outputs have two buffers";
  EXPECT_EQ(plan.peak, 0);
}

TEST(Planner, APartOfAValueIsNoOutputWithoutACopy) {
  Builder b;
  const ValueNo in = b.value(Role::input, 256, 0), mid = b.temp(256), out = b.value(Role::output, 64, 0);
  b.step({in}, {mid});
  b.step({mid}, {out}).aliases.push_back({out, mid, 0});
  const Plan plan = b.made();
  EXPECT_FALSE(plan.alias_honoured(1, 0));
  EXPECT_EQ(plan.values[mid].arena, ArenaKind::slab);
}

// pitfalls: an input that is also an output is copied by a step, so that it is not the caller's memory.
TEST(Planner, P1InputThatIsAlsoAnOutput) {
  Builder b;
  const ValueNo x = b.value(Role::input, 32, 0), t = b.value(Role::weight, 4, 0);
  const ValueNo y = b.value(Role::output, 32, 0), x_out = b.value(Role::output, 32, 1);
  b.step({x, t}, {y}).may_overwrite.push_back({y, x});
  b.reshape(x, x_out);
  const Plan plan = b.made();
  EXPECT_FALSE(plan.overwrite_honoured(0, 0));
  EXPECT_FALSE(plan.alias_honoured(1, 0));
}

// pitfalls: an output nobody reads keeps its bytes during its step.
TEST(Planner, P2UnreadOutputHasBytesDuringItsStep) {
  Builder b;
  const ValueNo x = b.value(Role::input, 128, 0), v = b.temp(128), unread = b.temp(256);
  const ValueNo r = b.temp(128), y = b.value(Role::output, 128, 0);
  b.step({x}, {v, unread});
  b.relu(x, r);
  b.step({r, v}, {y});
  const Plan plan = b.made();
  EXPECT_EQ(plan.values[unread].arena, ArenaKind::slab);
  EXPECT_EQ(plan.lower_bound, 384);
  EXPECT_EQ(plan.peak, 384) << "and r takes them afterwards";
}

// pitfalls: of two readers on two lanes neither may update the value in place.
TEST(Planner, P4P5NoOverwriteWhileAnotherLaneReads) {
  Builder b;
  b.p.lanes = 2;
  const ValueNo x = b.value(Role::input, 64, 0), r = b.temp(64), a = b.temp(64), e = b.temp(64);
  const ValueNo y = b.value(Role::output, 64, 0);
  b.relu(x, r).signals = {0};
  b.relu(r, a);
  PlanStep& exp = b.relu(r, e, 1);
  exp.waits = {0};
  exp.signals = {1};
  b.step({a, e}, {y}).waits = {1};
  Plan plan = b.made();
  EXPECT_FALSE(plan.overwrite_honoured(1, 0));
  EXPECT_FALSE(plan.overwrite_honoured(2, 0));
  EXPECT_EQ(plan.peak, 192);

  // With one lane the second reader may; with two lanes it may if it waits for the first.
  b.p.steps[1].signals = {2};
  b.p.steps[2].waits = {0, 2};
  plan = b.made();
  EXPECT_FALSE(plan.overwrite_honoured(1, 0));
  EXPECT_TRUE(plan.overwrite_honoured(2, 0));
}

TEST(Planner, LanesShareBytesOnlyAcrossAnEdge) {
  for (const bool edge : {false, true}) {
    Builder b;
    b.p.lanes = 2;
    const ValueNo x = b.value(Role::input, 64, 0);
    const ValueNo a = b.temp(1024), a2 = b.value(Role::output, 64, 0), c = b.temp(1024);
    const ValueNo c2 = b.value(Role::output, 64, 1);
    b.step({x}, {a});
    PlanStep& last_use = b.step({a}, {a2});
    if (edge) last_use.signals = {0};
    PlanStep& start = b.step({x}, {c}, 1);
    if (edge) start.waits = {0};
    b.step({c}, {c2}, 1);
    EXPECT_EQ(b.made().peak, edge ? 1024 : 2048);
  }
}

TEST(Planner, JoinsByPlacement) {
  Builder b;
  const ValueNo x = b.value(Role::input, 64, 0);
  const ValueNo p0 = b.temp(640), p1 = b.temp(320), all = b.temp(960), y = b.value(Role::output, 64, 0);
  b.step({x}, {p0});
  b.step({x}, {p1});
  b.step({p0, p1}, {all}).windows = {{p0, all, 0}, {p1, all, 640}};
  b.step({all}, {y});
  Plan plan = b.made();
  EXPECT_EQ(plan.peak, 960);
  EXPECT_TRUE(plan.window_honoured(2, 0) && plan.window_honoured(2, 1));
  EXPECT_EQ(plan.values[p1].offset, plan.values[all].offset + 640);

  b.p.steps[2].reads = {p0, p0};  // one value fills one window only
  b.p.steps[2].windows = {{p0, all, 0}, {p0, all, 320}};
  plan = b.made();
  EXPECT_EQ(plan.window_honoured(2, 0) + plan.window_honoured(2, 1), 1);
}

TEST(Planner, JoinsIntoAnOutputAndIntoAJoin) {
  Builder b;
  const ValueNo x = b.value(Role::input, 64, 0);
  const ValueNo p0 = b.temp(64), p1 = b.temp(64), inner = b.temp(128), p2 = b.temp(64);
  const ValueNo y = b.value(Role::output, 192, 0);
  b.step({x}, {p0});
  b.step({x}, {p1});
  b.step({p0, p1}, {inner}).windows = {{p0, inner, 0}, {p1, inner, 64}};
  b.step({x}, {p2});
  b.step({inner, p2}, {y}).windows = {{inner, y, 0}, {p2, y, 128}};
  const Plan plan = b.made();
  EXPECT_EQ(plan.peak, 0);
  EXPECT_EQ(plan.values[p1].arena, ArenaKind::output);
  EXPECT_EQ(plan.values[p1].offset, 64);
}

// A window would keep a large output alive from the birth of a small, early input on.
TEST(Planner, RefusesAWindowThatRaisesTheBound) {
  Builder b;
  const ValueNo x = b.value(Role::input, 64, 0);
  const ValueNo early = b.temp(64), big = b.temp(4096), small = b.temp(64), late = b.temp(1984), all = b.temp(2048);
  const ValueNo y = b.value(Role::output, 64, 0);
  b.step({x}, {early});
  b.step({x}, {big});
  b.step({big}, {small});
  b.step({small}, {late});
  b.step({early, late}, {all}).windows = {{early, all, 0}, {late, all, 64}};
  b.step({all}, {y});
  const Plan plan = b.made();
  EXPECT_FALSE(plan.window_honoured(4, 0));
  EXPECT_TRUE(plan.window_honoured(4, 1));
  EXPECT_EQ(plan.peak, 4096 + 64 + 64);
}

// Relu before a join: the input of an overwrite is born where the output has its window.
TEST(Planner, OverwritesReachIntoWindows) {
  Builder b;
  const ValueNo x = b.value(Role::input, 64, 0);
  const ValueNo c = b.temp(640), r = b.temp(640), d = b.temp(320), all = b.temp(960), y = b.value(Role::output, 64, 0);
  b.step({x}, {c});
  b.relu(c, r);
  b.step({x}, {d});
  b.step({r, d}, {all}).windows = {{r, all, 0}, {d, all, 640}};
  b.step({all}, {y});
  const Plan plan = b.made();
  EXPECT_EQ(plan.peak, 960);
  EXPECT_TRUE(plan.overwrite_honoured(1, 0));
  EXPECT_EQ(plan.values[c].place, Place::under);
}

TEST(Planner, NoOverwriteOfWhatIsStillNeeded) {
  Builder b;
  const ValueNo x = b.value(Role::input, 256, 0), t = b.temp(256), view = b.temp(128), r = b.temp(256);
  const ValueNo twice = b.temp(256), larger = b.temp(512), y = b.value(Role::output, 64, 0);
  b.step({x}, {t});
  b.step({t}, {view}).aliases.push_back({view, t, 128});
  b.relu(t, r);  // the view is read later
  PlanStep& square = b.step({r, r}, {twice});
  square.may_overwrite = {{twice, r}};
  b.relu(twice, larger);  // does not fit
  b.step({view, larger}, {y});
  const Plan plan = b.made();
  EXPECT_FALSE(plan.overwrite_honoured(2, 0));
  EXPECT_FALSE(plan.overwrite_honoured(3, 0));
  EXPECT_FALSE(plan.overwrite_honoured(4, 0));
}

TEST(Planner, PiecesOfASplitAreOverwrittenOneByOne) {
  Builder b;
  const ValueNo x = b.value(Role::input, 256, 0), t = b.temp(256), s0 = b.temp(128), s1 = b.temp(128);
  const ValueNo r0 = b.temp(128), r1 = b.temp(128), y = b.value(Role::output, 64, 0);
  b.step({x}, {t});
  b.step({t}, {s0, s1}).aliases = {{s0, t, 0}, {s1, t, 128}};
  b.relu(s0, r0);
  b.relu(s1, r1);
  b.step({r0, r1}, {y});
  const Plan plan = b.made();
  EXPECT_TRUE(plan.overwrite_honoured(2, 0) && plan.overwrite_honoured(3, 0));
  EXPECT_EQ(plan.peak, 256);
}

TEST(Planner, UnknownSizesDoNotSpoilTheRest) {
  Builder b;
  const ValueNo x = b.value(Role::input, 64, 0), a = b.temp(1024), hits = b.temp(kUnknownSize);
  const ValueNo flat = b.temp(kUnknownSize), list = b.value(Role::object, 0), kept = b.value(Role::data_dependent, 512);
  const ValueNo c = b.temp(1024), y = b.value(Role::output, kUnknownSize, 0);
  b.step({x}, {a});
  b.step({a}, {hits});
  b.reshape(hits, flat);
  b.step({a}, {kept});
  b.step({kept}, {list});
  b.relu(a, c);
  b.step({flat, c, list}, {y});
  const Plan plan = b.made();
  EXPECT_EQ(plan.peak, 1024);
  EXPECT_EQ(plan.values[hits].arena, ArenaKind::side);
  EXPECT_EQ(plan.values[hits].role, Role::data_dependent);
  EXPECT_EQ(plan.values[flat].root, hits);
  EXPECT_EQ(plan.values[flat].index, hits);
  EXPECT_EQ(plan.values[kept].arena, ArenaKind::side);
  EXPECT_EQ(plan.values[list].arena, ArenaKind::none);
  EXPECT_EQ(plan.side_values, 2);
}

TEST(Planner, AnEscapingViewTakesItsSourceToTheSideArena) {
  Builder b;
  const ValueNo x = b.value(Role::input, 64, 0), t = b.temp(256), view = b.value(Role::data_dependent, 256);
  const ValueNo of_input = b.value(Role::data_dependent, 64), list = b.value(Role::object, 0);
  b.step({x}, {t});
  b.reshape(t, view);
  b.reshape(x, of_input);
  b.step({view, of_input}, {list});
  const Plan plan = b.made();
  EXPECT_EQ(plan.values[t].arena, ArenaKind::side);
  EXPECT_TRUE(plan.alias_honoured(1, 0));
  EXPECT_FALSE(plan.alias_honoured(2, 0)) << "the caller's memory is not counted";
}

TEST(Planner, ScratchLivesDuringItsStepOnly) {
  Builder b;
  const ValueNo x = b.value(Role::input, 64, 0), w1 = b.value(Role::scratch, 2048), a = b.temp(128);
  const ValueNo w2 = b.value(Role::scratch, 2048), y = b.value(Role::output, 64, 0);
  b.step({x}, {a, w1});
  b.step({a}, {y, w2});
  EXPECT_EQ(b.made().peak, 2048 + 128);
}

TEST(Planner, AlignmentIsOfTheAddressAndPaddingIsCounted) {
  Builder b;
  const ValueNo x = b.value(Role::input, 64, 0), a = b.temp(65), c = b.temp(64), view = b.temp(32);
  b.p.values[c].alignment = 256;
  b.step({x}, {a});
  b.step({x}, {c});
  b.step({c}, {view}).aliases.push_back({view, c, 32});
  b.step({a, view}, {b.value(Role::output, 4, 0)});
  const Plan plan = b.made();
  EXPECT_EQ(plan.values[c].offset % 256, 0);
  EXPECT_TRUE(plan.alias_honoured(2, 0)) << "a view lies where its step says";
  EXPECT_EQ(plan.lower_bound, 128 + 64);
  EXPECT_EQ(plan.padding, 63);
}

TEST(Planner, B25_PaddingIsUnderAHundredthWhereBuffersAreOver64KiB) {
  std::mt19937 random(25);
  for (const int alignment : {64, 256, 512}) {
    for (int round = 0; round < 4; ++round) {
      Builder b;
      std::vector<ValueNo> made = {b.value(Role::input, 64, 0)};
      for (int s = 0; s < 60; ++s) {
        const ValueNo v = b.temp((64 << 10) + 1 + static_cast<int64_t>(random() % (1 << 20)));
        b.p.values[v].alignment = alignment;
        b.step({made[made.size() - 1 - random() % std::min<size_t>(made.size(), 4)], made.back()}, {v});
        made.push_back(v);
      }
      b.step({made.back()}, {b.value(Role::output, 4, 0)});
      const Plan plan = b.made();
      EXPECT_GT(plan.padding, 0);
      EXPECT_LT(plan.padding * 100, plan.peak);
      // Nor does the slab lose more to gaps for the sake of addresses.
      int64_t needed = 0;
      for (size_t s = 0; s < b.p.steps.size(); ++s) {
        int64_t live = 0;
        for (size_t v = 0; v < plan.values.size(); ++v) {
          const ValuePlace& at = plan.values[v];
          const bool lives =
              at.first_step >= 0 && at.first_step <= static_cast<StepNo>(s) && static_cast<StepNo>(s) <= at.last_step;
          if (at.arena == ArenaKind::slab && at.place == Place::own && lives) live += at.bytes;
        }
        needed = std::max(needed, live);
      }
      EXPECT_LT(static_cast<double>(plan.peak), 1.01 * static_cast<double>(needed)) << alignment << " " << round;
    }
  }
}

TEST(Planner, EmptyTensorsTakeNoBytes) {
  Builder b;
  const ValueNo x = b.value(Role::input, 0, 0), a = b.temp(0), c = b.temp(0), y = b.value(Role::output, 0, 0);
  b.relu(x, a);
  b.step({a, a}, {c}).windows = {{a, c, 0}, {a, c, 0}};
  b.reshape(c, y);
  EXPECT_EQ(b.made().peak, 0);
}

// Two values of 640 bytes and one of 512 live at once: a slab of 1,792 bytes, or three regions.
TEST(Planner, B22_RegionsHoldValuesWhole) {
  Builder b;
  const ValueNo x = b.value(Role::input, 64, 0), a = b.temp(640), c = b.temp(640), d = b.temp(512);
  b.p.values[a].name = "wide";
  b.step({x}, {a});
  b.step({x}, {c});
  b.step({a, c}, {d});
  b.step({a, c, d}, {b.value(Role::output, 64, 0)});
  EXPECT_EQ(b.made().peak, 1792);
  EXPECT_EQ(b.made().region, 0);
  b.p.region_bytes = {1792};
  EXPECT_EQ(b.made().region, 0) << "all of it fits into one";
  b.p.region_bytes = {1024};
  for (const Effort effort : {Effort::load, Effort::replan, Effort::exact, Effort::slots, Effort::off}) {
    const Plan plan = b.made(effort);
    EXPECT_EQ(plan.region, 1024);
    EXPECT_EQ(plan.regions(), 3);
    EXPECT_EQ(plan.lower_bound, 1792);
  }
  EXPECT_EQ(b.made().peak, 2560);
  b.p.region_bytes = {640};
  EXPECT_EQ(b.made().peak, 1792) << "each has a region of its own";
  EXPECT_EQ(b.made().regions(), 3);
  b.p.region_bytes = {576};
  EXPECT_THAT(b.refusal(), HasSubstr("%1 wide takes 640 bytes, more than a region of 576 bytes has; the least regions "
                                     "that do have 640 bytes each"));
  b.p.region_bytes = {1000};
  EXPECT_THAT(b.refusal(), HasSubstr("1000 bytes are no multiple of 64"));
}

TEST(Planner, OffSharesNothing) {
  Builder b;
  const ValueNo x = b.value(Role::input, 64, 0), a = b.temp(100), c = b.temp(100), d = b.temp(100);
  const ValueNo y = b.value(Role::output, 100, 0);
  b.step({x}, {a});
  b.relu(a, c);
  b.reshape(c, d);
  b.reshape(d, y);
  const Plan plan = b.made(Effort::off);
  EXPECT_EQ(plan.peak, 3 * 128);
  EXPECT_EQ(plan.peak, plan.naive);
  EXPECT_FALSE(plan.alias_honoured(2, 0));
}

TEST(Planner, RefusesMalformedProblems) {
  struct Case {
    const char* what;
    void (*spoil)(Builder&);
    const char* message;
  };
  const Case cases[] = {
      {"unknown read", [](Builder& b) { b.p.steps[1].reads.push_back(99); }, "reads unknown value 99"},
      {"negative read", [](Builder& b) { b.p.steps[1].reads.push_back(-1); }, "reads unknown value -1"},
      {"unknown write", [](Builder& b) { b.p.steps[1].writes.push_back(99); }, "writes unknown value 99"},
      {"written twice", [](Builder& b) { b.p.steps[1].writes.push_back(1); }, "is written by #0 and by #1"},
      {"input written", [](Builder& b) { b.p.steps[1].writes.push_back(0); }, "of role input"},
      {"read early", [](Builder& b) { b.p.steps[0].reads.push_back(2); }, "before a step has written it"},
      {"reads itself", [](Builder& b) { b.p.steps[1].reads.push_back(2); }, "before a step has written it"},
      {"alignment", [](Builder& b) { b.p.values[1].alignment = 48; }, "not a power of two"},
      {"granule", [](Builder& b) { b.p.granule = 0; }, "not a power of two"},
      {"bytes", [](Builder& b) { b.p.values[1].bytes = -2; }, "-2 bytes"},
      {"huge", [](Builder& b) { b.p.values[1].bytes = INT64_MAX; }, "2^60"},
      {"huge sum", [](Builder& b) { b.p.values[1].bytes = b.p.values[2].bytes = int64_t{1} << 60; }, "2^60"},
      {"lane", [](Builder& b) { b.p.steps[1].lane = 1; }, "lane 1"},
      {"no lanes", [](Builder& b) { b.p.lanes = 0; }, "at least one lane"},
      {"view beyond",
       [](Builder& b) {
         b.p.steps[1].aliases.push_back({2, 1, 32});
       },
       "leaves"},
      {"view before",
       [](Builder& b) {
         b.p.steps[1].aliases.push_back({2, 1, -32});
       },
       "at offset -32"},
      {"view far",
       [](Builder& b) {
         b.p.steps[1].aliases.push_back({2, 1, INT64_MAX});
       },
       "leaves"},
      {"foreign view",
       [](Builder& b) {
         b.p.steps[1].aliases.push_back({2, 0, 0});
       },
       "not its input and output"},
      {"foreign overwrite",
       [](Builder& b) {
         b.p.steps[1].may_overwrite.push_back({1, 2});
       },
       "not its input and output"},
      {"window",
       [](Builder& b) {
         b.p.steps[1].windows.push_back({1, 2, 64});
       },
       "leaves"},
      {"number", [](Builder& b) { b.p.values[3].index = 7; }, "number 7"},
      {"wait", [](Builder& b) { b.p.lanes = 2, b.p.steps[1].waits = {0}; }, "no earlier step gives"},
      {"unordered", [](Builder& b) { b.p.lanes = 2, b.p.steps[1].lane = 1; }, "without waiting for #0"},
  };
  for (const Case& c : cases) {
    Builder b;
    const ValueNo x = b.value(Role::input, 64, 0), a = b.temp(64), d = b.temp(64), y = b.value(Role::output, 64, 0);
    b.step({x}, {a});
    b.step({a}, {d});
    b.step({d}, {y});
    ASSERT_EQ(b.refusal(), "accepted");
    c.spoil(b);
    EXPECT_THAT(b.refusal(), HasSubstr(c.message)) << c.what;
  }
}

}  // namespace
}  // namespace forethought
