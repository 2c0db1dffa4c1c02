// Weights that come and go with the steps, packed forms that are left out or lie in files, and what limits say of both.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <thread>

#include "graph/text.h"
#include "memory/mapped_file.h"
#include "memory/system.h"
#include "onnx/save/save.h"
#include "onnx/testing.h"
#include "session/memory_report.h"
#include "session/session_testing.h"
#include "session/small_net_testing.h"

namespace forethought {
namespace {

namespace fs = std::filesystem;
using onnx_testing::attr;
using onnx_testing::attrs;
using onnx_testing::Models;
using onnx_testing::node;
using onnx_testing::value;
using testing::HasSubstr;

constexpr int64_t kSize = 512, kWeight = kSize * kSize * 4;
enum class Where { inside, external, unaligned };

// x: f32[rows,512] through so many products with a weight of 1 MiB and a Relu each.
class Chain {
 public:
  explicit Chain(int layers) : layers_(layers) {
    std::mt19937 random(7);
    std::normal_distribution<float> normal(0, 0.06f);
    for (int i = 0; i < layers; ++i) {
      auto& w = values_.emplace_back(static_cast<size_t>(kSize * kSize));
      for (float& v : w) v = normal(random);
    }
  }

  // rows -1: any number.
  void save(const fs::path& path, Where where, int64_t rows) {
    if (where == Where::external) write_data(path.string() + ".data");
    std::string bytes = wire::serialize(model(path, where, rows));
    // Pads names until all weights lie at a multiple of 4 in the file, or all beside one.
    const size_t wanted = where == Where::unaligned ? 1 : 0;
    for (int round = 0; where != Where::external && round < 16; ++round) {
      const size_t first = place(bytes, 0), second = place(bytes, 1), step = second - first - kWeight;
      if (step % 4 == 0 && first % 4 == wanted) break;
      if (step % 4 != 0) {
        each_ += 4 - step % 4;
      } else {
        all_ += (wanted + 4 - first % 4) % 4;
      }
      bytes = wire::serialize(model(path, where, rows));
    }
    std::ofstream(path, std::ios::binary) << bytes;
    if (where == Where::external) return;
    for (int i = 0; i < layers_; ++i) ASSERT_EQ(place(bytes, i) % 4, wanted) << i;
  }

 private:
  size_t place(const std::string& bytes, int layer) const {
    return bytes.find({reinterpret_cast<const char*>(values_[static_cast<size_t>(layer)].data()), 64});
  }
  void write_data(const std::string& path) const {
    std::ofstream out(path, std::ios::binary);
    for (const auto& w : values_) out.write(reinterpret_cast<const char*>(w.data()), kWeight);
  }
  wire::Model model(const fs::path& path, Where where, int64_t rows) {
    wire::Model m = onnx_testing::model(17);
    std::string_view x = "x";
    m.graph.inputs.push_back(value("x", DType::kFloat, {rows, kSize}));
    m.doc = models_.keep(std::string(all_ + 8, 'd'));
    for (int i = 0; i < layers_; ++i) {
      const std::string_view w = models_.keep(fmt::format("w{:03}", i)), y = models_.keep(fmt::format("y{:03}", i)),
                             r = i + 1 == layers_ ? "y" : models_.keep(fmt::format("r{:03}", i));
      wire::Tensor t{.name = w, .dims = {kSize, kSize}, .data_type = static_cast<int32_t>(DType::kFloat)};
      t.doc = models_.keep(std::string(each_ + 8, 'd'));
      if (where == Where::external) {
        t.external = true;
        t.external_data = {{"location", models_.keep(path.filename().string() + ".data")},
                           {"offset", models_.keep(std::to_string(i * kWeight))},
                           {"length", models_.keep(std::to_string(kWeight))}};
      } else {
        t.has_raw = true;
        t.raw = {reinterpret_cast<const char*>(values_[static_cast<size_t>(i)].data()), static_cast<size_t>(kWeight)};
      }
      m.graph.initializers.push_back(std::move(t));
      m.graph.nodes.push_back(node("MatMul", {x, w}, {y}));
      m.graph.nodes.push_back(node("Relu", {y}, {r}));
      x = r;
    }
    m.graph.outputs.push_back(value("y", DType::kFloat, {rows, kSize}));
    return m;
  }

