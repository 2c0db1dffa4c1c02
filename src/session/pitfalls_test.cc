// Small models that made runtimes give wrong results: aliases between inputs, outputs and inner values.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <thread>

#include "absl/strings/str_cat.h"
#include "graph/text.h"
#include "session/session_testing.h"

namespace forethought {
namespace {

Tensor random(std::initializer_list<int64_t> dims, unsigned seed) {
  std::mt19937 engine(seed);
  Tensor t = make_tensor(DType::kFloat, Dims(dims)).value();
  for (int64_t i = 0; i < t.elements(); ++i) t.as<float>()[i] = static_cast<float>(engine() % 2001) / 500 - 2;
  return t;
}

// Runs through a session made of `text` for every choice of options.
template <typename F>
void with_every_session(std::string_view text, F&& body) {
  for (const SessionOptions& o : every_option()) {
    SCOPED_TRACE(to_string(o));
    auto s = session_of(text, o);
    ASSERT_TRUE(s);
    body(*s);
  }
}

TEST(Pitfalls, P1_AnInputThatIsAlsoAnOutput) {
  const char* text = "graph(%x: f32[1,2,2,2]) { %y = Add(%x, 10.0) return %y, %x }";
  with_every_session(text, [](Session& s) {
    std::vector<std::vector<Value>> kept;
    for (int i = 0; i < 7; ++i) {
      std::vector<float> feed(8);
      for (int k = 0; k < 8; ++k) feed[k] = static_cast<float>(k + i);
      Tensor x;  // borrowed: nothing but this scope keeps the memory
      x.dtype = DType::kFloat;
      x.dims = {1, 2, 2, 2};
      x.data = feed.data();
      std::vector<Value> out(2);
      const Status ran = s.run_ordered(std::vector<Value>{x}, out);
      ASSERT_TRUE(ran.ok()) << ran;
      kept.push_back(out);
      std::fill(feed.begin(), feed.end(), -99.0f);
    }
    for (int i = 0; i < 7; ++i)
      for (int k = 0; k < 8; ++k) {
        EXPECT_EQ(floats(kept[i][0])[k], static_cast<float>(k + i + 10));
        EXPECT_EQ(floats(kept[i][1])[k], static_cast<float>(k + i));
      }
  });
}

TEST(Pitfalls, P1_AnInputOfRankZeroBesideAConstant) {
  auto out = run_everywhere("graph(%x: f32[]) { %v = Constant<value=f32[] [0.0]>() return %v, %x }",
                            {tensor_of<float>({}, {2.3f})});
  ASSERT_EQ(out.size(), 2u);
  EXPECT_EQ(floats(out[0]), std::vector<float>{0});
  EXPECT_EQ(floats(out[1]), std::vector<float>{2.3f});
}

// The neighbours: one value under two names, an input through a view, an input twice.
TEST(Pitfalls, P1_OutputsThatShareTheirSource) {
  auto out = run_everywhere(R"(graph(%x: f32[2,3]) {
    %a = Identity(%x)
    %b = Reshape(%x, [3, 2])
    %c = Neg(%b)
    %d = Flatten(%c)
    %e = Identity(%d)
    return %a, %b, %x, %c, %d, %e, %x
  })",
                            {tensor_of<float>({2, 3}, {1, 2, 3, 4, 5, 6})});
  ASSERT_EQ(out.size(), 7u);
  const std::vector<float> x{1, 2, 3, 4, 5, 6}, n{-1, -2, -3, -4, -5, -6};
  for (int i : {0, 1, 2, 6}) EXPECT_EQ(floats(out[i]), x) << i;
  for (int i : {3, 4, 5}) EXPECT_EQ(floats(out[i]), n) << i;
  EXPECT_EQ(dims_of(out[1]), (Dims{3, 2}));
}

