// Runs of the executor: binding, outputs, memory, sizes known only at run, errors, concurrency.
#include "exec/executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <stdexcept>
#include <thread>

#include "exec/program_builder_for_tests.h"
#include "memory/memory_calls_testing.h"
#include "memory/system.h"
#include "threading/cancel_flag.h"

namespace forethought {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Value floats(std::vector<float> v) { return tensor_of<float>({static_cast<int64_t>(v.size())}, v); }

Status add_f32_to_itself(RunCtx& c) {
  for (int64_t i = 0; i < c.in(0).elements; ++i) c.out_as<float>(0)[i] = 2 * c.in_as<float>(0)[i];
  return absl::OkStatus();
}

// y = ((x + w) + w) + x, with the intermediates in the slab.
std::shared_ptr<const Program> small_chain(int64_t n) {
  ProgramBuilder b;
  const int32_t x = b.input("x", DType::kFloat, {n});
  const int32_t w = b.weight(tensor_of<float>({n}, std::vector<float>(n, 10.0f)));
  const int32_t t0 = b.slab(0, DType::kFloat, {n}), t1 = b.slab(n * 4 + 64, DType::kFloat, {n});
  const int32_t y = b.output("y", DType::kFloat, {n});
  b.step("a (Add)", {x, w}, {t0}, add_f32);
  b.step("b (Add)", {t0, w}, {t1}, add_f32);
  b.step("c (Add)", {t1, x}, {y}, add_f32);
  return b.done();
}

TEST(Executor, FollowsInputsThatMoveAndWritesIntoMemoryThatIsGiven) {
  TestExecutor e;
  const auto program = small_chain(3);
  EXPECT_THAT(values_of<float>(e.run(program, {floats({1, 2, 3})}).value()[0]), ElementsAre(22, 24, 26));
  const Value other = floats({-1, 0, 1});
  EXPECT_THAT(values_of<float>(e.run(program, {other}).value()[0]), ElementsAre(18, 20, 22));
  std::vector<Value> outputs{floats({0, 0, 0})};
  void* const memory = outputs[0].tensor().data;
  ASSERT_TRUE(e.executor->run(program, std::vector<Value>{other}, outputs).ok());
  EXPECT_EQ(outputs[0].tensor().data, memory);
  EXPECT_THAT(values_of<float>(outputs[0]), ElementsAre(18, 20, 22));
  outputs[0] = floats({0, 0});  // too small: replaced
  ASSERT_TRUE(e.executor->run(program, std::vector<Value>{other}, outputs).ok());
  EXPECT_THAT(values_of<float>(outputs[0]), ElementsAre(18, 20, 22));
  EXPECT_THAT(values_of<float>(other), ElementsAre(-1, 0, 1));
}

TEST(Executor, SteadyRunsDoNoHeapWorkAndNoSystemCall) {
  TestExecutor e;
  const auto small = small_chain(16), large = small_chain(20000);
  const std::vector<Value> a{floats(std::vector<float>(16, 1))}, b{floats(std::vector<float>(20000, 1))};
  std::vector<Value> outputs(1);
  const auto round = [&] {
    for (const auto* program : {&small, &large}) {
      outputs[0] = Value();
      ASSERT_TRUE(e.executor->run(*program, program == &small ? a : b, outputs).ok());
    }
  };
  round();
  const int64_t system_before = e.budget->statistics().system_calls;
  MemoryCallRecorder recorder;
  recorder.start();
  for (int i = 0; i < 100; ++i) round();
  recorder.stop();
  EXPECT_TRUE(recorder.ours().none()) << recorder.first_of_ours();
  EXPECT_EQ(e.budget->statistics().system_calls, system_before);
  EXPECT_EQ(e.budget->statistics().of(MemoryRole::planned).live, 0);
}

TEST(Executor, SteadyRunsOfBodiesAndOfUnknownSizesDoNoHeapWorkEither) {
  const auto body = small_chain(8);
  LambdaSource source([&](std::span<const Value>) -> StatusOr<std::shared_ptr<const Program>> { return body; });
  ProgramBuilder b;
  const int32_t x = b.input("x", DType::kFloat, {8});
  const int32_t found = b.unknown(b.side("found", DType::kFloat, {}));
  const int32_t y = b.unknown(b.output("y", DType::kFloat, {}));
  b.step("find (Find)", {x}, {found}, [](RunCtx& c) {
     const int64_t dims[] = {8};
     RETURN_IF_ERROR(c.host->output(0, dims).status());
     return add_f32_to_itself(c);
   }).sized_at_run = 1;
  ProgramStep& s = b.step("if (If)", {found}, {y}, [](RunCtx& c) {
    Tensor in;
    in.dtype = DType::kFloat;
    in.dims.assign(c.in(0).dims().begin(), c.in(0).dims().end());
    in.data = c.in(0).data;
    const Value inputs[] = {Value(in)};
    Value outputs[1];
    RETURN_IF_ERROR(c.host->run_body(0, inputs, outputs));
    return c.host->set_output(0, std::move(outputs[0]));
  });
  s.sized_at_run = 1;
  s.extras.write().bodies = {{&source, 0, body->slab_bytes}};
  s.extras.write().release_after = {found};
  b.reserve_slab(body->slab_bytes);
  const auto program = b.done();
  TestExecutor e;
  const std::vector<Value> inputs{floats(std::vector<float>(8, 1))};
  std::vector<Value> outputs(1);
  const auto run = [&] {
    outputs[0] = Value();
    ASSERT_TRUE(e.executor->run(program, inputs, outputs).ok());
  };
  run();
  EXPECT_EQ(values_of<float>(outputs[0])[7], 24);
  const int64_t system_before = e.budget->statistics().system_calls;
  MemoryCallRecorder recorder;
  recorder.start();
  for (int i = 0; i < 100; ++i) run();
  recorder.stop();
  EXPECT_TRUE(recorder.ours().none()) << recorder.first_of_ours();
  EXPECT_EQ(e.budget->statistics().system_calls, system_before);
}

TEST(Executor, ProgramsShareOneSlabOfTheLargestPlan) {
  TestExecutor e;
  for (int64_t n : {100, 5000, 20, 3000}) {
    ASSERT_TRUE(e.run(small_chain(n), {floats(std::vector<float>(n, 1))}).ok());
  }
  const auto planned = e.budget->statistics().of(MemoryRole::planned);
  const int64_t largest = (small_chain(5000)->slab_bytes + page_size() - 1) / page_size() * page_size();
  EXPECT_EQ(planned.retained, largest);
  EXPECT_EQ(e.executor->trim(), largest);
  EXPECT_EQ(e.budget->statistics().of(MemoryRole::planned).retained, 0);
  EXPECT_THAT(values_of<float>(e.run(small_chain(1), {floats({1})}).value()[0]), ElementsAre(22));
}

TEST(Executor, OutputsOutliveTheExecutorAndItsPools) {
  std::vector<Value> kept;
  {
    TestExecutor e;
    const auto program = small_chain(2);
    for (int i = 0; i < 20; ++i) {
      const auto x = static_cast<float>(i);
      kept.push_back(e.run(program, {floats({x, x})}).value()[0]);
    }
  }
  for (int i = 0; i < 20; ++i) EXPECT_THAT(values_of<float>(kept[i]), ElementsAre(20 + 2 * i, 20 + 2 * i));
}

// y = indices of the positive elements, z = twice y through a step whose shape is known only then.
Status positive_indices(RunCtx& c) {
  int64_t count = 0;
  for (int64_t i = 0; i < c.in(0).elements; ++i) count += c.in_as<float>(0)[i] > 0;
  ASSIGN_OR_RETURN(void* data, c.host->output(0, std::vector<int64_t>{count}));
  auto* y = static_cast<int64_t*>(data);
  for (int64_t i = 0; i < c.in(0).elements; ++i) {
    if (c.in_as<float>(0)[i] > 0) *y++ = i;
  }
  return absl::OkStatus();
}

// Every dynamic step: one output of the first input's shape and type, by the kernel of its node.
struct LikeInput final : StepResolver {
  StatusOr<ResolvedStep> resolve(int32_t node, std::span<const Arg> inputs, std::span<const Arg> outputs) override {
    ++calls;
    const auto dims = inputs[0].dims();
    ResolvedStep r;
    r.output_dims = {Dims(dims.begin(), dims.end())};
    r.output_known = {true};
    r.output_dtypes = {inputs[0].dtype};
    r.facts = facts;
    r.facts.instance = kernel;
    return r;
  }
  int calls = 0;
  KernelFacts facts;
  std::shared_ptr<const Runnable> kernel;
};

Status double_i64(RunCtx& c) {
  for (int64_t i = 0; i < c.in(0).elements; ++i) c.out_as<int64_t>(0)[i] = 2 * c.in_as<int64_t>(0)[i];
  return absl::OkStatus();
}

TEST(Executor, SizesThatOnlyTheRunTells) {
  LikeInput resolver;
  resolver.facts.scratch_shared = 100;
  resolver.facts.scratch_per_worker = 10;
  resolver.kernel = std::make_shared<LambdaKernel>([](RunCtx& c) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(c.scratch()) % 64, 0u);
    c.scratch()[99] = std::byte{1};
    c.worker_scratch(c.host->workers() - 1)[9] = std::byte{1};
    return double_i64(c);
  });
  ProgramBuilder b;
  const int32_t x = b.input("x", DType::kFloat, {4});
  const int32_t found = b.unknown(b.side("found", DType::kInt64, {}));
  const int32_t twice = b.unknown(b.side("twice", DType::kInt64, {}));
  const int32_t y = b.unknown(b.output("y", DType::kInt64, {}));
  b.step("nz (NonZero)", {x}, {found}, positive_indices).sized_at_run = 1;
  b.step("t (Double)", {found}, {twice}, nullptr).extras.write().release_after = {found};
  b.step("u (Double)", {twice}, {y}, nullptr).extras.write().release_after = {twice};
  b.program().resolver = &resolver;
  const auto program = b.done();
  TestExecutor e;
  EXPECT_THAT(values_of<int64_t>(e.run(program, {floats({1, -1, 1, 1})}).value()[0]), ElementsAre(0, 8, 12));
  EXPECT_THAT(values_of<int64_t>(e.run(program, {floats({-1, -1, -1, 1})}).value()[0]), ElementsAre(12));
  const Value none = e.run(program, {floats({0, 0, 0, 0})}).value()[0];
  EXPECT_THAT(none.tensor().dims, ElementsAre(0));
  EXPECT_EQ(resolver.calls, 6);
  EXPECT_EQ(e.budget->statistics().of(MemoryRole::unplanned).live, 0);

  // Into the caller's memory where it has the right size.
  std::vector<Value> outputs{tensor_of<int64_t>({2}, {0, 0})};
  void* const memory = outputs[0].tensor().data;
  ASSERT_TRUE(e.executor->run(program, std::vector<Value>{floats({0, 1, 1, 0})}, outputs).ok());
  EXPECT_EQ(outputs[0].tensor().data, memory);
  EXPECT_THAT(values_of<int64_t>(outputs[0]), ElementsAre(4, 8));
  ASSERT_TRUE(e.executor->run(program, std::vector<Value>{floats({0, 1, 1, 1})}, outputs).ok());
  EXPECT_NE(outputs[0].tensor().data, memory);
  EXPECT_THAT(values_of<int64_t>(outputs[0]), ElementsAre(4, 8, 12));
}