  const int layers_;
  std::vector<std::vector<float>> values_;
  Models models_;
  size_t each_ = 0, all_ = 0;
};

// Bytes of the files below a folder that are in memory for this process now.
int64_t resident_bytes(const fs::path& folder) {
  std::ifstream maps("/proc/self/smaps");
  int64_t kib = 0;
  bool ours = false;
  for (std::string line; std::getline(maps, line);) {
    if (line.find('-') != line.npos && line.find(' ') != line.npos && line.find(':') > line.find('-'))
      ours = line.find(folder.string()) != line.npos;
    if (ours && line.rfind("Rss:", 0) == 0) kib += std::stoll(line.substr(4));
  }
  return kib << 10;
}

// Looks at what is resident before and after each step.
class Watch final : public StepSink {
 public:
  explicit Watch(fs::path folder) : folder_(std::move(folder)) {}
  void on_begin(const StepEvent&) override { look(); }
  void on_step(const StepEvent&) override { look(); }
  int64_t most = 0;

 private:
  void look() { most = std::max(most, resident_bytes(folder_)); }
  const fs::path folder_;
};

class Weights : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(folder_);
    options_.intra_op_threads = 1;
  }
  void TearDown() override {
    MemoryBudget::process()->set_limit(0);
    fs::remove_all(folder_);
    EXPECT_EQ(MemoryBudget::process()->mapped(), obtained_bytes());
    const Status counts = MemoryBudget::process()->audit();
    EXPECT_TRUE(counts.ok()) << counts;
  }
  std::string chain(int layers, Where where, int64_t rows) const {
    const fs::path path = folder_ / fmt::format("{}_{}_{}.onnx", layers, static_cast<int>(where), rows);
    if (!fs::exists(path)) Chain(layers).save(path, where, rows);
    return path.string();
  }
  StatusOr<std::unique_ptr<Session>> load(const std::string& path, std::map<std::string, std::string> config,
                                          int64_t limit = 0) {
    options_.config = std::move(config);
    options_.memory_limit = limit;
    return Session::load(path, options_);
  }
  static std::vector<float> run(Session& session, int64_t rows, StepSink* sink = nullptr) {
    const Value x = random_floats({rows, kSize}, 3);
    std::vector<Value> outputs(1);
    RunOptions how;
    how.sink = sink;
    const Status status = session.run_ordered({&x, 1}, outputs, how);
    EXPECT_TRUE(status.ok()) << status;
    return status.ok() ? floats(outputs[0]) : std::vector<float>();
  }
  std::vector<float> expected(const std::string& path, int64_t rows) {
    auto session = load(path, {{"session.weights", "resident"}}).value();
    return run(*session, rows);
  }
  int64_t in_memory() const { return resident_bytes(folder_); }

  SessionOptions options_;
  const fs::path folder_ = fs::temp_directory_path() / ("forethought_streaming_" + std::to_string(::getpid()));
};

TEST_F(Weights, B1_AModelLargerThanTheLimitRunsInAWindow) {
  constexpr int kLayers = 64;
  for (const Where where : {Where::external, Where::inside}) {
    for (const int64_t limit : {int64_t{0}, int64_t{8} << 20}) {
      const int64_t rows = limit ? 64 : 4;  // packed at each run, or read in place
      const std::string path = chain(kLayers, where, rows);
      const std::vector<float> wanted = expected(path, rows);
      SCOPED_TRACE(fmt::format("where {}, {} rows, limit {}", static_cast<int>(where), rows, limit));
      auto loaded = load(path, {{"session.weights", limit ? "auto" : "streamed"}}, limit);
      ASSERT_TRUE(loaded.ok()) << loaded.status();
      Session& session = **loaded;
      const SessionSummary summary = session.summary();
      EXPECT_TRUE(summary.streams_weights);
      EXPECT_EQ(summary.weights_streamed, kLayers * kWeight);
      EXPECT_LE(summary.weights_window, kWeight + 2 * page_size());
      EXPECT_GE(summary.weights_window, kWeight);
      EXPECT_EQ(summary.packs_left_out, kLayers);
      const int64_t around = 128 << 10;
      for (int i = 0; i < 2; ++i) {
        Watch watch(folder_);
        EXPECT_EQ(run(session, rows, &watch), wanted);
        EXPECT_LE(watch.most, 2 * kWeight + 2 * around);
        EXPECT_LE(in_memory(), around);
      }
      EXPECT_EQ(session.memory_statistics().of(MemoryRole::packed).live, 0);
      EXPECT_EQ(session.memory_statistics().of(MemoryRole::weights).live, 0);
      if (limit) {
        EXPECT_LE(session.memory_statistics().peak, limit);
      }
    }
  }
}

