// Bodies of control flow: nested slabs, loop state in two buffers, programs that change from trip to trip.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "exec/program_builder_for_tests.h"

namespace forethought {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Value floats(std::vector<float> v) { return tensor_of<float>({static_cast<int64_t>(v.size())}, v); }

Tensor borrowed(const Arg& arg, void* data) {
  Tensor t;
  t.dtype = arg.dtype;
  t.dims.assign(arg.dims().begin(), arg.dims().end());
  t.data = data;
  return t;
}

// Body: state' = (state + x) + x, with an intermediate in its slab.
std::shared_ptr<const Program> body_program(int64_t n) {
  ProgramBuilder b;
  const int32_t state = b.input("state", DType::kFloat, {n});
  const int32_t x = b.input("x", DType::kFloat, {n});
  const int32_t t = b.slab(64, DType::kFloat, {n});
  b.step("inner a (Add)", {state, x}, {t}, add_f32);
  b.step("inner b (Add)", {t, x}, {b.output("next", DType::kFloat, {n})}, add_f32);
  return b.done();
}

// Runs body 0 `trips` times with the state swapped between two halves of the scratch; the last trip writes the output.
Status loop(RunCtx& c, int trips) {
  const Arg &start = c.in(0), &x = c.in(1), &y = c.out(0);
  void* current = start.data;
  for (int i = 0; i < trips; ++i) {
    void* const next = i + 1 == trips ? y.data : c.scratch() + (i % 2) * 1024;
    const std::vector<BodyValue> inputs{Value(borrowed(start, current)), Value(borrowed(x, x.data))};
    std::vector<BodyValue> outputs{Value(borrowed(y, next))};
    RETURN_IF_ERROR(c.host->run_body(0, inputs, outputs));
    EXPECT_EQ(outputs[0].tensor().data, next);
    current = next;
  }
  return absl::OkStatus();
}

struct LoopProgram {
  explicit LoopProgram(int64_t n, bool planned, int trips = 5)
      : body(body_program(n)),
        source([this](std::span<const Value>) -> StatusOr<std::shared_ptr<const Program>> { return body; }) {
    ProgramBuilder b;
    const int32_t x = b.input("x", DType::kFloat, {n});
    const int32_t t = b.slab(0, DType::kFloat, {n});
    const int32_t y = b.output("y", DType::kFloat, {n});
    b.step("a (Add)", {x, x}, {t}, add_f32);
    ProgramStep& s = b.step("loop (Loop)", {t, x}, {y}, [trips](RunCtx& c) { return loop(c, trips); });
    s.scratch_offset = 4096;
    s.scratch_shared = 2048;
    s.extras.write().bodies = {{&source, planned ? 8192 : -1, planned ? body->slab_bytes : 0}};
    b.reserve_slab(8192 + body->slab_bytes);
    program = b.done();
  }
  std::shared_ptr<const Program> body;
  LambdaSource source;
  std::shared_ptr<const Program> program;
};

TEST(Body, RunsNestedInTheSlabOfItsParentOrInOneOfItsOwn) {
  for (const bool planned : {true, false}) {
    const LoopProgram loop(3, planned);
    TestExecutor e;
    for (int repeat = 0; repeat < 3; ++repeat) {
      EXPECT_THAT(values_of<float>(e.run(loop.program, {floats({1, 2, 3})}).value()[0]), ElementsAre(12, 24, 36));
    }
    const auto planned_use = e.budget->statistics().of(MemoryRole::planned);
    EXPECT_EQ(planned_use.live, 0);
    EXPECT_EQ(planned_use.retained, planned ? 12288 : 12288 + 4096);
    EXPECT_EQ(e.budget->statistics().of(MemoryRole::unplanned).retained, 0);
  }
}

TEST(Body, TheSinkSeesItsDepth) {
  const LoopProgram loop(3, true, 2);
  TestExecutor e;
  ProfileRecorder recorder;
  ASSERT_TRUE(e.run(loop.program, {floats({1, 2, 3})}, {.sink = &recorder}).ok());
  std::vector<int32_t> depths;
  for (const auto& entry : recorder.take()) depths.push_back(entry.depth);
  EXPECT_THAT(depths, ElementsAre(0, 1, 1, 1, 1, 0));
}

// The state grows by one element a trip: a program for each length, results in the side arena, sizes unknown at load.
TEST(Body, ProgramsMayChangeFromTripToTrip) {
  std::map<int64_t, std::shared_ptr<const Program>> programs;
  LambdaSource source([&](std::span<const Value> inputs) -> StatusOr<std::shared_ptr<const Program>> {
    const int64_t n = inputs[0].tensor().dims[0];
    auto& program = programs[n];
    if (!program) {
      ProgramBuilder b;
      const int32_t state = b.input("state", DType::kFloat, {n});
      const int32_t twice = b.slab(0, DType::kFloat, {n});
      b.step("add (Add)", {state, state}, {twice}, add_f32);
      b.step("grow (Grow)", {twice}, {b.output("next", DType::kFloat, {n + 1})}, [n](RunCtx& c) {
        std::copy_n(c.in_as<float>(0), n, c.out_as<float>(0));
        c.out_as<float>(0)[n] = 1;
        return absl::OkStatus();
      });
      program = b.done();
    }
    return program;
  });
  ProgramBuilder b;
  const int32_t x = b.input("x", DType::kFloat, {1});
  const int32_t y = b.unknown(b.output("y", DType::kFloat, {}));
  ProgramStep& s = b.step("loop (Loop)", {x}, {y}, [](RunCtx& c) {
    Value state(borrowed(c.in(0), c.in(0).data));
    for (int i = 0; i < 7; ++i) {
      std::vector<BodyValue> outputs(1);
      RETURN_IF_ERROR(c.host->run_body(0, std::vector<BodyValue>{state}, outputs));
      state = std::move(outputs[0]);
    }
    return c.host->set_output(0, std::move(state));
  });
  s.sized_at_run = 1;
  s.extras.write().bodies = {{&source}};
  const auto program = b.done();
  TestExecutor e;
  for (int repeat = 0; repeat < 3; ++repeat) {
    const Value result = e.run(program, {floats({1})}).value()[0];
    EXPECT_THAT(values_of<float>(result), ElementsAre(128, 64, 32, 16, 8, 4, 2, 1));
  }
  EXPECT_EQ(e.budget->statistics().of(MemoryRole::unplanned).live, 0);
}

TEST(Body, AnErrorNamesTheWholePath) {
  LambdaSource failing([](std::span<const Value>) -> StatusOr<std::shared_ptr<const Program>> {
    ProgramBuilder b;
    b.input("x", DType::kFloat, {1});
    b.step("inner (Bad)", {}, {}, [](RunCtx&) { return invalid("no"); });
    return b.done();
  });
  ProgramBuilder b;
  const int32_t x = b.input("x", DType::kFloat, {1});
  b.step("if (If)", {x}, {},
         [](RunCtx& c) {
           const std::vector<BodyValue> inputs{Value(borrowed(c.in(0), c.in(0).data))};
           return c.host->run_body(0, inputs, {});
         })
      .extras.write()
      .bodies = {{&failing}};
  TestExecutor e;
  const Status status = e.run(b.done(), {floats({1})}).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("if (If)"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("inner (Bad)"));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
}

// Objects pass through a body; a passthrough output of a body is a copy, so that loop state is never shared by
// accident.
TEST(Body, PassesObjectsAndCopiesWhatIsPassedThrough) {
  LambdaSource source([](std::span<const Value>) -> StatusOr<std::shared_ptr<const Program>> {
    ProgramBuilder b;
    const int32_t x = b.input("x", DType::kFloat, {1});
    const int32_t s = b.input("s", DType::kUndefined, {});
    b.value(s).kind = ValueType::Kind::sequence;
    b.value(s).known = false;
    b.list_output(x);
    b.list_output(s);
    return b.done();
  });
  ProgramBuilder b;
  const int32_t x = b.input("x", DType::kFloat, {1});
  const int32_t y = b.unknown(b.output("y", DType::kFloat, {}));
  ProgramStep& s = b.step("if (If)", {x}, {y}, [](RunCtx& c) {
    auto sequence = std::make_shared<Sequence>();
    const std::vector<BodyValue> inputs{Value(borrowed(c.in(0), c.in(0).data)),
                                        Value(std::shared_ptr<const Sequence>(sequence))};
    std::vector<BodyValue> outputs(2);
    RETURN_IF_ERROR(c.host->run_body(0, inputs, outputs));
    EXPECT_EQ(outputs[1].sequence(), sequence.get());
    EXPECT_NE(outputs[0].tensor().data, c.in(0).data);
    return c.host->set_output(0, std::move(outputs[0]));
  });
  s.sized_at_run = 1;
  s.extras.write().bodies = {{&source}};
  TestExecutor e;
  EXPECT_THAT(values_of<float>(e.run(b.done(), {floats({5})}).value()[0]), ElementsAre(5));
}

}  // namespace
}  // namespace forethought
