// What bad calls get: a status that says what was expected and what came, and a session that is still usable.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <thread>

#include "absl/strings/str_cat.h"
#include "exec/profile.h"
#include "session/session_testing.h"

namespace forethought {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Value vec(const std::vector<float>& v) { return tensor_of<float>({static_cast<int64_t>(v.size())}, v); }
Value number(int64_t n) { return tensor_of<int64_t>({}, {n}); }

std::string said(Session& s, std::vector<NamedValue> feeds, std::vector<std::string_view> names, size_t room) {
  std::vector<Value> out(room);
  return std::string(s.run(feeds, names, out).message());
}

TEST(BadRuns, FeedsThatDoNotFit) {
  auto s = session_of(R"(graph(%image: f32[N,3,4], %mask: bool[N], %k: i64[2] = [1, 2]) {
    %m = Cast<to=1>(%mask)
    %r = Reshape(%m, [-1, 1, 1])
    %y = Mul(%image, %r)
    %z = Cast<to=1>(%k)
    return %y, %z
  })");
  ASSERT_TRUE(s);
  const Value image = tensor_of<float>({2, 3, 4}, std::vector<float>(24, 1));
  const Value mask = tensor_of<bool>({2}, {true, false});
  Tensor no_memory = tensor_of<float>({2, 3, 4}, std::vector<float>(24, 1));
  no_memory.data = nullptr;
  Tensor odd = tensor_of<float>({2, 3, 5}, std::vector<float>(30, 1));
  odd.dims = {2, 3, 4};
  odd.data = static_cast<std::byte*>(odd.data) + 2;
  Tensor impossible = no_memory;
  impossible.dims = {int64_t{1} << 40, 3, int64_t{1} << 40};
  Tensor negative = no_memory;
  negative.dims = {-2, 3, 4};
  auto list = std::make_shared<Sequence>();
  list->element = ValueType::tensor(DType::kFloat);
  struct {
    std::vector<NamedValue> feeds;
    std::vector<std::string> parts;
  } const rows[] = {
      {{{"image", image}}, {"'mask'", "missing"}},
      {{}, {"'image'", "missing"}},
      {{{"imag", image}, {"mask", mask}}, {"'imag'", "did you mean 'image'", "'mask'"}},
      {{{"image", image}, {"mask", mask}, {"", mask}}, {"no input ''"}},
      {{{"image", image}, {"mask", mask}, {"image", image}}, {"'image'", "twice"}},
      {{{"image", mask}, {"mask", mask}}, {"'image'", "tensor(float)", "[N,3,4]", "tensor(bool)"}},
      {{{"image", tensor_of<float>({2, 3}, std::vector<float>(6))}, {"mask", mask}}, {"'image'", "[N,3,4]", "[2,3]"}},
      {{{"image", tensor_of<float>({2, 4, 3}, std::vector<float>(24))}, {"mask", mask}}, {"[N,3,4]", "[2,4,3]"}},
      {{{"image", no_memory}, {"mask", mask}}, {"'image'", "memory"}},
      {{{"image", odd}, {"mask", mask}}, {"'image'", "4 does not divide"}},
      {{{"image", impossible}, {"mask", mask}}, {"'image'", "shape"}},
      {{{"image", negative}, {"mask", mask}}, {"'image'", "shape"}},
      {{{"image", Value(std::shared_ptr<const Sequence>(list))}, {"mask", mask}}, {"'image'", "tensor"}},
      {{{"image", image}, {"mask", tensor_of<bool>({3}, {true, false, true})}}, {"'mask'", "N", "'image'", "3", "2"}},
  };
  for (const auto& r : rows) {
    const std::string message = said(*s, r.feeds, {}, 2);
    ASSERT_FALSE(message.empty()) << r.parts[0];
    for (const std::string& part : r.parts) EXPECT_THAT(message, HasSubstr(part));
  }
  std::vector<Value> out(2);
  const Status fine = s->run(std::vector<NamedValue>{{"mask", mask}, {"image", image}}, {}, out);
  ASSERT_TRUE(fine.ok()) << fine;
  EXPECT_EQ(floats(out[0])[11], 1);
  EXPECT_EQ(floats(out[0])[12], 0);
  EXPECT_EQ(floats(out[1]), (std::vector<float>{1, 2}));
}