TEST(Executor, ADynamicViewSharesBytesThatStayAndCopiesOthers) {
  LikeInput resolver;
  resolver.facts.aliases.push_back({0, 0, 0});
  int copies = 0;
  resolver.kernel = std::make_shared<LambdaKernel>([&](RunCtx& c) {
    if (!c.aliased(0, 0)) {
      ++copies;
      std::copy_n(c.in_as<float>(0), c.in(0).elements, c.out_as<float>(0));
    }
    return absl::OkStatus();
  });
  for (const bool from_slab : {false, true}) {
    for (const bool to_output : {false, true}) {
      ProgramBuilder b;
      const int32_t x = b.input("x", DType::kFloat, {2});
      const int32_t t = from_slab ? b.slab(0, DType::kFloat, {2}) : b.side("t", DType::kFloat, {2});
      const int32_t view =
          to_output ? b.unknown(b.output("y", DType::kFloat, {})) : b.unknown(b.side("view", DType::kFloat, {}));
      b.step("a (Add)", {x, x}, {t}, add_f32);
      ProgramStep& step = b.step("v (Reshape)", {t}, {view}, nullptr);
      if (!from_slab) step.extras.write().release_after = {t};  // the view keeps the bytes
      if (!to_output) b.step("c (Add)", {view, view}, {b.output("y", DType::kFloat, {2})}, add_f32);
      b.program().resolver = &resolver;
      TestExecutor e;
      copies = 0;
      const auto y = values_of<float>(e.run(b.done(), {floats({1, 2})}).value()[0]);
      EXPECT_EQ(copies, from_slab || to_output ? 1 : 0);
      if (to_output) {
        EXPECT_THAT(y, ElementsAre(2, 4));
      } else {
        EXPECT_THAT(y, ElementsAre(4, 8));
      }
    }
  }
}