TEST_F(Weights, B1_TheLeastBudgetStreamsAndAPageLessDoesNot) {
  for (const Where where : {Where::external, Where::inside}) {
    const std::string path = chain(16, where, 64);
    const std::vector<float> wanted = expected(path, 64);
    for (const char* mode : {"auto", "streamed"}) {
      const Status refused = load(path, {{"session.weights", mode}}, 1).status();
      ASSERT_EQ(refused.code(), absl::StatusCode::kResourceExhausted) << refused;
      EXPECT_THAT(std::string(refused.message()), HasSubstr("'the weights that one step reads' of node "));
      const int64_t least = least_of(refused);
      // One weight, what a product packs of it at each run, and values.
      EXPECT_GE(least, 2 * kWeight);
      EXPECT_LE(least, 3 * kWeight);
      const Status less = load(path, {{"session.weights", mode}}, least - page_size()).status();
      EXPECT_EQ(least_of(less), least) << less;
      auto session = load(path, {{"session.weights", mode}}, least);
      ASSERT_TRUE(session.ok()) << session.status();
      EXPECT_EQ((*session)->memory_report().least, least);
      for (int i = 0; i < 3; ++i) EXPECT_EQ(run(**session, 64), wanted);
      EXPECT_EQ((*session)->memory_statistics().peak, least);
    }
    const Status resident = load(path, {{"session.weights", "resident"}}, 1).status();
    EXPECT_GT(least_of(resident), 16 * kWeight);
  }
}

TEST_F(Weights, B1_AutomaticTakesWhatTheLimitHolds) {
  const std::string path = chain(16, Where::external, 4);
  const std::vector<float> wanted = expected(path, 4);
  const int64_t weights = 16 * kWeight, rest = 2 << 20;
  const struct {
    int64_t limit;
    bool streams;
    int64_t packed;
    const char* reason;
  } cases[] = {
      {0, false, weights, "resident, as no memory limit"},
      {2 * weights + rest, false, weights, "resident, as the memory limit holds them"},
      {weights + rest, true, weights, "streamed, as the memory limit holds their packed forms alone"},
      {weights / 2, true, 0, "streamed, as the memory limit does not hold them; 16.0 MiB in pages of files, "}};
  for (const auto& c : cases) {
    SCOPED_TRACE(c.reason);
    auto session = load(path, {}, c.limit);
    ASSERT_TRUE(session.ok()) << session.status();
    EXPECT_EQ((*session)->summary().streams_weights, c.streams);
    EXPECT_EQ((*session)->memory_statistics().of(MemoryRole::packed).live, c.packed);
    EXPECT_THAT((*session)->memory_report().weights, HasSubstr(c.reason));
    EXPECT_THAT(to_string((*session)->memory_report()), HasSubstr(c.reason));
    EXPECT_EQ(run(**session, 4), wanted);
  }
  // A limit of the process does the same.
  MemoryBudget::process()->set_limit(weights / 2);
  auto session = load(path, {});
  ASSERT_TRUE(session.ok()) << session.status();
  EXPECT_TRUE((*session)->summary().streams_weights);
  EXPECT_EQ(run(**session, 4), wanted);
}

TEST_F(Weights, B1_RunsAtOnceShareWhatIsReadAndEachTakesAWindow) {
  const std::string path = chain(16, Where::external, -1);
  auto session = load(path, {{"session.weights", "streamed"}}).value();
  auto resident = load(path, {{"session.weights", "resident"}}).value();
  std::vector<std::vector<float>> wanted;
  for (int64_t rows = 1; rows <= 4; ++rows) wanted.push_back(run(*resident, 20 * rows));
  resident.reset();
  const auto all_at_once = [&] {
    std::vector<std::thread> threads;
    for (int64_t t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        for (int64_t i = 0; i < 8; ++i) {
          const int64_t rows = 1 + (t + i) % 4;
          EXPECT_EQ(run(*session, 20 * rows), wanted[static_cast<size_t>(rows - 1)]);
        }
      });
    for (std::thread& t : threads) t.join();
  };
  all_at_once();
  EXPECT_LE(in_memory(), 1 << 20);
  EXPECT_EQ(session->memory_statistics().of(MemoryRole::weights).live, 0);
  // Two runs at once under a limit that holds one: the second is refused as it begins, and the first goes on.
  EXPECT_EQ(run(*session, 80), wanted[3]);
  const int64_t least = session->memory_report().least;
  session->trim();
  ASSERT_TRUE(session->set_memory_limit(least).ok());
  struct Second final : StepSink {
    explicit Second(Session& s) : session(s) {}
    void on_begin(const StepEvent& e) override {
      if (e.step != 3 || e.program->steps.empty()) return;
      const Value x = random_floats({80, kSize}, 3);
      std::vector<Value> outputs(1);
      refused = session.run_ordered({&x, 1}, outputs);
    }
    void on_step(const StepEvent&) override {}
    Session& session;
    Status refused;
  } second(*session);
  EXPECT_EQ(run(*session, 80, &second), wanted[3]);
  EXPECT_EQ(second.refused.code(), absl::StatusCode::kResourceExhausted) << second.refused;
}

