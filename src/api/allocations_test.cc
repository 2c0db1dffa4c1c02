// Each operator new of ours fails once, while small models load, run, run behind the caller's back, are trimmed and go:
// an error that says so or success, and the session works afterwards.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "api/calls_testing.h"
#include "api/models_testing.h"
#include "forethought/forethought.h"
#include "memory/memory_calls_testing.h"

namespace ft = forethought;

namespace {

using forethought::FailAllocation;
using forethought_testing::floats;
using Values = std::vector<ft::Value>;

struct Model {
  const char* name;
  std::string bytes;
  std::vector<std::pair<std::string, ft::Value>> inputs, other;  // two sets of inputs, of two shapes where that can be
};

std::vector<float> ramp(int64_t n) {
  std::vector<float> v;
  for (int64_t i = 0; i < n; ++i) v.push_back(static_cast<float>(i % 7) - 3);
  return v;
}

std::vector<Model> models() {
  const auto matrix = [](int64_t rows, int64_t columns) { return floats(ramp(rows * columns), {rows, columns}); };
  const auto trips = [](int64_t n) {
    return ft::Value::copy_of<int64_t>(std::vector{n}, std::vector<int64_t>{}).value();
  };
  return {{"affine", forethought_testing::affine_model(), {{"x", matrix(2, 3)}}, {{"x", matrix(5, 3)}}},
          {"layers", forethought_testing::layers_model(), {{"x", matrix(4, 16)}}, {{"x", matrix(9, 16)}}},
          {"loop",
           forethought_testing::loop_model(true),
           {{"m", trips(3)}, {"x", floats({1, 2}, {2})}},
           {{"m", trips(9)}, {"x", floats({3, 4}, {2})}}},
          {"branches", forethought_testing::branches_model(), {{"x", matrix(4, 4)}}, {{"x", matrix(6, 4)}}},
          {"parallel", forethought_testing::parallel_model(), {{"x", matrix(4, 8)}}, {{"x", matrix(6, 8)}}}};
}

ft::SessionOptions options(int threads) {
  ft::SessionOptions o;
  o.threads = threads;
  return o;
}

using Feeds = std::vector<std::pair<std::string, ft::Value>>;
std::vector<ft::NamedValue> named(const Feeds& feeds) { return {feeds.begin(), feeds.end()}; }

std::vector<std::vector<float>> bits(const Values& values) {
  std::vector<std::vector<float>> all;
  for (const ft::Value& v : values) all.push_back(forethought_testing::read(v));
  return all;
}

// All that an act may need, made before anything fails.
struct Stage {
  const Model& model;
  int threads;
  std::optional<ft::Session> session;
  std::optional<ft::PreparedRun> prepared;
  std::vector<ft::NamedValue> inputs, other;
  Values outputs;

