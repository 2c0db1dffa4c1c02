// The public C++ API, seen as a user sees it: public headers alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "api/calls_testing.h"
#include "api/models_testing.h"
#include "forethought/forethought.h"

namespace ft = forethought;

namespace {

using forethought_testing::affine_model;
using forethought_testing::floats;
using forethought_testing::load;
using forethought_testing::read;
using forethought_testing::sequence_model;
using testing::ElementsAre;
using testing::HasSubstr;
using Shape = std::vector<int64_t>;

TEST(Api, DescribesTheModel) {
  const ft::Session s = load(affine_model());
  ASSERT_EQ(s.inputs().size(), 1u);
  const ft::Argument& x = s.inputs()[0];
  EXPECT_EQ(x.name, "x");
  EXPECT_EQ(x.type, "tensor(float)");
  EXPECT_EQ(x.element_type, ft::ElementType::f32);
  ASSERT_EQ(x.shape.size(), 2u);
  EXPECT_EQ(x.shape[0].size, -1);
  EXPECT_EQ(x.shape[0].symbol, "N");
  EXPECT_EQ(x.shape[1].size, 3);
  ASSERT_EQ(s.outputs().size(), 2u);
  EXPECT_EQ(s.outputs()[1].name, "s");
  EXPECT_TRUE(s.outputs()[1].has_rank && s.outputs()[1].shape.empty());
  EXPECT_EQ(s.metadata().custom.at("alphabet"), "abc");
  EXPECT_EQ(s.metadata().producer_name, "maker");
  EXPECT_EQ(s.metadata().opsets.at(""), 17);
  EXPECT_THAT(s.providers(), ElementsAre("CPUExecutionProvider"));
}

TEST(Api, RunsByName) {
  const ft::Session s = load(affine_model());
  const auto all = s.run({{"x", floats({1, 2, 3, 4, 5, 6}, {2, 3})}});
  ASSERT_TRUE(all.ok()) << all.status().message();
  ASSERT_EQ(all->size(), 2u);
  EXPECT_THAT(read((*all)[0]), ElementsAre(3, 5, 7, 9, 11, 13));
  EXPECT_THAT((*all)[0].shape(), ElementsAre(2, 3));
  EXPECT_THAT(read((*all)[1]), ElementsAre(48));
  const std::vector<ft::NamedValue> feeds = {{"x", floats({0, 0, 1}, {1, 3})}};
  const std::vector<std::string_view> names = {"s"};
  const auto one = s.run(feeds, names);
  ASSERT_TRUE(one.ok()) << one.status().message();
  ASSERT_EQ(one->size(), 1u);
  EXPECT_THAT(read((*one)[0]), ElementsAre(5));
  EXPECT_EQ(s.figures().runs, 2);
}

TEST(Api, FiguresTellWhatCachesCounted) {
  ft::SessionOptions o;
  o.plan_cache = 2;
  const ft::Session s = load(affine_model(), o);
  for (const int64_t n : {1, 1, 2, 5, 1}) {
    const std::vector<int64_t> shape = {n, 3};
    ASSERT_TRUE(s.run({{"x", ft::Value::tensor(ft::ElementType::f32, shape).value()}}).ok());
  }
  const ft::Figures f = s.figures();
  EXPECT_EQ(f.plan_misses, 4) << "the first is gone when it comes again";
  EXPECT_EQ(f.plan_hits, 1);
  EXPECT_EQ(f.plan_evicted, 2);
  EXPECT_EQ(f.plan_inside, 0);
  EXPECT_GT(f.plan_steps, f.plan_steps_kept);
  EXPECT_LE(f.plan_by_formula + f.plan_by_order, 2 * f.plan_misses);
  EXPECT_GE(f.instances_made, f.instances + f.instances_evicted);
  EXPECT_EQ(f.instance_bytes > 0, f.instances > 0);
  EXPECT_GT(f.instances_made, 0);
}

TEST(Api, EveryLevelAndPlanGivesTheSame) {
  for (const auto level : {ft::OptimizationLevel::disabled, ft::OptimizationLevel::basic,
                           ft::OptimizationLevel::extended, ft::OptimizationLevel::all})
    for (const auto plan : {ft::PlanMode::packed, ft::PlanMode::exact, ft::PlanMode::slots, ft::PlanMode::off}) {
      ft::SessionOptions o;
      o.level = level;
      o.plan = plan;
      o.threads = 1;
      const auto r = load(affine_model(), o).run({{"x", floats({1, 2, 3}, {1, 3})}});
      ASSERT_TRUE(r.ok()) << r.status().message();
      EXPECT_THAT(read((*r)[0]), ElementsAre(3, 5, 7));
    }
}

TEST(Api, OutputsOutliveTheSession) {
  ft::Value y, inner;
  {
    const ft::Session s = load(affine_model());
    y = s.run({{"x", floats({1, 2, 3}, {1, 3})}}).value()[0];
    const ft::Session q = load(sequence_model());
    inner = q.run({{"a", floats({1, 2}, {2})}, {"b", floats({3, 4}, {2})}}).value()[0].at(1);
  }
  EXPECT_THAT(read(y), ElementsAre(3, 5, 7));
  EXPECT_THAT(read(inner), ElementsAre(3, 4));
}

TEST(Api, PreparedRunsReadAndWriteBoundMemory) {
  const ft::Session s = load(affine_model());
  ft::PreparedRun run = s.prepare();
  std::vector<float> in = {1, 2, 3}, out(3, -1);
  const Shape shape = {1, 3};
  ASSERT_TRUE(run.bind_input("x", ft::Value::borrow<float>(in, shape).value()).ok());
  ASSERT_TRUE(run.bind_output("y", ft::Value::borrow<float>(out, shape).value()).ok());
  EXPECT_TRUE(run.output(0).is_absent());
  ASSERT_TRUE(run.run().ok());
  EXPECT_THAT(out, ElementsAre(3, 5, 7));
  const ft::Value kept = run.output("s");
  in = {4, 5, 6};
  ASSERT_TRUE(run.run().ok());
  EXPECT_THAT(out, ElementsAre(9, 11, 13));
  EXPECT_EQ(run.output(0).data(), out.data());
  EXPECT_THAT(read(kept), ElementsAre(15));  // the memory of an output that is held is not taken again
  EXPECT_THAT(read(run.output("s")), ElementsAre(33));
  EXPECT_TRUE(run.output(7).is_absent());
  EXPECT_TRUE(run.output("nothing").is_absent());

  std::vector<float> wide(6);
  const Shape two = {2, 3};
  ASSERT_TRUE(run.bind_output("y", ft::Value::borrow<float>(wide, two).value()).ok());
  EXPECT_FALSE(run.run().ok());  // the result has another shape
  ASSERT_TRUE(run.bind_output("y", {}).ok());
  ASSERT_TRUE(run.run().ok());
  EXPECT_THAT(read(run.output(0)), ElementsAre(9, 11, 13));
}

TEST(Api, SequencesGoInPieces) {
  const auto r = load(sequence_model()).run({{"a", floats({1, 2}, {2})}, {"b", floats({3, 4}, {2})}});
  ASSERT_TRUE(r.ok()) << r.status().message();
  const ft::Value& q = (*r)[0];
  EXPECT_EQ(q.kind(), ft::ValueKind::sequence);
  ASSERT_EQ(q.size(), 2u);
  EXPECT_THAT(read(q.at(0)), ElementsAre(1, 2));
  EXPECT_TRUE(q.at(2).is_absent());
  const std::vector<ft::Value> parts = {q.at(0), q.at(1)};
  EXPECT_EQ(ft::Value::sequence(ft::ElementType::f32, parts).value().size(), 2u);
  EXPECT_EQ(ft::Value::sequence(ft::ElementType::i64, parts).status().code(), ft::ErrorCode::invalid_argument);
}

TEST(Api, ManyThreadsShareASession) {
  const ft::Session s = load(affine_model());
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        const float v = static_cast<float>(t * 100 + i);
        const auto r = s.run({{"x", floats({v, v, v}, {1, 3})}});
        wrong[t] += !r.ok() || read((*r)[0])[1] != 2 * v + 1;
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_THAT(wrong, ElementsAre(0, 0, 0, 0));
}

TEST(Api, StringsAndSmallTypesAreValues) {
  std::vector<std::string> words = {"a", "long enough to be on the heap of its own", ""};
  const Shape three = {3};
  const ft::Value borrowed = ft::Value::borrow<std::string>(words, three).value();
  EXPECT_THAT(borrowed.elements<std::string>().value(), ElementsAre("a", words[1], ""));
  const ft::Value copy = ft::Value::copy_of<std::string>(words, three).value();
  words[0] = "b";
  EXPECT_EQ(copy.elements<std::string>().value()[0], "a");
  const ft::Value packed = ft::Value::tensor(ft::ElementType::i4, three).value();
  EXPECT_EQ(packed.byte_size(), 2u);
  EXPECT_EQ(packed.element_count(), 3);
}

struct BadCall {
  const char* name;
  ft::Status (*call)();
  ft::ErrorCode code;
  const char* message;
};

TEST(Api, BadCallsSayWhatIsWrong) {
  const BadCall calls[] = {
      {"no file", [] { return ft::Session::load("/nonexistent/model.onnx").status(); }, ft::ErrorCode::not_found,
       "/nonexistent/model.onnx"},
      {"no model", [] { return ft::Session::load_bytes(std::as_bytes(std::span("garbage"))).status(); },
       ft::ErrorCode::invalid_argument, "load model from bytes"},
      {"input name",
       [] {
         return load(affine_model()).run({{"X", floats({1, 2, 3}, {1, 3})}}).status();
       },
       ft::ErrorCode::invalid_argument, "no input 'X'"},
      {"missing input", [] { return load(affine_model()).run({}).status(); }, ft::ErrorCode::invalid_argument,
       "'x' is missing"},
      {"input shape",
       [] {
         return load(affine_model()).run({{"x", floats({1, 2}, {1, 2})}}).status();
       },
       ft::ErrorCode::invalid_argument, "[1,2]"},
      {"input type",
       [] {
         return load(affine_model())
             .run({{"x", ft::Value::tensor(ft::ElementType::i64, Shape{1, 3}).value()}})
             .status();
       },
       ft::ErrorCode::invalid_argument, "tensor(int64)"},
      {"output name",
       [] {
         const std::vector<ft::NamedValue> feeds = {{"x", floats({1, 2, 3}, {1, 3})}};
         const std::vector<std::string_view> names = {"z"};
         return load(affine_model()).run(feeds, names).status();
       },
       ft::ErrorCode::invalid_argument, "no output 'z'"},
      {"bound name", [] { return load(affine_model()).prepare().bind_input("z", {}); }, ft::ErrorCode::invalid_argument,
       "no input 'z'"},
      {"bound type",
       [] {
         return load(affine_model())
             .prepare()
             .bind_output("y", ft::Value::tensor(ft::ElementType::i64, Shape{1, 3}).value());
       },
       ft::ErrorCode::invalid_argument, "tensor(int64)"},
      {"provider",
       [] {
         ft::SessionOptions o;
         o.providers = {"CUDAExecutionProvider"};
         const std::string m = affine_model();
         return ft::Session::load_bytes(std::as_bytes(std::span(m)), o).status();
       },
       ft::ErrorCode::not_found, "CUDAExecutionProvider"},
      {"level",
       [] {
         ft::SessionOptions o;
         o.level = static_cast<ft::OptimizationLevel>(7);
         return ft::Session::load_bytes({}, o).status();
       },
       ft::ErrorCode::invalid_argument, "7"},
      {"negative dim", [] { return ft::Value::tensor(ft::ElementType::f32, Shape{-1}).status(); },
       ft::ErrorCode::invalid_argument, "-1"},
      {"huge dims",
       [] {
         return ft::Value::tensor(ft::ElementType::f32, Shape{1LL << 40, 1LL << 40}).status();
       },
       ft::ErrorCode::invalid_argument, ""},
      {"element type", [] { return ft::Value::tensor(static_cast<ft::ElementType>(99), Shape{1}).status(); },
       ft::ErrorCode::invalid_argument, "99"},
      {"bytes of a borrowed tensor",
       [] {
         static float x[2];
         return ft::Value::borrow(ft::ElementType::f32, Shape{3}, x, sizeof x).status();
       },
       ft::ErrorCode::invalid_argument, "12 bytes; 8 came"},
      {"alignment of a borrowed tensor",
       [] {
         alignas(8) static char x[9];
         return ft::Value::borrow(ft::ElementType::f32, Shape{2}, x + 1, 8).status();
       },
       ft::ErrorCode::invalid_argument, "aligned to 4"},
      {"elements of another type", [] { return floats({1}, {1}).elements<int64_t>().status(); },
       ft::ErrorCode::invalid_argument, "float, not int64"},
      {"elements of nothing", [] { return ft::Value().elements<float>().status(); }, ft::ErrorCode::invalid_argument,
       "no tensor"},
      {"number of copied elements", [] { return ft::Value::copy_of<float>(std::vector<float>(2), Shape{3}).status(); },
       ft::ErrorCode::invalid_argument, "3 elements; 2 came"},
  };
  for (const BadCall& c : calls) {
    SCOPED_TRACE(c.name);
    const ft::Status s = c.call();
    EXPECT_EQ(static_cast<int>(s.code()), static_cast<int>(c.code)) << s.message();
    EXPECT_THAT(s.message(), HasSubstr(c.message));
  }
}

TEST(Api, ACancelledRunSaysSo) {
  const ft::Session s = load(affine_model());
  ft::Cancel cancel;
  cancel.cancel();
  ft::PreparedRun run = s.prepare();
  ASSERT_TRUE(run.bind_input("x", floats({1, 2, 3}, {1, 3})).ok());
  EXPECT_EQ(run.run(&cancel).code(), ft::ErrorCode::cancelled);
  cancel.reset();
  EXPECT_TRUE(run.run(&cancel).ok());
}

TEST(Api, Check33_ARunBehindTheBackGivesTheSame) {
  const std::vector<float> want = {3, 5, 7};
  std::atomic<int> told{0}, right{0};
  std::vector<ft::AsyncRun> runs;
  {
    const ft::Session s = load(affine_model());
    const ft::Value x = floats({1, 2, 3}, {1, 3});
    const std::vector<ft::NamedValue> feeds = {{"x", x}};
    for (int k = 0; k < 20; ++k)
      runs.push_back(s.run_async(feeds, {}, [&](ft::AsyncRun run) {
                        right += read(run.outputs().value()[0]) == want;
                        ++told;
                      }).value());
    runs.push_back(s.run_async(feeds).value());
  }
  for (const ft::AsyncRun& run : runs) {
    ASSERT_TRUE(run.wait().ok());
    EXPECT_TRUE(run.over() && run.wait_for(std::chrono::seconds(0)));
    EXPECT_EQ(read(run.outputs().value()[0]), want);
  }
  runs.clear();
  while (told < 20) std::this_thread::yield();
  EXPECT_EQ(right, 20);
}

TEST(Api, ARunBehindTheBackTellsItsError) {
  const ft::Session s = load(affine_model());
  const std::vector<ft::NamedValue> none;
  const ft::AsyncRun run = s.run_async(none).value();
  EXPECT_EQ(run.wait().code(), ft::ErrorCode::invalid_argument);
  EXPECT_THAT(run.outputs().status().message(), HasSubstr("'x' is missing"));
  ft::Cancel cancel;
  cancel.cancel();
  const std::vector<ft::NamedValue> feeds = {{"x", floats({1, 2, 3}, {1, 3})}};
  EXPECT_EQ(s.run_async(feeds, {}, nullptr, &cancel).value().wait().code(), ft::ErrorCode::cancelled);
}

TEST(Api, MemoryLimitIsAnErrorThatLeavesTheSessionUsable) {
  ft::SessionOptions o;
  o.memory_limit = 1 << 20;
  const ft::Session s = load(affine_model(), o);
  const ft::Value big = ft::Value::tensor(ft::ElementType::f32, Shape{1 << 20, 3}).value();
  EXPECT_EQ(s.run({{"x", big}}).status().code(), ft::ErrorCode::exhausted);
  EXPECT_TRUE(s.run({{"x", floats({1, 2, 3}, {1, 3})}}).ok());
}

TEST(Api, LoadKeepsTheOwnerOfTheBytesAsLongAsItReadsThem) {
  const auto spoil = [](std::string* s) {
    std::ranges::fill(*s, '\xff');
    delete s;
  };
  std::shared_ptr<std::string> bytes(new std::string(affine_model()), spoil);
  const std::weak_ptr<std::string> watch = bytes;
  {
    const auto span = std::as_bytes(std::span(*bytes));
    const ft::Session s = ft::Session::load_bytes(span, {}, std::move(bytes)).value();
    const auto outputs = s.run({{"x", floats({1, 2, 3}, {1, 3})}}).value();
    EXPECT_EQ(outputs[1].elements<float>().value()[0], 15);
  }
  EXPECT_TRUE(watch.expired());
}

TEST(Api, LogSeverityIsKept) {
  const ft::LogSeverity before = ft::log_severity();
  ft::set_log_severity(ft::LogSeverity::error);
  EXPECT_EQ(ft::log_severity(), ft::LogSeverity::error);
  ft::set_log_severity(before);
  EXPECT_THAT(ft::available_providers(), testing::Contains("CPUExecutionProvider"));
  EXPECT_STRNE(ft::version(), "");
}

}  // namespace