// A run that begins while another one goes on, at a limit that holds both if none reads ahead.
TEST_F(Weights, B1_ReadingAheadGivesWay) {
  const std::string path = chain(16, Where::external, -1);
  auto session = load(path, {{"session.weights", "streamed"}}).value();
  const std::vector<float> wanted = run(*session, 80);
  session->trim();
  const int64_t least = session->memory_report().least, idle = session->memory_statistics().mapped;
  ASSERT_TRUE(session->set_memory_limit(2 * least - idle).ok());
  struct Second final : StepSink {
    explicit Second(Session& s) : session(s) {}
    void on_begin(const StepEvent& e) override {
      if (e.step != 3 || std::exchange(began, true)) return;
      ahead = session.memory_statistics().of(MemoryRole::weights).live > session.summary().weights_window;
      const Value x = random_floats({80, kSize}, 3);
      std::vector<Value> outputs(1);
      status = session.run_ordered({&x, 1}, outputs);
    }
    void on_step(const StepEvent&) override {}
    Session& session;
    bool began = false, ahead = false;
    Status status;
  } second(*session);
  EXPECT_EQ(run(*session, 80, &second), wanted);
  EXPECT_TRUE(second.began && second.ahead);
  EXPECT_TRUE(second.status.ok()) << second.status;
  EXPECT_EQ(session->memory_statistics().of(MemoryRole::weights).live, 0);
}

// Of shapes that only runs tell, under whatever limit: which way a load takes depends on it, and with that what runs
// need.
TEST_F(Weights, B1_TheLimitThatARefusedRunNamesWorksForALoadToo) {
  const std::string path = chain(8, Where::external, -1);
  for (const int64_t rows : {1, 100, 700, 3000}) {
    const std::vector<float> wanted = expected(path, rows);
    for (const int64_t limit : {int64_t{4096}, int64_t{1} << 20, int64_t{9} << 20, int64_t{17} << 20}) {
      SCOPED_TRACE(fmt::format("{} rows, limit {}", rows, limit));
      const Value x = random_floats({rows, kSize}, 3);
      const auto within = [&](int64_t bytes) {
        auto session = load(path, {}, bytes);
        if (!session.ok()) return session.status();
        std::vector<Value> outputs(1);
        Status status = (*session)->run_ordered({&x, 1}, outputs);
        EXPECT_TRUE(!status.ok() || floats(outputs[0]) == wanted);
        EXPECT_LE((*session)->memory_statistics().peak, bytes);
        return status;
      };
      const Status status = within(limit);
      if (status.ok()) continue;
      ASSERT_GT(least_of(status), limit) << status;
      const Status then = within(least_of(status));
      EXPECT_TRUE(then.ok()) << status << "\n" << then;
    }
  }
  auto session = load(path, {}, 17 << 20).value();  // the weights and their packed forms
  const Value x = random_floats({3000, kSize}, 3);
  std::vector<Value> outputs(1);
  const Status status = session->run_ordered({&x, 1}, outputs);
  EXPECT_THAT(std::string(status.message()), HasSubstr("the config entry session.weights=streamed would take less"));
}

// A weight that is copied for one reader is not packed for the next one.
TEST_F(Weights, B1_AWeightIsHeldOneWayForAllItsReaders) {
  const std::string path = (folder_ / "twice.onnx").string();
  std::string w;
  for (int i = 0; i < 24 * 24; ++i) w += fmt::format("{}{}.5", i ? "," : "", i % 7);
  for (const bool output : {false, true}) {  // small, so it is copied; and an output, too
    const auto graph = graph_from_text(fmt::format(R"(graph(%x: f32[6,24]) {{
      const %w: f32[24,24] = [{}]
      %q = MatMul(%x, %w)
      %r = MatMul(%q, %w)
      %y = MatMul(%r, %w)
      return %y{}
    }})",
                                                   w, output ? ", %w" : ""));
    ASSERT_TRUE(graph.ok()) << graph.status();
    ASSERT_TRUE(save_model(**graph, path, {.external_from = 16}).ok());
    const int64_t least = least_of(load(path, {{"session.weights", "streamed"}}, 1).status());
    ASSERT_GT(least, 0);
    auto session = load(path, {{"session.weights", "streamed"}}, least);
    ASSERT_TRUE(session.ok()) << session.status();
    EXPECT_EQ((*session)->memory_statistics().of(MemoryRole::packed).live, 0);
    const Value x = random_floats({6, 24}, 3);
    std::vector<Value> outputs(output ? 2 : 1);
    const Status status = (*session)->run_ordered({&x, 1}, outputs);
    EXPECT_TRUE(status.ok()) << status;
  }
}