TEST(Executor, OutputsThatAreInputsConstantsOrEachOtherAreCopies) {
  ProgramBuilder b;
  const int32_t x = b.input("x", DType::kFloat, {2});
  const int32_t w = b.weight(tensor_of<float>({1}, {7}));
  const int32_t y = b.output("y", DType::kFloat, {2});
  b.list_output(x);
  b.list_output(w);
  b.list_output(y);
  const int32_t z = b.output("z", DType::kFloat, {2});
  b.step("a (Add)", {x, x}, {y}, add_f32);
  b.program().copies.push_back({4, x});
  static_cast<void>(z);
  TestExecutor e;
  const Value input = floats({1, 2});
  std::vector<Value> outputs = e.run(b.done(), {input}).value();
  EXPECT_THAT(values_of<float>(outputs[0]), ElementsAre(2, 4));
  EXPECT_THAT(values_of<float>(outputs[1]), ElementsAre(1, 2));
  EXPECT_THAT(values_of<float>(outputs[2]), ElementsAre(7));
  EXPECT_THAT(values_of<float>(outputs[3]), ElementsAre(2, 4));
  EXPECT_THAT(values_of<float>(outputs[4]), ElementsAre(1, 2));
  for (Value& v : outputs) v.tensor().as<float>()[0] = 99;
  EXPECT_THAT(values_of<float>(input), ElementsAre(1, 2));
  EXPECT_EQ(b.program().weights[0].as<float>()[0], 7);
  EXPECT_EQ(outputs[0].tensor().as<float>()[1], 4);
}