TEST(Pitfalls, P2_AnOutputNobodyReads) {
  const char* text = R"(graph(%x: f32[a,b,c,d]) {
    %v, %unused = MaxPool<kernel_shape=[1, 1]>(%x)
    %r = Relu(%x)
    %n = Neg(%r)
    %e = Exp(%n)
    %y = Add(%e, %v)
    return %y
  })";
  for (unsigned seed : {1u, 2u, 3u}) {
    const Tensor x = random({1, 4, 4, 8}, seed);
    auto out = run_everywhere(text, {x}, 1e-6);
    ASSERT_EQ(out.size(), 1u);
    for (int64_t i = 0; i < x.elements(); ++i) {
      const float v = x.as<float>()[i];
      ASSERT_NEAR(floats(out[0])[i], std::exp(-std::max(v, 0.0f)) + v, 1e-5);
    }
  }
}

TEST(Pitfalls, P2_PiecesNobodyReads) {
  auto out = run_everywhere(R"(graph(%x: f32[n,6]) {
    %p, %q, %r = Split<axis=1, num_outputs=3>(%x)
    %d, %mask = Dropout(%x)
    %a = Exp(%x)
    %b = ReduceSum(%a, [1])
    %y = Add(%q, %b)
    return %y
  })",
                            {tensor_of<float>({1, 6}, {0, 0, 1, 2, 0, 0})}, 1e-6);
  ASSERT_EQ(out.size(), 1u);
  const float sum = 4 + std::exp(1.0f) + std::exp(2.0f);
  EXPECT_NEAR(floats(out[0])[0], 1 + sum, 1e-4);
  EXPECT_NEAR(floats(out[0])[1], 2 + sum, 1e-4);
}

TEST(Pitfalls, P3_ShapesThatChangeFromRunToRun) {
  const char* text = R"(graph(%x: f32[n,s,d]) {
    %a = Mul(%x, %x)
    %b = Relu(%x)
    %c = Add(%a, %b)
    %d2 = Concat<axis=1>(%c, %x)
    %y = ReduceSum<keepdims=0>(%d2, [1])
    return %y
  })";
  const int64_t shapes[][3] = {{1, 32, 16}, {1, 1, 16}, {1, 32, 16}, {3, 7, 5}, {1, 32, 16}, {1, 1, 16}, {2, 0, 4}};
  with_every_session(text, [&](Session& s) {
    unsigned seed = 0;
    for (const auto& d : shapes) {
      const Tensor x = random({d[0], d[1], d[2]}, ++seed);
      std::vector<Value> out(1);
      const Status ran = s.run_ordered(std::vector<Value>{x}, out);
      ASSERT_TRUE(ran.ok()) << ran;
      ASSERT_EQ(dims_of(out[0]), (Dims{d[0], d[2]}));
      for (int64_t n = 0; n < d[0]; ++n)
        for (int64_t k = 0; k < d[2]; ++k) {
          double want = 0;
          for (int64_t j = 0; j < d[1]; ++j) {
            const double v = x.as<float>()[(n * d[1] + j) * d[2] + k];
            want += v * v + std::max(v, 0.0) + v;
          }
          ASSERT_NEAR(floats(out[0])[n * d[2] + k], want, 1e-3);
        }
    }
  });
}

TEST(Pitfalls, P4_SmallIntegersInParallel) {
  auto s = session_of(R"(graph(%x: f32[a,b]) {
    %s = Shape(%x)
    %s0 = Slice(%s, [0], [1])
    %s1 = Slice(%s, [1], [2])
    %p = Add(%s0, %s1)
    %q = Sub(%s1, %s0)
    %y = Concat<axis=0>(%p, %q, %s0, %s1)
    return %y
  })");
  ASSERT_TRUE(s);
  const std::vector<Value> in{random({3, 5}, 1)};
  std::vector<std::thread> threads;
  std::vector<int> wrong(4);
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 250; ++i) {
        std::vector<Value> out(1);
        if (!s->run_ordered(in, out).ok() || int64s(out[0]) != std::vector<int64_t>{8, 2, 3, 5}) ++wrong[t];
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, std::vector<int>(4));
}