TEST_F(Weights, B1_SessionsOfOneFileStreamItOrNot) {
  const std::string path = chain(16, Where::external, 4);
  const std::vector<float> wanted = expected(path, 4);
  const auto of_process = [] { return MemoryBudget::process()->statistics().of(MemoryRole::weights).live; };
  auto first = load(path, {{"session.weights", "streamed"}}).value();
  EXPECT_EQ(of_process(), 0);
  auto second = load(path, {{"session.weights", "resident"}, {"session.disable_prepacking", "1"}}).value();
  EXPECT_GE(of_process(), 16 * kWeight);
  EXPECT_LE(of_process(), 16 * kWeight + kWeight);
  auto third = load(path, {{"session.weights", "streamed"}}).value();
  for (Session* s : {first.get(), second.get(), third.get(), first.get()}) EXPECT_EQ(run(*s, 4), wanted);
  EXPECT_EQ(MemoryBudget::process()->mapped(), obtained_bytes());
  first.reset();
  EXPECT_GE(of_process(), 16 * kWeight);
  second.reset();
  EXPECT_EQ(of_process(), 0);
  EXPECT_EQ(run(*third, 4), wanted);
  EXPECT_LE(in_memory(), 1 << 18);
}

TEST_F(Weights, B1_ARunThatEndsEarlyLeavesNoPages) {
  const std::string path = chain(16, Where::external, 4);
  auto session = load(path, {{"session.weights", "streamed"}}).value();
  const Value x = random_floats({4, kSize}, 3);
  for (int steps = 0; steps < 20; ++steps) {
    RunOptions how;
    how.cancel = CancelFlag();
    CancelAfter sink(steps, how.cancel);
    how.sink = &sink;
    std::vector<Value> outputs(1);
    const Status status = session->run_ordered({&x, 1}, outputs, how);
    EXPECT_LE(in_memory(), 256 << 10) << steps << " " << status;
    EXPECT_EQ(session->memory_statistics().of(MemoryRole::weights).live, 0);
  }
}

// Weights in bodies, read at each trip; two of them in branches.
TEST_F(Weights, B1_BodiesReadTheirOwnWithinTheStepThatRunsThem) {
  const auto constant = [](const char* name, uint64_t seed) {
    const Value values = random_floats({128, 128}, seed);
    std::string text = fmt::format("const %{}: f32[128,128] = [", name);
    for (int64_t i = 0; i < 128 * 128; ++i)
      text += fmt::format("{}{:.6f}", i ? ", " : "", values.tensor().as<float>()[i] * 0.05f);
    return text + "]\n";
  };
  const std::string net = "graph(%x: f32[4,128], %n: i64[], %go: bool[]) {\n" + constant("w0", 1) +
                          constant("captured", 6) + R"(
    %a = MatMul(%x, %w0)
    %b = Loop(%n, bool true, %a; %captured) {
      body: graph(%i: i64[], %more: bool[], %s: f32[4,128], %wc: f32[128,128]) {
)" + constant("w1", 2) + constant("w2", 3) +
                          R"(
        %p = MatMul(%s, %w1)
        %q = Tanh(%p)
        %r = MatMul(%q, %w2)
        %z = MatMul(%r, %wc)
        %co = Identity(%more)
        return %co, %z
      }
    }
    %c = If(%go; %b) {
      then_branch: graph(%f: f32[4,128]) {
)" + constant("w3", 4) + R"(
        %t = MatMul(%f, %w3)
        return %t
      }
      else_branch: graph(%g: f32[4,128]) {
)" + constant("w4", 5) + R"(
        %e = MatMul(%g, %w4)
        return %e
      }
    }
    %y = Softmax(%c)
    return %y
  })";
  const std::string path = (folder_ / "bodies.onnx").string();
  auto graph = graph_from_text(net);
  ASSERT_TRUE(graph.ok()) << graph.status();
  ASSERT_TRUE(save_model(**graph, path, {.external_from = 1024}).ok());
  const auto run_net = [&](Session& session, bool go) {
    const Value inputs[] = {random_floats({4, 128}, 3), Value(tensor_of<int64_t>({}, {5})),
                            Value(tensor_of<bool>({}, {go}))};
    std::vector<Value> outputs(1);
    const Status status = session.run_ordered(inputs, outputs);
    EXPECT_TRUE(status.ok()) << status;
    return status.ok() ? floats(outputs[0]) : std::vector<float>();
  };
  auto resident = load(path, {{"session.weights", "resident"}}).value();
  auto streamed = load(path, {{"session.weights", "streamed"}}).value();
  EXPECT_EQ(streamed->summary().weights_streamed, 6 * 128 * 128 * 4);
  EXPECT_EQ(streamed->summary().weights_window, 128 * 128 * 4);
  for (const bool go : {true, false, true}) {
    EXPECT_EQ(run_net(*streamed, go), run_net(*resident, go));
    EXPECT_LE(in_memory(), 6 * 128 * 128 * 4 + (128 << 10));
  }
  resident.reset();
  EXPECT_EQ(run_net(*streamed, true).size(), 4u * 128);
  EXPECT_LE(in_memory(), 128 << 10);
}