ValueType float_sequence() { return ValueType::sequence(ValueType::tensor(DType::kFloat)); }

Status sequence_of_inputs(RunCtx& c) {
  auto s = std::make_shared<Sequence>();
  s->element = ValueType::tensor(DType::kFloat);
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    ASSIGN_OR_RETURN(Value item, c.host->escape(static_cast<int>(i)));
    s->items.push_back(std::move(item));
  }
  return c.host->set_output(0, Value(std::shared_ptr<const Sequence>(std::move(s))));
}

TEST(Executor, TensorsEscapeIntoSequencesAndComeBack) {
  ProgramBuilder b;
  const int32_t x = b.input("x", DType::kFloat, {2});
  const int32_t escaping = b.side("escaping", DType::kFloat, {2});
  const int32_t planned = b.slab(0, DType::kFloat, {2});
  const int32_t sequence = b.object("sequence", float_sequence());
  const int32_t item = b.unknown(b.side("item", DType::kFloat, {}));
  const int32_t y = b.output("y", DType::kFloat, {2});
  b.step("a (Add)", {x, x}, {escaping}, add_f32);
  b.step("b (Add)", {x, x}, {planned}, add_f32);
  ProgramStep& construct = b.step("s (SequenceConstruct)", {x, escaping, planned}, {sequence}, sequence_of_inputs);
  construct.escapes = 2;
  construct.extras.write().release_after = {escaping};
  b.step("t (SequenceAt)", {sequence}, {item}, [](RunCtx& c) {
     return c.host->set_output(0, c.in(0).object->sequence()->items[1]);
   }).sized_at_run = 1;
  b.step("c (Add)", {item, x}, {y}, add_f32);
  b.list_output(sequence);
  TestExecutor e;
  const auto program = b.done();
  std::vector<Value> first, second;
  {
    const Value input = floats({1, 2});
    first = e.run(program, {input}).value();
    second = e.run(program, {floats({5, 6})}).value();
    const_cast<float*>(input.tensor().as<float>())[0] = 99;  // the caller's memory is never part of a result
  }
  EXPECT_THAT(values_of<float>(first[0]), ElementsAre(3, 6));
  const auto& items = first[1].sequence()->items;
  ASSERT_EQ(items.size(), 3u);
  EXPECT_THAT(values_of<float>(items[0]), ElementsAre(1, 2));
  EXPECT_THAT(values_of<float>(items[1]), ElementsAre(2, 4));
  EXPECT_THAT(values_of<float>(items[2]), ElementsAre(2, 4));
  EXPECT_THAT(values_of<float>(second[1].sequence()->items[1]), ElementsAre(10, 12));
  first.clear();
  second.clear();
  EXPECT_EQ(e.budget->statistics().of(MemoryRole::unplanned).live, 0);
}

