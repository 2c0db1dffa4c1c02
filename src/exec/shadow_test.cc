// The shadow of a run: silent where a program is right, and loud for each way in which one can be wrong.
#include "exec/shadow.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "exec/program_builder_for_tests.h"

namespace forethought {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int64_t kElements = 16;

Value filled(float with) {
  static std::vector<std::vector<float>> kept;
  kept.emplace_back(kElements, with);
  Tensor t;
  t.dtype = DType::kFloat;
  t.dims = {kElements};
  t.data = kept.back().data();
  return t;
}

// a = x + x, b = x + a, y = a + b, with a and b at these offsets.
struct Chain {
  Chain(int64_t at_a, int64_t at_b, std::function<Status(RunCtx&)> second = add_f32) {
    const int32_t x = b.input("x", DType::kFloat, {kElements});
    const int32_t a = b.slab(at_a, DType::kFloat, {kElements}), c = b.slab(at_b, DType::kFloat, {kElements});
    b.value(a).name = "a";
    b.value(c).name = "b";
    const int32_t y = b.output("y", DType::kFloat, {kElements});
    b.step("first", {x, x}, {a}, add_f32);
    b.step("second", {x, a}, {c}, std::move(second));
    b.step("third", {a, c}, {y}, add_f32);
    b.reserve_slab(512);
  }
  ProgramBuilder b;
};

struct Watched {
  std::vector<std::string> faults;
  std::vector<float> result;
};

Watched watch(const std::shared_ptr<const Program>& program, std::byte poison) {
  TestExecutor e;
  ShadowSink shadow(poison);
  ExecOptions options;
  options.sink = &shadow;
  Watched w;
  for (int run = 0; run < 2; ++run) {
    const auto outputs = e.run(program, {filled(1)}, options);
    EXPECT_TRUE(outputs.ok()) << outputs.status();
    w.result = values_of<float>((*outputs)[0]);
  }
  EXPECT_EQ(shadow.steps_watched(), 2 * static_cast<int64_t>(program->steps.size()));
  w.faults = shadow.faults();
  return w;
}

TEST(Shadow, IsSilentWhereNothingIsWrong) {
  for (const auto& [a, b] : {std::pair(0, 64), std::pair(192, 0)}) {
    Chain chain(a, b);
    for (const auto poison : {std::byte{0xff}, std::byte{0x5a}}) {
      const Watched w = watch(chain.b.done(), poison);
      EXPECT_THAT(w.faults, IsEmpty());
      EXPECT_EQ(w.result, std::vector<float>(kElements, 5));
    }
  }
}

TEST(Shadow, NoticesAValueOnTopOfALiveOne) {
  Chain chain(0, 32);
  const char* const taken = "step second writes over 'a' and is not surely behind step third, which reads it";
  EXPECT_THAT(watch(chain.b.done(), std::byte{0xff}).faults,
              ElementsAre(taken, "step third finds 'a' spoilt", taken, "step third finds 'a' spoilt"));
}

TEST(Shadow, NoticesAWriteOutsideTheOutputs) {
  Chain chain(0, 64, [](RunCtx& c) {
    c.out_as<float>(0)[kElements] = 7;  // one too many
    return add_f32(c);
  });
  EXPECT_THAT(watch(chain.b.done(), std::byte{0xff}).faults,
              ElementsAre(HasSubstr("step second wrote at byte 128"), HasSubstr("step second wrote at byte 128")));
}

TEST(Shadow, NoticesAReadOfWhatIsNotMade) {
  Chain chain(0, 64);
  std::swap(chain.b.program().steps[0], chain.b.program().steps[1]);
  const int32_t twice[] = {chain.b.program().steps[0].inputs[0], chain.b.program().inputs[0]};
  chain.b.program().steps[0].inputs = twice;
  std::swap(chain.b.program().steps[1], chain.b.program().steps[2]);
  EXPECT_THAT(watch(chain.b.done(), std::byte{0xff}).faults,
              testing::Contains("step third reads 'a', which no step has made"));
}

TEST(Shadow, AReadOfDeadBytesShowsInTheResult) {
  Chain chain(0, 64, [](RunCtx& c) {
    const Status status = add_f32(c);
    c.out_as<float>(0)[0] += c.out_as<float>(0)[3 * kElements];  // of nobody
    return status;
  });
  EXPECT_NE(watch(chain.b.done(), std::byte{0x11}).result, watch(chain.b.done(), std::byte{0x5a}).result);
}

// a = x + x on lane 0; b = a + a on lane 1; c = 3 x on lane 0, then y = b + c. c may have a's bytes once b is over.
struct TwoLanes {
  TwoLanes(bool b_waits_for_a, bool c_waits_for_b) {
    const int32_t x = p.input("x", DType::kFloat, {kElements});
    const int32_t a = p.slab(0, DType::kFloat, {kElements}), b = p.slab(64, DType::kFloat, {kElements}),
                  c = p.slab(0, DType::kFloat, {kElements});
    p.value(a).name = "a";
    p.value(b).name = "b";
    p.value(c).name = "c";
    const int32_t y = p.output("y", DType::kFloat, {kElements});
    p.step("a", {x, x}, {a}, add_f32).extras.write().signals = {0};
    ProgramStep& second = p.step("b", {a, a}, {b}, add_f32);
    second.lane = 1;
    second.extras.write().signals = {1};
    if (b_waits_for_a) second.extras.write().waits = {0};
    ProgramStep& third = p.step("c", {x}, {c}, [](RunCtx& run) {
      for (int64_t i = 0; i < kElements; ++i) run.out_as<float>(0)[i] = 3 * run.in_as<float>(0)[i];
      return absl::OkStatus();
    });
    if (c_waits_for_b) third.extras.write().waits = {1};
    p.step("y", {b, c}, {y}, add_f32).extras.write().waits = {1};
    p.program().lanes = 2;
    p.program().notifications = 2;
  }
  ProgramBuilder p;
};

TEST(Shadow, KnowsTheOrderOfLanes) {
  for (int round = 0; round < 20; ++round) {
    TwoLanes right(true, true);
    const Watched w = watch(right.p.done(), std::byte{0x5a});
    EXPECT_THAT(w.faults, IsEmpty());
    EXPECT_EQ(w.result, std::vector<float>(kElements, 7));
  }
}

// Whatever came first this time.
TEST(Shadow, NoticesWaitsThatAreMissing) {
  TwoLanes unordered_read(false, true), unordered_write(true, false);
  EXPECT_THAT(watch(unordered_read.p.done(), std::byte{0x5a}).faults,
              testing::Contains("step b reads 'a' and is not surely behind step a, which makes it"));
  EXPECT_THAT(watch(unordered_write.p.done(), std::byte{0x5a}).faults,
              testing::Contains("step c writes over 'a' and is not surely behind step b, which reads it"));
}

// Whichever of the two lanes comes first: the scratch is gone without a trace where the value comes later.
TEST(Shadow, NoticesScratchWhereAnotherLaneHasAValue) {
  for (const bool waits : {false, true}) {
    for (const int64_t at : {int64_t{0}, int64_t{128}}) {
      ProgramBuilder p;
      const int32_t x = p.input("x", DType::kFloat, {kElements});
      const int32_t a = p.slab(0, DType::kFloat, {kElements}), b = p.slab(64, DType::kFloat, {kElements});
      p.value(a).name = "a";
      p.step("a", {x, x}, {a}, add_f32).extras.write().signals = {0};
      ProgramStep& other = p.step("b", {x, x}, {b}, [](RunCtx& c) {
        std::fill_n(static_cast<std::byte*>(c.scratch_data), c.scratch_shared, std::byte{1});
        return add_f32(c);
      });
      other.lane = 1;
      other.scratch_offset = at;
      other.scratch_shared = 64;
      other.extras.write().signals = {1};
      if (waits) other.extras.write().waits = {0};
      ProgramStep& last = p.step("y", {b, x}, {p.output("y", DType::kFloat, {kElements})}, add_f32);
      last.extras.write().waits = {1};
      p.reserve_slab(192);
      p.program().lanes = p.program().notifications = 2;
      const auto faults = watch(p.done(), std::byte{0x5a}).faults;
      if (waits || at == 128) {
        EXPECT_THAT(faults, IsEmpty());
      } else {
        EXPECT_THAT(faults, testing::Contains("step b has scratch or a body where step a has 'a'"));
      }
    }
  }
}

TEST(Shadow, NoticesScratchOnTopOfWhatItsOwnStepReads) {
  Chain chain(0, 64);
  chain.b.program().steps[1].scratch_offset = 0;
  chain.b.program().steps[1].scratch_shared = 64;
  EXPECT_THAT(watch(chain.b.done(), std::byte{0x5a}).faults,
              testing::Contains("step second has scratch or a body where step second has 'a'"));
}

// s, whose size only the run tells, is read on two lanes.
struct SizedAtRun {
  explicit SizedAtRun(std::function<Status(RunCtx&)> third = add_f32) {
    const int32_t x = p.input("x", DType::kFloat, {kElements});
    const int32_t s = p.unknown(p.side("s", DType::kFloat, {kElements}));
    const int32_t t = p.slab(0, DType::kFloat, {kElements});
    const int32_t y = p.output("y", DType::kFloat, {kElements}), z = p.output("z", DType::kFloat, {kElements});
    ProgramStep& first = p.step("find", {x}, {s}, [](RunCtx& c) -> Status {
      ASSIGN_OR_RETURN(void* data, c.host->output(0, c.in(0).dims()));
      std::copy_n(c.in_as<float>(0), kElements, static_cast<float*>(data));
      return absl::OkStatus();
    });
    first.sized_at_run = 1;
    first.extras.write().signals = {0};
    p.step("second", {s, x}, {t}, add_f32);
    ProgramStep& other = p.step("third", {s, x}, {y}, std::move(third));
    other.lane = 1;
    other.extras.write().waits = {0};
    other.extras.write().signals = {1};
    ProgramStep& last = p.step("last", {s, t}, {z}, add_f32);
    last.extras.write().waits = {1};
    last.extras.write().release_after = {s};
    p.program().lanes = 2;
    p.program().notifications = 2;
  }
  ProgramBuilder p;
};

TEST(Shadow, WatchesValuesWhoseSizeOnlyTheRunTells) {
  SizedAtRun right;
  EXPECT_THAT(watch(right.p.done(), std::byte{0x5a}).faults, IsEmpty());
  SizedAtRun spoilt([](RunCtx& c) {
    const Status status = add_f32(c);
    const_cast<float*>(c.in_as<float>(0))[1] = 9;
    return status;
  });
  EXPECT_THAT(watch(spoilt.p.done(), std::byte{0x5a}).faults,
              testing::Contains("'s' was spoilt while step third read it"));
}

TEST(Shadow, WatchesWhatGoesBackTooEarly) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer ends this program before the shadow can speak";
#endif
  SizedAtRun released;
  released.p.program().steps[3].extras.write().waits.clear();
  EXPECT_THAT(watch(released.p.done(), std::byte{0x5a}).faults,
              testing::Contains("step last gives back 's' and is not surely behind step third, which reads it"));
}

}  // namespace
}  // namespace forethought