  ft::Status take(ft::Result<Values> result) {
    if (!result.ok()) return result.status();
    outputs = std::move(*result);
    return ft::Status();
  }
};

// What fails on its way.
struct Doing {
  const char* name;
  ft::Status (*act)(Stage&);
  enum Before { nothing, loaded, ran } before = loaded;
  enum Gives { no_outputs, of_inputs, of_other } gives = of_inputs;
};

constexpr Doing kDoings[] = {
    {"load",
     [](Stage& s) {
       auto loaded = ft::Session::load_bytes(std::as_bytes(std::span(s.model.bytes)), options(s.threads));
       if (!loaded.ok()) return loaded.status();
       s.session = std::move(*loaded);
       return ft::Status();
     },
     Doing::nothing, Doing::no_outputs},
    {"run", [](Stage& s) { return s.take(s.session->run(s.inputs)); }},
    {"run again", [](Stage& s) { return s.take(s.session->run(s.inputs)); }, Doing::ran},
    {"run at a new shape", [](Stage& s) { return s.take(s.session->run(s.other)); }, Doing::ran, Doing::of_other},
    {"run behind",
     [](Stage& s) {
       auto started = s.session->run_async(s.inputs, {}, [](const ft::AsyncRun&) {});
       return started.ok() ? s.take(started->outputs()) : started.status();
     }},
    {"values",
     [](Stage& s) {
       auto made = ft::Value::tensor(ft::ElementType::f32, std::array<int64_t, 2>{2, 3});
       if (!made.ok()) return made.status();
       auto lease = made->lease();
       if (!lease.ok()) return lease.status();
       auto over = ft::Value::over(std::move(*lease), ft::ElementType::f32, std::array<int64_t, 1>{6});
       if (!over.ok()) return over.status();
       if (auto list = ft::Value::sequence(ft::ElementType::f32, std::array{*over, *over}); !list.ok())
         return list.status();
       return s.prepared->bind_input(s.model.inputs[0].first, s.model.inputs[0].second);
     },
     Doing::loaded, Doing::no_outputs},
    {"prepared run", [](Stage& s) { return s.prepared->run(); }},
    {"trim",
     [](Stage& s) {
       s.session->trim();
       return ft::Status();
     },
     Doing::ran, Doing::no_outputs},
    {"end",
     [](Stage& s) {
       s.prepared.reset();
       s.session.reset();
       return ft::Status();
     },
     Doing::ran, Doing::no_outputs},
};

struct Way {
  int threads, lanes;
};
class Allocations : public testing::TestWithParam<Way> {
 protected:
  Allocations() { setenv("FORETHOUGHT_LANES", std::to_string(GetParam().lanes).c_str(), 1); }
  ~Allocations() override { unsetenv("FORETHOUGHT_LANES"); }
};

TEST_P(Allocations, EachOfOursFailsOnce) {
  for (const Model& model : models()) {
    const auto load = [&] { return forethought_testing::load(model.bytes, options(GetParam().threads)); };
    const auto want = bits(load().run(named(model.inputs)).value());
    const auto want_other = bits(load().run(named(model.other)).value());
    const int64_t mapped = ft::memory_stats().mapped;
    for (const Doing& doing : kDoings) {
      const bool behind = std::string(doing.name) == "run behind";
      int64_t failed = 0;
      bool more = true;
      int64_t least = 0;
      for (int64_t n = 1; more; ++n) {
        SCOPED_TRACE(std::string(model.name) + ", " + doing.name + ", allocation " + std::to_string(n));
        ASSERT_LT(n, 20'000);
        Stage stage{model, GetParam().threads, {}, {}, named(model.inputs), named(model.other), {}};
        if (doing.before != Doing::nothing) {
          stage.session = load();
          stage.prepared = stage.session->prepare();
          for (const auto& [name, value] : model.inputs) ASSERT_TRUE(stage.prepared->bind_input(name, value).ok());
        }
        if (doing.before == Doing::ran) {
          ASSERT_EQ(bits(stage.session->run(stage.inputs).value()), want);
        }
        std::string where;
        ft::Status status;
        try {
          const FailAllocation failing(n);
          status = doing.act(stage);
          more = failing.triggered();
        } catch (const std::bad_alloc&) {
          ADD_FAILURE() << "thrown at the caller";
          more = false;
        }
        SCOPED_TRACE(forethought::refused_allocation());
        if (HasFailure()) return;
        if (!status.ok()) {
          ++failed;
          ASSERT_TRUE(more) << status.message();
          ASSERT_EQ(status.code(), ft::ErrorCode::exhausted) << status.message();
        } else {
          if (stage.prepared && doing.gives == Doing::of_inputs && stage.outputs.empty()) {
            for (size_t i = 0; i < want.size(); ++i) stage.outputs.push_back(stage.prepared->output(i));
          }
          if (doing.gives != Doing::no_outputs) {
            ASSERT_EQ(bits(stage.outputs), doing.gives == Doing::of_other ? want_other : want);
          }
        }
        stage.outputs.clear();
        stage.prepared.reset();
        if (doing.before == Doing::nothing && !stage.session) stage.session = load();
        if (!stage.session) {
          ASSERT_EQ(ft::memory_stats().mapped, mapped);
          continue;
        }
        ASSERT_EQ(bits(stage.session->run(stage.inputs).value()), want);
        ASSERT_EQ(bits(stage.session->run(stage.other).value()), want_other);
        // A run behind keeps its outputs and its session until its callback is over, which the caller may be ahead of.
        const auto comes_to = [&](int64_t want, auto&& now) {
          const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(behind ? 30 : 0);
          while (now() != want && std::chrono::steady_clock::now() < deadline)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
          return now() == want;
        };
        ASSERT_TRUE(comes_to(0, [&] {
          const ft::MemoryStats m = stage.session->memory_stats();
          return m.planned + m.leased;
        }));
        stage.session.reset();
        ASSERT_TRUE(comes_to(mapped, [] { return ft::memory_stats().mapped; })) << ft::memory_stats().mapped;
        const int64_t blocks = forethought::blocks_in_use();
        if (n == 1) least = blocks;
        least = std::min(least, blocks);
        // The text of an error may or may not take a block; the first runs behind callers, and threads, leave some.
        const int allowed = GetParam().threads > 1 ? 16 : behind ? 4 : 1;
        ASSERT_LE(blocks, least + allowed) << "blocks that nobody gave back";
      }
      const bool must = std::string(doing.name) != "end" && std::string(doing.name) != "trim";
      EXPECT_TRUE(!must || failed > 0) << doing.name;
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Ways, Allocations, testing::Values(Way{1, 1}, Way{2, 2}), [](const auto& way) {
  return "Threads" + std::to_string(way.param.threads) + "Lanes" + std::to_string(way.param.lanes);
});

}  // namespace