TEST(Executor, AnAdoptedOutputNeverSharesBytesWithAnotherResult) {
  ProgramBuilder b;
  const int32_t sequence = b.input("s", DType::kUndefined, {});
  b.value(sequence).kind = ValueType::Kind::sequence;
  b.value(sequence).known = false;
  const int32_t y = b.unknown(b.output("y", DType::kFloat, {}));
  b.step("t (SequenceAt)", {sequence}, {y}, [](RunCtx& c) {
     return c.host->set_output(0, c.in(0).object->sequence()->items[0]);
   }).sized_at_run = 1;
  b.list_output(sequence);
  b.list_output(sequence);
  const auto program = b.done();
  TestExecutor e;
  for (const bool borrowed : {false, true}) {
    Value item = floats({1, 2});
    const Value keeper = item;
    if (borrowed) item.tensor().owner.reset();
    auto s = std::make_shared<Sequence>();
    s->element = ValueType::tensor(DType::kFloat);
    s->items.push_back(item);
    std::vector<Value> outputs = e.run(program, {Value(std::shared_ptr<const Sequence>(s))}).value();
    outputs[0].tensor().as<float>()[0] = 99;
    for (int i : {1, 2}) {
      Tensor& first = const_cast<Tensor&>(outputs[i].sequence()->items[0].tensor());
      EXPECT_THAT(values_of<float>(first), ElementsAre(1, 2));
      EXPECT_TRUE(first.owner.unique());
      first.as<float>()[0] = 50;
    }
    EXPECT_THAT(values_of<float>(keeper), ElementsAre(1, 2));
  }
}

TEST(Executor, ATypeThatOnlyTheRunTellsIsShownAsTheTensorOrObjectThatCame) {
  for (const bool tensor : {false, true}) {
    ProgramBuilder b;
    const int32_t x = b.input("x", DType::kFloat, {2});
    const int32_t open = b.object("open", ValueType());
    const int32_t y = b.output("y", DType::kFloat, {2});
    b.step("if (If)", {x}, {open}, [tensor](RunCtx& c) {
      if (!tensor) return sequence_of_inputs(c);
      ASSIGN_OR_RETURN(Value v, c.host->escape(0));
      return c.host->set_output(0, std::move(v));
    });
    b.step("use (Use)", {open}, {y}, [tensor](RunCtx& c) {
      EXPECT_EQ(c.in(0).object == nullptr, tensor);
      const Tensor* item = tensor ? nullptr : &c.in(0).object->sequence()->items[0].tensor();
      if (tensor) {
        EXPECT_THAT(c.in(0).dims(), ElementsAre(2));
      }
      std::copy_n(item ? item->as<float>() : c.in_as<float>(0), 2, c.out_as<float>(0));
      return absl::OkStatus();
    });
    b.list_output(open);
    TestExecutor e;
    const auto outputs = e.run(b.done(), {floats({1, 2})}).value();
    EXPECT_THAT(values_of<float>(outputs[0]), ElementsAre(1, 2));
    EXPECT_EQ(outputs[1].is_tensor(), tensor);
  }
}

TEST(Executor, StringsAreObjectsOfTheFrame) {
  ProgramBuilder b;
  const int32_t x = b.input("x", DType::kString, {2});
  const int32_t doubled = b.object("doubled", ValueType::tensor(DType::kString));
  b.value(doubled).known = true;
  static constexpr int64_t two[] = {2};
  b.value(doubled).dims = two;
  const int32_t y = b.output("y", DType::kString, {2});
  const auto twice = [](RunCtx& c) {
    for (int i = 0; i < 2; ++i) c.out_as<std::string>(0)[i] = c.in_as<std::string>(0)[i] + c.in_as<std::string>(0)[i];
    return absl::OkStatus();
  };
  b.step("a (Twice)", {x}, {doubled}, twice);
  b.step("b (Twice)", {doubled}, {y}, [&](RunCtx& c) {
     RETURN_IF_ERROR(c.host->output(0, c.in(0).dims()).status());
     return twice(c);
   }).sized_at_run = 1;
  b.list_output(doubled);
  b.list_output(x);
  TestExecutor e;
  const auto program = b.done();
  for (int repeat = 0; repeat < 3; ++repeat) {
    const auto outputs =
        e.run(program, {tensor_of<std::string>({2}, {"a", "a text too long to be stored inline"})}).value();
    EXPECT_EQ(values_of<std::string>(outputs[0])[0], "aaaa");
    EXPECT_EQ(values_of<std::string>(outputs[1])[0], "aa");
    EXPECT_EQ(values_of<std::string>(outputs[1])[1].size(), 70u);
    EXPECT_EQ(values_of<std::string>(outputs[2])[0], "a");
  }
}