TEST_F(Weights, B1_WhatCannotBeStreamedIsChargedAndNamed) {
  const std::string path = chain(4, Where::unaligned, 4);
  const std::vector<float> wanted = expected(path, 4);
  // Products read what is unaligned in packed form: it would have to be copied otherwise.
  auto session = load(path, {{"session.weights", "streamed"}}).value();
  EXPECT_EQ(run(*session, 4), wanted);
  EXPECT_EQ(session->memory_statistics().of(MemoryRole::packed).live, 4 * kWeight);
  EXPECT_THAT(session->memory_report().weights,
              HasSubstr("4 packed forms are made all the same (4.0 MiB): 'w000' (1.0 MiB: it is read in packed form"));
  session = load(path, {{"session.weights", "streamed"}, {"session.disable_prepacking", "1"}}).value();
  EXPECT_EQ(run(*session, 4), wanted);
  EXPECT_EQ(session->memory_statistics().of(MemoryRole::packed).live, 0);
  EXPECT_EQ(session->memory_statistics().of(MemoryRole::weights).live, 4 * kWeight);
  EXPECT_THAT(session->memory_report().weights,
              HasSubstr("4 constants stay in memory (4.0 MiB): 'w000' (1.0 MiB: its place in the file does not suit"));
  // A folder holds copies at places that do, which is what a limit's error says.
  EXPECT_THAT(std::string(load(path, {}, kWeight).status().message()),
              HasSubstr("the config entry session.packed_weights_path would take less"));
  const std::string folder = (folder_ / "packs").string();
  session = load(path, {{"session.weights", "streamed"}, {"session.packed_weights_path", folder}}).value();
  EXPECT_EQ(run(*session, 4), wanted);
  EXPECT_EQ(session->memory_statistics().live, 0);
  EXPECT_EQ(session->summary().weights_streamed, 4 * kWeight);

  // An output, what was made at load, and a model that came as bytes.
  const std::string other = (folder_ / "kept.onnx").string();
  std::string t;
  for (int i = 0; i < 4 * 512; ++i) t += fmt::format("{}{}", i ? "," : "", i % 100);
  const auto graph = graph_from_text(fmt::format(R"(graph(%x: f32[4,512]) {{
    const %t: f32[4,512] = [{}]
    %made = Expand(0.5, [4, 512])
    const %s: f32[2] = [0.5, 0.25]
    %half = Gather(%s, i64 1)
    %a = Mul(%x, %t)
    %b = Mul(%a, %half)
    %y = Add(%b, %made)
    %z = Tile(%s, [2])
    return %y, %t, %z
  }})",
                                                 t));
  ASSERT_TRUE(graph.ok()) << graph.status();
  ASSERT_TRUE(save_model(**graph, other, {.external_from = 16}).ok());
  options_.optimization_level = OptimizationLevel::disabled;
  session = load(other, {{"session.weights", "streamed"}}).value();
  const std::string told = session->memory_report().weights;
  EXPECT_THAT(told, HasSubstr("'t' (8.0 KiB: it is an output of the graph)"));
  EXPECT_THAT(told, HasSubstr("'s' (8 bytes: it is small)"));
  options_.optimization_level = OptimizationLevel::all;
  session = load(other, {{"session.weights", "streamed"}}).value();
  EXPECT_THAT(session->memory_report().weights, HasSubstr("(8.0 KiB: it was made at load)"));
  const Value x = random_floats({4, 512}, 1);
  std::vector<Value> outputs(3);
  ASSERT_TRUE(session->run_ordered({&x, 1}, outputs).ok());
  EXPECT_EQ(floats(outputs[1])[9], 9);
}

TEST_F(Weights, B2_PackedFormsCanBeLeftOut) {
  const std::string path = (folder_ / "small.onnx").string();
  ASSERT_TRUE(save_model(**graph_from_text(small_net()), path).ok());
  const Value x = random_floats({1, 3, 20, 20}, 1);
  const auto run_net = [&](Session& session) {
    std::vector<Value> outputs(2);
    const Status status = session.run_ordered({&x, 1}, outputs);
    EXPECT_TRUE(status.ok()) << status;
    return outputs;
  };
  auto with = load(path, {}).value();
  auto without = load(path, {{"session.disable_prepacking", "1"}}).value();
  const std::vector<Value> wanted = run_net(*with), got = run_net(*without);
  for (size_t o = 0; o < wanted.size(); ++o) EXPECT_EQ(floats(got[o]), floats(wanted[o]));
  EXPECT_GT(with->memory_statistics().of(MemoryRole::packed).live, 10000);
  EXPECT_EQ(with->summary().packs_left_out, 0);
  EXPECT_LT(without->memory_statistics().of(MemoryRole::packed).live, 200);  // of what kernels cannot do without
  EXPECT_GE(without->summary().packs_left_out, 5);
  EXPECT_THAT(without->memory_report().weights, HasSubstr("packed forms ("));
  EXPECT_THAT(without->memory_report().weights, HasSubstr("are left out"));
  std::map<std::string, std::string> config = {{"session.disable_prepacking", "0"}};
  EXPECT_EQ(load(path, config).value()->summary().packs_left_out, 0);
}