// Where only a run knows a shape, its error names the node as others do: once.
TEST(BadRuns, LateErrorsNameTheirPlaceOnce) {
  const struct {
    const char* text;
    const char* node;
  } rows[] = {
      {"graph(%x: f32[N], %s: i64[K]) { %y = Reshape(%x, %s) \"/late\" return %y }", "node /late (Reshape)"},
      {R"(graph(%x: f32[N], %s: i64[K]) {
        %n = NonZero(%x)
        %r = Reshape(%n, %s) "/late"
        %y = Neg(%r)
        return %y
      })",
       "node /late (Reshape)"},
  };
  for (const auto& r : rows) {
    const auto session = session_of(r.text);
    ASSERT_TRUE(session);
    const std::string message = said(*session, {{"x", vec({1, 2, 3})}, {"s", tensor_of<int64_t>({1}, {7})}}, {}, 1);
    EXPECT_THAT(message, HasSubstr(r.node));
    EXPECT_EQ(message.find("node "), message.rfind("node ")) << message;
  }
}

// One name is one number: what holds for symbols was used to rewrite the graph, so feeds that break it are refused.
TEST(BadRuns, OneNameTwoNumbers) {
  const char* text = R"(graph(%x: f32[N], %y: f32[N]) {
    %s = Shape(%x)
    %e = Expand(%y, %s)
    %z = Neg(%e)
    return %z
  })";
  for (const SessionOptions& o : every_option()) {
    auto s = session_of(text, o);
    ASSERT_TRUE(s);
    for (int round = 0; round < 2; ++round) {
      std::vector<Value> out(1);
      const Status bad = s->run_ordered(std::vector<Value>{vec({1, 2, 3}), vec({5})}, out);
      EXPECT_THAT(std::string(bad.message()), AllOf(HasSubstr("'y'"), HasSubstr("N"), HasSubstr("3"), HasSubstr("1")))
          << to_string(o);
      const Status good = s->run_ordered(std::vector<Value>{vec({1, 2, 3}), vec({5, 6, 7})}, out);
      ASSERT_TRUE(good.ok()) << good;
      EXPECT_EQ(floats(out[0]), (std::vector<float>{-5, -6, -7}));
    }
  }
}

TEST(BadRuns, OutputsThatDoNotFit) {
  auto s = session_of("graph(%x: f32[N]) { %first = Neg(%x) %second = Exp(%x) return %first, %second }");
  ASSERT_TRUE(s);
  const std::vector<NamedValue> feeds{{"x", vec({1, 2})}};
  EXPECT_THAT(said(*s, feeds, {"firstt"}, 1),
              AllOf(HasSubstr("no output 'firstt'"), HasSubstr("did you mean 'first'"), HasSubstr("'second'")));
  EXPECT_THAT(said(*s, feeds, {"x"}, 1), HasSubstr("no output 'x'"));
  EXPECT_THAT(said(*s, feeds, {"first"}, 2), HasSubstr("1 output names"));
  EXPECT_THAT(said(*s, feeds, {}, 1), HasSubstr("2 outputs"));
  std::vector<Value> twice(2);
  const Status ran = s->run(feeds, std::vector<std::string_view>{"first", "first"}, twice);
  ASSERT_TRUE(ran.ok()) << ran;
  EXPECT_EQ(floats(twice[0]), (std::vector<float>{-1, -2}));
  EXPECT_EQ(floats(twice[1]), (std::vector<float>{-1, -2}));

  // The same where only the run tells the size.
  auto found = session_of("graph(%x: f32[N]) { %y = NonZero(%x) return %y }");
  ASSERT_TRUE(found);
  for (int64_t room : {1, 2, 3}) {
    Tensor given = make_tensor(DType::kInt64, Dims{1, room}).value();
    std::vector<Value> out{given};
    const Status status = found->run_ordered(std::vector<Value>{vec({0, 5, 6})}, out);
    EXPECT_EQ(status.ok(), room == 2) << status;
    if (room == 2) {
      EXPECT_EQ(given.as<int64_t>()[1], 2);
    }
  }

  // Memory that comes along must fit; if it does, the result is written there.
  struct {
    Tensor given;
    bool fits;
  } rows[] = {{tensor_of<float>({2}, {9, 9}), true},    {tensor_of<float>({3}, {9, 9, 9}), false},
              {tensor_of<float>({1}, {9}), false},      {tensor_of<float>({2, 1}, {9, 9}), false},
              {tensor_of<int32_t>({2}, {9, 9}), false}, {tensor_of<int64_t>({1}, {9}), false}};
  for (size_t i = 0; i < std::size(rows); ++i) {
    std::vector<Value> out{rows[i].given, {}};
    const Status status = s->run_ordered(std::vector<Value>{vec({1, 2})}, out);
    EXPECT_EQ(status.ok(), rows[i].fits) << i << status;
    if (status.ok()) {
      EXPECT_EQ(out[0].tensor().data, rows[i].given.data);
      EXPECT_EQ(rows[i].given.as<float>()[1], -2);
    } else {
      EXPECT_THAT(std::string(status.message()), HasSubstr("first"));
    }
  }
}