TEST(Executor, ErrorsNameTheNodeAndLeaveTheExecutorUsable) {
  ProgramBuilder b;
  const int32_t x = b.input("x", DType::kFloat, {1});
  const int32_t found = b.unknown(b.side("found", DType::kFloat, {}));
  const int32_t y = b.output("y", DType::kFloat, {1});
  int mode = 0;
  b.step("first (Add)", {x, x}, {y}, add_f32);
  b.step("/l0/bad (Bad)", {x}, {found}, [&](RunCtx& c) -> Status {
     if (mode == 0) return invalid("axis 3 is out of range");
     if (mode == 1) throw std::runtime_error("primitive could not be executed");
     if (mode == 2) throw std::bad_alloc();
     if (mode == 3) return c.host->output(0, std::vector<int64_t>{int64_t{1} << 62}).status();
     if (mode == 4) return c.host->output(0, std::vector<int64_t>{-1}).status();
     if (mode == 5) return c.host->set_output(0, Value());
     return c.host->output(0, std::vector<int64_t>{1}).status();
   }).sized_at_run = 1;
  const auto program = b.done();
  TestExecutor e;
  const std::vector<Value> inputs{floats({1})};
  for (mode = 0; mode < 6; ++mode) {
    const Status status = e.run(program, inputs).status();
    ASSERT_FALSE(status.ok()) << mode;
    if (mode != 2) {
      EXPECT_THAT(std::string(status.message()), HasSubstr("/l0/bad (Bad)")) << mode;
    }
    const auto s = e.budget->statistics();
    EXPECT_EQ(s.of(MemoryRole::leased).live, 0) << mode;
    EXPECT_EQ(s.of(MemoryRole::planned).live, 0) << mode;
    EXPECT_EQ(s.of(MemoryRole::unplanned).live, 0) << mode;
  }
  EXPECT_TRUE(e.run(program, inputs).ok());
  EXPECT_FALSE(e.run(program, {}).ok());
  EXPECT_FALSE(e.run(program, {floats({1, 2})}).ok());
  EXPECT_FALSE(e.run(program, {Value()}).ok());
}

TEST(Executor, AConstantThatIsOnlyReadPackedNeedsNoPlace) {
  ProgramBuilder b;
  const int32_t x = b.input("x", DType::kFloat, {1});
  const int32_t w = b.weight(tensor_of<float>({1}, {1}));
  const int32_t y = b.output("y", DType::kFloat, {1});
  static const float packed[1] = {41};
  static const std::span<const std::byte> packs[] = {{}, std::as_bytes(std::span(packed))};
  b.step("gemm (Gemm)", {x, w}, {y}, [](RunCtx& c) {
     EXPECT_EQ(c.in(1).data, nullptr);
     c.out_as<float>(0)[0] = c.in_as<float>(0)[0] + *reinterpret_cast<const float*>(c.packed[1].data());
     return absl::OkStatus();
   }).packed = packs;
  b.value(w).index = -1;
  b.program().weights = {};
  TestExecutor e;
  EXPECT_THAT(values_of<float>(e.run(b.done(), {floats({1})}).value()[0]), ElementsAre(42));
}

TEST(Executor, StepsOfSeveralLanesRunInTheOrderOfTheList) {
  ProgramBuilder b;
  const int32_t x = b.input("x", DType::kFloat, {1});
  const int32_t a = b.slab(0, DType::kFloat, {1}), c = b.slab(64, DType::kFloat, {1});
  const int32_t y = b.output("y", DType::kFloat, {1});
  b.step("a (Add)", {x, x}, {a}, add_f32).extras.write().signals = {0};
  ProgramStep& other = b.step("c (Add)", {x, a}, {c}, add_f32);
  other.lane = 1;
  other.extras.write().waits = {0};
  other.extras.write().signals = {1};
  b.step("y (Add)", {a, c}, {y}, add_f32).extras.write().waits = {1};
  b.program().lanes = b.program().notifications = 2;
  TestExecutor e;
  EXPECT_THAT(values_of<float>(e.run(b.done(), {floats({1})}).value()[0]), ElementsAre(5));
}

