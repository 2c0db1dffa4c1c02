// The shadow of a run: silent where a program is right, and loud for each way in which one can be wrong.
#include "exec/shadow.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
  EXPECT_THAT(watch(chain.b.done(), std::byte{0xff}).faults,
              ElementsAre("step third finds 'a' spoilt", "step third finds 'a' spoilt"));
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
  chain.b.program().steps[0].inputs[1] = chain.b.program().inputs[0];
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

}  // namespace
}  // namespace forethought