TEST(BadRuns, BoundOutputsThatShareMemory) {
  auto s = session_of("graph(%x: f32[N], %w: f32[N]) { %p = Add(%x, %w) %q = Mul(%x, %w) return %p, %q }");
  ASSERT_TRUE(s);
  Tensor room = tensor_of<float>({8}, std::vector<float>(8, 7));
  const auto part = [&](int64_t first) {
    Tensor t = room;
    t.dims = {2};
    t.data = room.as<float>() + first;
    return t;
  };
  Tensor odd = part(0);
  odd.data = static_cast<std::byte*>(room.data) + 2;
  const Value x = vec({1, 2}), w = vec({3, 4});
  const struct {
    Value in, p, q;
    std::vector<std::string> parts;  // of the message; none: it runs
  } rows[] = {
      {x, part(0), part(2), {}},
      {x, part(2), part(0), {}},
      {part(6), part(2), part(4), {}},
      {x, part(0), part(0), {"'p' and 'q'", "same memory", "give each its own"}},
      {x, part(0), part(1), {"'p' and 'q'", "in part"}},
      {part(2), part(2), Value(), {"'p'", "input 'x'", "of its own"}},
      {part(2), Value(), part(1), {"'q'", "input 'x'"}},
      {x, odd, Value(), {"'p'", "4 does not divide"}},
  };
  for (const auto& r : rows) {
    room.as<float>()[6] = 1;
    room.as<float>()[7] = 2;
    std::vector<Value> out{r.p, r.q};
    const Status status = s->run_ordered(std::vector<Value>{r.in, w}, out);
    EXPECT_EQ(status.ok(), r.parts.empty()) << status;
    for (const std::string& part_of_message : r.parts)
      EXPECT_THAT(std::string(status.message()), HasSubstr(part_of_message));
    if (status.ok()) {
      EXPECT_EQ(floats(out[0]), (std::vector<float>{4, 6}));
      EXPECT_EQ(floats(out[1]), (std::vector<float>{3, 8}));
      EXPECT_EQ(out[0].tensor().data, r.p.tensor().data);
    }
  }
  std::vector<Value> twice{part(0), part(2)};
  const Status status =
      s->run(std::vector<NamedValue>{{"x", x}, {"w", w}}, std::vector<std::string_view>{"p", "p"}, twice);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("'p'"), HasSubstr("memory twice")));
}