// The same arithmetic on values that only the run tells, so that nothing is folded.
TEST(Pitfalls, P4_SmallIntegersInPlace) {
  auto out = run_everywhere(R"(graph(%s: i64[2]) {
    %s0 = Slice(%s, [0], [1])
    %s1 = Slice(%s, [1], [2])
    %p = Add(%s0, %s1)
    %q = Sub(%s1, %s0)
    %n = Neg(%s0)
    %y = Concat<axis=0>(%p, %q, %s0, %s1, %n)
    return %y
  })",
                            {tensor_of<int64_t>({2}, {3, 5})});
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(int64s(out[0]), (std::vector<int64_t>{8, 2, 3, 5, -3}));
}

TEST(Pitfalls, P5_Diamond) {
  for (const char* shape : {"[1,3]", "[n,m]"}) {
    auto out = run_everywhere(absl::StrCat("graph(%x: f32", shape,
                                           ") { %r = Relu(%x) %a = Neg(%r) %b = Exp(%r) %y = Add(%a, %b) return %y }"),
                              {tensor_of<float>({1, 3}, {1, -2, 3})}, 1e-6);
    ASSERT_EQ(out.size(), 1u);
    const auto y = floats(out[0]);
    EXPECT_NEAR(y[0], 1.7182818f, 1e-5);
    EXPECT_NEAR(y[1], 1, 1e-6);
    EXPECT_NEAR(y[2], 17.085537f, 1e-4);
  }
}

// Every view of the chain has a reader of its own kind at the end, so none of it can be dropped as dead.
TEST(Pitfalls, ViewChainOfAThousand) {
  std::string text = "graph(%x: f32[n,4]) { %v0 = Neg(%x)";
  for (int i = 1; i <= 1000; ++i) {
    const std::string from = absl::StrCat("%v", i - 1), to = absl::StrCat(" %v", i);
    switch (i % 4) {
      case 0:
        absl::StrAppend(&text, to, " = Reshape(", from, ", [-1, 4])");
        break;
      case 1:
        absl::StrAppend(&text, to, " = Unsqueeze(", from, ", [0])");
        break;
      case 2:
        absl::StrAppend(&text, to, " = Squeeze(", from, ", [0])");
        break;
      default:
        absl::StrAppend(&text, to, " = Flatten<axis=1>(", from, ")");
    }
  }
  text += " %y = Neg(%v1000) %z = Add(%y, %v0) return %y, %z }";
  const Tensor x = random({64, 4}, 3);
  auto out = run_everywhere(text, {x});
  ASSERT_EQ(out.size(), 2u);
  for (int64_t i = 0; i < x.elements(); ++i) {
    ASSERT_EQ(floats(out[0])[i], x.as<float>()[i]);
    ASSERT_EQ(floats(out[1])[i], 0);
  }
  SessionOptions o;
  o.optimization_level = OptimizationLevel::disabled;
  auto s = session_of(text, o);
  ASSERT_TRUE(s);
  const std::vector<Dims> dims{{64, 4}};
  auto planned = s->plan_for(dims);
  ASSERT_TRUE(planned.ok()) << planned.status();
  // The whole chain is one buffer, and Add writes over it: the memory of the output z serves for all of it.
  EXPECT_EQ((*planned)->plan.peak, 0);
}

TEST(Pitfalls, ViewsInACircle) {
  for (const char* text : {"graph(%x: f32[4]) { %a = Identity(%b) %b = Identity(%a) return %b }",
                           "graph(%x: f32[4]) { %a = Reshape(%a, [4]) return %a }",
                           "graph(%x: f32[4]) { %a = Unsqueeze(%c, [0]) %b = Reshape(%a, [4]) %c = Squeeze(%b) %y = "
                           "Add(%x, %c) return %y }"}) {
    const auto g = graph_from_text(text);
    ASSERT_FALSE(g.ok()) << text;
    EXPECT_NE(g.status().message().find("cycle"), std::string::npos) << g.status();
  }
}

}  // namespace
}  // namespace forethought