TEST(Executor, IsCancelledBetweenSteps) {
  ProgramBuilder b;
  const int32_t x = b.input("x", DType::kFloat, {1});
  const int32_t t = b.slab(0, DType::kFloat, {1});
  const CancelFlag flag;
  int ran = 0;
  b.step("first (Add)", {x, x}, {t}, [&](RunCtx& c) {
    ++ran;
    flag.cancel();
    EXPECT_TRUE(c.host->cancelled());
    return absl::OkStatus();
  });
  b.step("second (Add)", {t, x}, {b.output("y", DType::kFloat, {1})}, [&](RunCtx& c) {
    ++ran;
    return add_f32(c);
  });
  TestExecutor e;
  const Status status = e.run(b.done(), {floats({1})}, {.cancel = flag.raw()}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
  EXPECT_THAT(std::string(status.message()), HasSubstr("second (Add)"));
  EXPECT_EQ(ran, 1);
}

TEST(Executor, ALimitIsAStatusAndIdleMemoryGoesFirst) {
  TestExecutor e(1, 300000);
  ASSERT_TRUE(e.run(small_chain(20000), {floats(std::vector<float>(20000, 1))}).ok());  // 160 kB and 80 kB
  const auto status = e.run(small_chain(40000), {floats(std::vector<float>(40000, 1))}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("the execution slab needs"));
  EXPECT_TRUE(e.run(small_chain(20000), {floats(std::vector<float>(20000, 1))}).ok());
}

TEST(Executor, EveryFailingSystemRequestIsAStatus) {
  const auto program = small_chain(20000);
  const std::vector<Value> inputs{floats(std::vector<float>(20000, 1))};
  bool succeeded = false;
  for (int64_t n = 1; n < 20 && !succeeded; ++n) {
    TestExecutor e;
    {
      const FailSystemRequests failing(n, true);
      succeeded = e.run(program, inputs).ok();
      EXPECT_EQ(succeeded, !failing.triggered());
    }
    EXPECT_TRUE(e.run(program, inputs).ok());
  }
  EXPECT_TRUE(succeeded);
}

TEST(Executor, ManyRunsAtOnceKeepApart) {
  TestExecutor e(3);
  ProgramBuilder b;
  const int64_t n = 4096;
  const int32_t x = b.input("x", DType::kFloat, {n});
  int32_t last = x;
  for (int i = 0; i < 20; ++i) {
    const int32_t next = i == 19 ? b.output("y", DType::kFloat, {n}) : b.slab(i % 2 * n * 4, DType::kFloat, {n});
    b.step("add", {last, x}, {next}, [](RunCtx& c) {
      parallel_ranges(c, c.in(0).elements, 512, [&](int64_t begin, int64_t end, int) {
        for (int64_t j = begin; j < end; ++j) c.out_as<float>(0)[j] = c.in_as<float>(0)[j] + c.in_as<float>(1)[j];
      });
      return absl::OkStatus();
    });
    last = next;
  }
  const auto program = b.done();
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const std::vector<Value> inputs{floats(std::vector<float>(n, static_cast<float>(t + 1)))};
      std::vector<Value> outputs(1);
      for (int i = 0; i < 50; ++i) {
        outputs[0] = Value();
        if (!e.executor->run(program, inputs, outputs).ok()) ++wrong;
        for (float v : values_of<float>(outputs[0])) wrong += v != 21.0f * static_cast<float>(t + 1);
      }
    });
  }
  for (auto& t : threads) t.join();
  EXPECT_EQ(wrong.load(), 0);
}

TEST(Executor, TellsASinkOfEachStep) {
  TestExecutor e;
  ProfileRecorder recorder;
  ASSERT_TRUE(e.run(small_chain(2), {floats({1, 2})}, {.sink = &recorder}).ok());
  const auto entries = recorder.take();
  ASSERT_EQ(entries.size(), 3u);
  EXPECT_EQ(entries[1].name, "b (Add)");
  EXPECT_EQ(entries[1].node, 1);
  EXPECT_EQ(entries[1].depth, 0);
  EXPECT_LE(entries[0].begin_ns, entries[0].end_ns);
  EXPECT_LE(entries[0].end_ns, entries[1].begin_ns);
  EXPECT_TRUE(recorder.take().empty());
}

}  // namespace
}  // namespace forethought