TEST(BadRuns, AMemoryLimitNamesWhoNeedsHowMuch) {
  const char* text =
      "graph(%x: f32[N]) { %a = Exp(%x) %b = ReduceSum<keepdims=0>(%a) %y = Div(%a, %b) %z = "
      "ReduceMax<keepdims=0>(%y) return %z }";
  const Value x = vec(std::vector<float>(1 << 18, 1));  // one inner value of 1 MiB
  for (int64_t limit : {int64_t{1}, int64_t{100'000}, int64_t{900'000}, int64_t{1} << 22}) {
    SessionOptions o;
    o.memory_limit = limit;
    o.optimization_level = OptimizationLevel::disabled;
    auto s = session_of(text, o);
    ASSERT_TRUE(s);
    for (int round = 0; round < 2; ++round) {
      std::vector<Value> out(1);
      const Status ran = s->run_ordered(std::vector<Value>{x}, out);
      EXPECT_EQ(ran.ok(), limit >= 1 << 22) << limit << " " << ran;
      if (!ran.ok()) {
        EXPECT_TRUE(absl::IsResourceExhausted(ran)) << ran;
        EXPECT_THAT(std::string(ran.message()), AllOf(HasSubstr("slab"), HasSubstr("MiB"), HasSubstr("limit"))) << ran;
      }
      // A smaller problem still fits.
      if (limit == 100'000) {
        const Status small = s->run_ordered(std::vector<Value>{vec({1, 2})}, out);
        ASSERT_TRUE(small.ok()) << small;
        EXPECT_NEAR(floats(out[0])[0], 0.7310586f, 1e-6);
      }
    }
  }
}

TEST(BadRuns, CancelAfterEveryStep) {
  const char* text = R"(graph(%x: f32[N], %m: i64[]) {
    %a = Neg(%x)
    %q = SequenceConstruct(%a, %x)
    %y, %all = Loop(%m, bool true, %a; %x) {
      body: graph(%i: i64[], %c: bool[], %s: f32[N], %x2: f32[N]) {
        %t = Add(%s, %x2)
        %u = Mul(%t, %t)
        return %c, %t, %u
      }
    }
    %n = NonZero(%y)
    %e = SequenceAt(%q, i64 0)
    %r = Add(%e, %y)
    return %r, %n, %q, %all
  })";
  for (const SessionOptions& o : every_option()) {
    SCOPED_TRACE(to_string(o));
    auto s = session_of(text, o);
    ASSERT_TRUE(s);
    const std::vector<Value> in{vec({1, 2, 0}), number(4)};
    CancelAfter never(-1, CancelFlag());
    RunOptions all;
    all.sink = &never;
    std::vector<Value> want(4);
    ASSERT_TRUE(s->run_ordered(in, want, all).ok());
    ASSERT_GT(never.seen, 8);
    for (int stop = 0; stop < never.seen; ++stop) {
      RunOptions options;
      CancelAfter sink(stop, options.cancel);
      options.sink = &sink;
      std::vector<Value> out(4);
      const Status ran = s->run_ordered(in, out, options);
      EXPECT_TRUE(absl::IsCancelled(ran)) << stop << " " << ran;
      EXPECT_GE(sink.seen, stop);
      EXPECT_LE(sink.seen, stop + 1);  // a loop whose last trip was over ends as a step of its own
      for (const Value& v : out) EXPECT_TRUE(v.is_none());
      std::vector<Value> again(4);
      const Status fine = s->run_ordered(in, again);
      ASSERT_TRUE(fine.ok()) << fine;
      EXPECT_EQ(floats(again[0]), floats(want[0]));
      EXPECT_EQ(int64s(again[1]), int64s(want[1]));
      EXPECT_EQ(floats(again[3]), floats(want[3]));
    }
  }
}

TEST(BadRuns, CancelFromAnotherThread) {
  auto s = session_of(R"(graph(%x: f32[N]) {
    %y = Loop(_, bool true, %x) {
      body: graph(%i: i64[], %c: bool[], %s: f32[N]) { %t = Neg(%s) return %c, %t }
    }
    return %y
  })");
  ASSERT_TRUE(s);
  RunOptions options;
  std::thread other([flag = options.cancel] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    flag.cancel();
  });
  std::vector<Value> out(1);
  const Status ran = s->run_ordered(std::vector<Value>{vec({1})}, out, options);  // would never end by itself
  other.join();
  EXPECT_TRUE(absl::IsCancelled(ran)) << ran;
}