class PackFiles : public Weights {
 protected:
  StatusOr<std::unique_ptr<Session>> load_with(const std::string& path, const char* mode = "resident") {
    return load(path, {{"session.weights", mode}, {"session.packed_weights_path", packs_}});
  }
  std::vector<fs::path> files() const {
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(packs_)) found.push_back(entry.path());
    std::ranges::sort(found);
    return found;
  }
  const std::string packs_ = (folder_ / "packs").string();
};

TEST_F(PackFiles, B2_ALaterLoadMapsWhatAnEarlierOnePacked) {
  const std::string path = chain(4, Where::external, 4);
  const std::vector<float> wanted = expected(path, 4);
  for (const char* mode : {"resident", "streamed", "packed", "auto"}) {
    fs::remove_all(packs_);
    const bool streams = mode == std::string("streamed") || mode == std::string("packed");
    for (const bool again : {false, true}) {
      auto session = load_with(path, mode).value();
      EXPECT_EQ(session->summary().packs_written, again ? 0 : 4);
      EXPECT_EQ(session->summary().packs_read, again ? 4 : 0);
      EXPECT_EQ(session->summary().packs_left_out, 0);
      EXPECT_EQ(session->memory_statistics().of(MemoryRole::packed).mapped(), streams ? 0 : 4 * (kWeight + 4096));
      EXPECT_EQ(run(*session, 4), wanted);
      EXPECT_EQ(files().size(), 4u);
      if (streams) {
        EXPECT_EQ(session->summary().weights_streamed, 4 * kWeight);
        EXPECT_LE(in_memory(), 128 << 10);
      }
    }
  }
  // Two sessions map one file; it counts once.
  auto one = load_with(path).value(), two = load_with(path).value();
  EXPECT_EQ(MemoryBudget::process()->statistics().of(MemoryRole::packed).mapped(), 4 * (kWeight + 4096));
  EXPECT_EQ(MemoryBudget::process()->mapped(), obtained_bytes());
}

TEST_F(PackFiles, B2_AFileThatLiesIsNeverTrusted) {
  const std::string path = chain(2, Where::external, 4);
  const std::vector<float> wanted = expected(path, 4);
  load_with(path).value();
  const std::vector<fs::path> kept = files();
  ASSERT_EQ(kept.size(), 2u);
  std::ifstream in(kept[0], std::ios::binary);
  const std::string right((std::istreambuf_iterator<char>(in)), {});
  const auto write = [&](const std::string& bytes) { std::ofstream(kept[0], std::ios::binary) << bytes; };
  const auto is_made_anew = [&](const std::string& what) {
    SCOPED_TRACE(what);
    auto session = load_with(path);
    ASSERT_TRUE(session.ok()) << session.status();
    EXPECT_EQ((*session)->summary().packs_written, 1);
    EXPECT_EQ((*session)->summary().packs_read, 1);
    EXPECT_EQ(run(**session, 4), wanted);
    session->reset();
    std::ifstream again(kept[0], std::ios::binary);
    EXPECT_TRUE(std::string((std::istreambuf_iterator<char>(again)), {}) == right);
  };
  std::mt19937 random(5);
  for (size_t i = 0; i < 60; ++i) {
    // Every field of the header, then anywhere.
    const size_t at = i < 24 ? i * 4 : i < 40 ? random() % 1200 : 4096 + random() % (right.size() - 4096);
    if (at >= 1200 && at < 4096) continue;
    std::string bytes = right;
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8));
    write(bytes);
    is_made_anew(fmt::format("byte {} of {}", at, right.size()));
  }
  for (const size_t size : {size_t{0}, size_t{1}, size_t{100}, size_t{4095}, size_t{4096}, right.size() - 1}) {
    write(right.substr(0, size));
    is_made_anew(fmt::format("{} bytes of {}", size, right.size()));
  }
  write(right + "x");
  is_made_anew("a byte more");
  write(std::string(right.size(), 'x'));
  is_made_anew("another kind of file");
  fs::remove(kept[0]);
  fs::copy_file(kept[1], kept[0]);
  is_made_anew("the file of another weight");
  fs::remove(kept[0]);
  fs::create_symlink(kept[1], kept[0]);
  is_made_anew("a link to it");
  fs::remove(kept[0]);
  is_made_anew("no file");

  // A folder in its place cannot be written over: the form is made in memory.
  fs::remove(kept[0]);
  fs::create_directory(kept[0]);
  std::ofstream(kept[0] / "in the way") << "x";
  auto session = load_with(path).value();
  EXPECT_EQ(session->summary().packs_written, 0);
  EXPECT_EQ(run(*session, 4), wanted);
  EXPECT_EQ(files().size(), 2u);  // nothing unfinished is left
}

TEST_F(PackFiles, B2_AnotherWeightHasAnotherFile) {
  load_with(chain(2, Where::external, 4)).value();
  EXPECT_EQ(files().size(), 2u);
  load_with(chain(3, Where::inside, -1)).value();  // two of them are the same
  EXPECT_EQ(files().size(), 3u);
}

TEST_F(PackFiles, B2_WhatProcessesLeftUnfinishedGoes) {
  const std::string path = chain(1, Where::external, 4);
  fs::create_directory(packs_);
  const std::string name = "0123456789abcdef0123456789abcdef.pack";
  const auto put = [&](const std::string& file, std::chrono::hours age) {
    std::ofstream(fs::path(packs_) / file) << "text";
    fs::last_write_time(fs::path(packs_) / file, fs::file_time_type::clock::now() - age);
  };
  put(name + ".0000000000000077.part", std::chrono::hours(2));
  put(name + ".0000000000000078.part", std::chrono::hours(0));  // may be under way
  put(name, std::chrono::hours(2));
  put("mine.part", std::chrono::hours(2));
  ASSERT_TRUE(load_with(path).ok());
  std::vector<std::string> left;
  for (const fs::path& file : files()) left.push_back(file.filename().string());
  EXPECT_THAT(left, testing::UnorderedElementsAre(name, name + ".0000000000000078.part", "mine.part",
                                                  testing::EndsWith(".pack")));
}

// What processes with this one's number left, in another container or before a restart, blocks nothing.
TEST_F(PackFiles, B2_WhatANamesakeLeftUnfinishedBlocksNothing) {
  const std::string path = chain(2, Where::external, 4);
  ASSERT_TRUE(load_with(path).ok());
  const std::vector<fs::path> kept = files();
  for (const fs::path& file : kept) {
    fs::remove(file);
    for (int i = 0; i < 1000; ++i) std::ofstream(fmt::format("{}.{}.{}.part", file.string(), ::getpid(), i)) << "text";
  }
  auto session = load_with(path);
  ASSERT_TRUE(session.ok()) << session.status();
  EXPECT_EQ((*session)->summary().packs_written, static_cast<int64_t>(kept.size()));
}

TEST_F(PackFiles, B2_ManyWriteAtOnce) {
  const std::string path = chain(4, Where::external, 4);
  const std::vector<float> wanted = expected(path, 4);
  SessionOptions options = options_;
  options.config = {{"session.weights", "streamed"}, {"session.packed_weights_path", packs_}};
  for (int round = 0; round < 3; ++round) {
    fs::remove_all(packs_);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&] {
        auto session = Session::load(path, options);
        ASSERT_TRUE(session.ok()) << session.status();
        EXPECT_EQ(run(**session, 4), wanted);
      });
    for (std::thread& t : threads) t.join();
    EXPECT_EQ(files().size(), 4u);
  }
}

TEST_F(Weights, B2_OptionsThatCannotBeSaySo) {
  const std::string path = chain(2, Where::external, 4);
  std::ofstream(folder_ / "file") << "x";
  const struct {
    std::map<std::string, std::string> config;
    const char* says;
  } cases[] = {
      {{{"session.weights", "stream"}}, "session.weights is 'stream'; it is to be auto, resident, packed or streamed"},
      {{{"session.weights", ""}}, "session.weights is ''"},
      {{{"session.disable_prepacking", "true"}}, "session.disable_prepacking is 'true'; it is to be 0 or 1"},
      {{{"session.disable_prepacking", "1 "}}, "it is to be 0 or 1"},
      {{{"session.packed_weights_path", ""}}, "session.packed_weights_path is empty; give the path of a folder"},
      {{{"session.packed_weights_path", std::string("a\0b", 3)}}, "holds a byte of 0"},
      {{{"session.packed_weights_path", (folder_ / "file").string()}}, "is no folder"},
      {{{"session.packed_weights_path", (folder_ / "none" / "packs").string()}}, "No such file or directory"},
      {{{"session.packed_weights_path", "p"}, {"session.disable_prepacking", "1"}}, "give one of the two"},
  };
  for (const auto& c : cases) {
    const Status refused = load(path, c.config).status();
    EXPECT_TRUE(is_wrong_option(refused)) << refused;
    EXPECT_THAT(std::string(refused.message()), HasSubstr(c.says));
  }
}

}  // namespace
}  // namespace forethought