TEST(BadRuns, ErrorsInTheMiddle) {
  struct {
    const char* text;
    std::vector<Value> bad, good;
    std::vector<float> want;
    const char* part;
  } const rows[] = {
      {"graph(%x: f32[N], %i: i64[K]) { %a = Exp(%x) %b = Log(%a) %y = Gather(%b, %i) return %y }",
       {vec({1, 2}), tensor_of<int64_t>({1}, {2})},
       {vec({0, 0}), tensor_of<int64_t>({1}, {-2})},
       {0},
       "Gather"},
      {"graph(%x: f32[N], %s: i64[K]) { %a = Neg(%x) %y = Reshape(%a, %s) %z = Neg(%y) return %z }",
       {vec({1, 2, 3}), tensor_of<int64_t>({2}, {2, -1})},
       {vec({1, 2, 3}), tensor_of<int64_t>({2}, {1, -1})},
       {1, 2, 3},
       "Reshape"},
      {"graph(%x: f32[N], %i: i64[]) { %a = Neg(%x) %q = SequenceConstruct(%a) %y = SequenceAt(%q, %i) return %y }",
       {vec({1}), number(1)},
       {vec({1}), number(0)},
       {-1},
       "SequenceAt"},
      {"graph(%x: f32[N,M], %w: f32[K,L]) { %a = Neg(%x) %y = MatMul(%a, %w) return %y }",
       {tensor_of<float>({1, 2}, {1, 1}), tensor_of<float>({1, 1}, {1})},
       {tensor_of<float>({1, 1}, {1}), tensor_of<float>({1, 1}, {1})},
       {-1},
       "MatMul"},
      {"graph(%x: f32[N], %s: f32[K]) { %a = Neg(%x) %r = Reshape(%a, [1, 1, -1]) %y = Resize(%r, _, %s) return %y }",
       {vec({1}), vec({1, 1, 1e30f})},
       {vec({1}), vec({1, 1, 2})},
       {-1, -1},
       "Resize"},
  };
  for (const auto& r : rows)
    for (const SessionOptions& o : every_option()) {
      SCOPED_TRACE(absl::StrCat(to_string(o), " ", r.text));
      auto s = session_of(r.text, o);
      ASSERT_TRUE(s);
      for (int round = 0; round < 3; ++round) {
        std::vector<Value> out(1);
        const Status bad = s->run_ordered(r.bad, out);
        ASSERT_FALSE(bad.ok());
        EXPECT_THAT(std::string(bad.message()), HasSubstr(r.part));
        EXPECT_TRUE(out[0].is_none());
        const Status good = s->run_ordered(r.good, out);
        ASSERT_TRUE(good.ok()) << good;
        EXPECT_EQ(floats(out[0]), r.want);
      }
    }
}

TEST(BadRuns, ManyThreadsWithManyShapes) {
  const char* text = R"(graph(%x: f32[N,M], %m: i64[]) {
    %a = Exp(%x)
    %s = ReduceSum(%a, [1])
    %b = Div(%a, %s)
    %c = Concat<axis=0>(%b, %x)
    %y = Loop(%m, bool true, %c) {
      body: graph(%i: i64[], %k: bool[], %t: f32?) { %u = Neg(%t) return %k, %u }
    }
    return %y
  })";
  for (const int capacity : {1, 3, 32}) {
    SessionOptions o;
    o.plan_cache_capacity = capacity;
    auto s = session_of(text, o);
    ASSERT_TRUE(s);
    std::atomic<int> wrong{0};
    auto work = [&](int seed) {
      for (int i = 0; i < 60; ++i) {
        const int64_t n = (seed + i) % 5, m = 1 + (seed * 3 + i) % 7;
        const int64_t trips = i % 3;
        std::vector<Value> out(1);
        Tensor x = tensor_of<float>({n, m}, std::vector<float>(n * m, static_cast<float>(seed)));
        const Status ran = s->run_ordered(std::vector<Value>{x, number(trips)}, out);
        if (!ran.ok() || dims_of(out[0]) != Dims{2 * n, m}) {
          ++wrong;
          continue;
        }
        const float sign = trips % 2 ? -1.0f : 1.0f;
        const std::vector<float> y = floats(out[0]);
        for (int64_t k = 0; k < n * m; ++k) {
          if (std::fabs(y[k] - sign / static_cast<float>(m)) > 1e-5) ++wrong;
          if (y[n * m + k] != sign * static_cast<float>(seed)) ++wrong;
        }
      }
    };
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; ++t) threads.emplace_back(work, t);
    for (std::thread& t : threads) t.join();
    EXPECT_EQ(wrong, 0);
    EXPECT_GT(s->summary().plans.misses, 0);
  }
}

}  // namespace
}  // namespace forethought
