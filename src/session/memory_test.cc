// Limits that name who holds what and what would do, statistics that add up, caps, trim, sources, and failures.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <regex>
#include <thread>

#include "graph/text.h"
#include "memory/mapped_file.h"
#include "memory/system.h"
#include "onnx/save/save.h"
#include "session/memory_report.h"
#include "session/session_testing.h"
#include "session/small_net_testing.h"

namespace forethought {
namespace {

using testing::HasSubstr;

constexpr const char* kAnyLength = R"(graph(%x: f32[N,256]) {
  const %w: f32[1] = [2]
  %a = Mul(%x, %w) "/scale"
  %b = Transpose<perm=[1, 0]>(%a) "/turn"
  %c = Sigmoid(%b) "/squash"
  %y = Transpose<perm=[1, 0]>(%c) "/back"
  return %y
})";

// How often a holder stands in the message: "(weights, 1.0 KiB)".
int holders_in(const Status& refused) {
  const std::string message(refused.message());
  const std::regex holder(R"(\((weights|packed|planned|leased|unplanned), )");
  return static_cast<int>(std::distance(std::sregex_iterator(message.begin(), message.end(), holder), {}));
}

// While nobody else takes or returns memory.
void expect_adds_up() {
  const MemoryStatistics s = MemoryBudget::process()->statistics();
  EXPECT_EQ(s.mapped, obtained_bytes());
  EXPECT_EQ(MemoryBudget::process()->mapped(), obtained_bytes());
  const Status counts = MemoryBudget::process()->audit();
  EXPECT_TRUE(counts.ok()) << counts;
  EXPECT_EQ(s.mapped, s.live + s.retained + s.padding);
  int64_t live = 0;
  for (const MemoryUse& use : s.roles) live += use.live;
  EXPECT_EQ(s.live, live);
  EXPECT_GE(s.peak, s.mapped);
}

class MemoryTest : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(folder_);
    options_.intra_op_threads = 1;
  }
  void TearDown() override {
    MemoryBudget::process()->set_limit(0);
    std::filesystem::remove_all(folder_);
    expect_adds_up();
  }
  std::string file_of(const std::string& text) {
    const std::string path = (folder_ / "model.onnx").string();
    const auto graph = graph_from_text(text).value();
    EXPECT_TRUE(save_model(*graph, path).ok());
    return path;
  }
  StatusOr<std::unique_ptr<Session>> load(const std::string& path, int64_t limit) {
    options_.memory_limit = limit;
    options_.optimization_level = OptimizationLevel::all;
    return Session::load(path, options_);
  }
  StatusOr<std::unique_ptr<Session>> from_text(const std::string& text, int64_t limit) {
    options_.memory_limit = limit;
    // As it stands: what is turned there and back again would be left out.
    options_.optimization_level = text == kAnyLength ? OptimizationLevel::disabled : OptimizationLevel::all;
    return Session::from_graph(graph_from_text(text).value(), options_);
  }
  static Status run(Session& session, const Value& input, std::vector<Value>* outputs) {
    outputs->assign(session.outputs().size(), Value());
    return session.run_ordered({&input, 1}, *outputs);
  }

  SessionOptions options_;
  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("forethought_memory_" + std::to_string(::getpid()));
};

TEST_F(MemoryTest, Check35TheLeastBudgetAtLoadWorksAndAPageLessDoesNot) {
  const std::string path = file_of(small_net());
  const std::function<StatusOr<std::unique_ptr<Session>>(int64_t)> ways[] = {
      [&](int64_t limit) { return load(path, limit); }, [&](int64_t limit) { return from_text(small_net(), limit); }};
  for (const auto& make : ways) {
    int64_t least = 0;
    for (const int64_t limit : {int64_t{1}, int64_t{20000}, int64_t{100000}}) {  // below the file, the packs, the slab
      const Status refused = make(limit).status();
      ASSERT_EQ(refused.code(), absl::StatusCode::kResourceExhausted) << refused;
      EXPECT_EQ(holders_in(refused), 5) << refused;
      EXPECT_THAT(std::string(refused.message()), HasSubstr("of node"));
      if (least == 0) least = least_of(refused);
      EXPECT_EQ(least_of(refused), least) << refused;
      expect_adds_up();
    }
    ASSERT_GT(least, 100000);
    const Status refused = make(least - page_size()).status();
    EXPECT_EQ(least_of(refused), least) << refused;
    EXPECT_FALSE(make(least - 1).ok());
    auto session = make(least);
    ASSERT_TRUE(session.ok()) << session.status();
    EXPECT_EQ((*session)->memory_report().least, least);
    std::vector<Value> outputs;
    for (int i = 0; i < 3; ++i) {
      outputs.clear();
      const Status status = run(**session, random_floats({1, 3, 20, 20}, 1), &outputs);
      ASSERT_TRUE(status.ok()) << status;
    }
    EXPECT_EQ((*session)->memory_statistics().peak, least);
    expect_adds_up();
  }
}

TEST_F(MemoryTest, Check35TheLeastBudgetAtRunCountsOutputsThatAreHeld) {
  auto session = from_text(kAnyLength, 1 << 20).value();
  std::vector<std::vector<Value>> held;
  Status refused;
  for (int i = 0; i < 100 && refused.ok(); ++i)
    refused = run(*session, random_floats({100, 256}, 1), &held.emplace_back());
  ASSERT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  held.pop_back();
  ASSERT_GT(held.size(), 3u);
  EXPECT_THAT(std::string(refused.message()), HasSubstr(absl::StrCat("'y' (leased, ", held.size(), " held, ")));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("of node /turn (Transpose) (planned"));
  const int64_t least = least_of(refused);
  ASSERT_GT(least, 1 << 20);
  std::vector<Value> outputs;
  ASSERT_TRUE(session->set_memory_limit(least - page_size()).ok());
  EXPECT_EQ(least_of(run(*session, random_floats({100, 256}, 1), &outputs)), least);
  ASSERT_TRUE(session->set_memory_limit(least).ok());
  const Status works = run(*session, random_floats({100, 256}, 1), &outputs);
  EXPECT_TRUE(works.ok()) << works;
  expect_adds_up();
  // Shapes that need more are refused with what they need; then what is released makes room.
  const Status larger = run(*session, random_floats({150, 256}, 1), &outputs);
  ASSERT_FALSE(larger.ok());
  EXPECT_GT(least_of(larger), 0);
  held.clear();
  EXPECT_TRUE(run(*session, random_floats({150, 256}, 1), &outputs).ok());
  EXPECT_LE(session->memory_statistics().peak, session->memory_statistics().limit);
}

TEST_F(MemoryTest, Check35TheLeastBudgetOfTheProcessCountsOtherSessions) {
  options_.config["session.weights"] = "resident";
  const std::string path = file_of(small_net());
  auto other = from_text(kAnyLength, 0).value();
  std::vector<Value> held, outputs;
  ASSERT_TRUE(run(*other, random_floats({100, 256}, 1), &held).ok());
  MemoryBudget& process = *MemoryBudget::process();
  int64_t least = 0;
  for (const bool kept : {true, false}) {  // what the other keeps makes room for the load, not for the first run
    if (!kept) other->trim();
    process.set_limit(process.statistics().mapped + 1000);
    const Status refused = load(path, 0).status();
    ASSERT_EQ(refused.code(), absl::StatusCode::kResourceExhausted) << refused;
    EXPECT_THAT(std::string(refused.message()), HasSubstr("process's memory limit"));
    if (kept) least = least_of(refused);
    EXPECT_EQ(least_of(refused), least) << refused;
  }
  process.set_limit(least - page_size());
  EXPECT_EQ(least_of(load(path, 0).status()), least);
  process.set_limit(least);
  auto session = load(path, 0);
  ASSERT_TRUE(session.ok()) << session.status();
  const Status works = run(**session, random_floats({1, 3, 20, 20}, 1), &outputs);
  EXPECT_TRUE(works.ok()) << works;
  EXPECT_LE(process.statistics().mapped, least);
}

TEST_F(MemoryTest, SessionsOfAFileShareItAndItsPacks) {
  const std::string path = file_of(small_net());
  MemoryBudget& process = *MemoryBudget::process();
  const int64_t before = process.mapped();
  auto first = load(path, 0).value();
  const int64_t one = process.mapped() - before;
  const MemoryStatistics alone = first->memory_statistics();
  EXPECT_EQ(one, alone.mapped);
  EXPECT_GT(alone.of(MemoryRole::weights).live, 0);
  EXPECT_GT(alone.of(MemoryRole::packed).live, 0);
  auto second = load(path, 0).value();
  EXPECT_EQ(second->memory_statistics().mapped, alone.mapped);
  EXPECT_EQ(process.mapped() - before, one);
  // Beside the file and the packs there is a copy of what lies unaligned in the file: the addend of the Gemm.
  const int64_t file = Pages::rounded(static_cast<int64_t>(std::filesystem::file_size(path)));
  EXPECT_LE(one, alone.of(MemoryRole::packed).mapped() + file + 64);
  expect_adds_up();
  first.reset();
  EXPECT_EQ(process.mapped() - before, one);
  expect_adds_up();
  second.reset();
  EXPECT_EQ(process.mapped(), before);
}

TEST_F(MemoryTest, Check20StatisticsAddUpThroughALife) {
  auto session = from_text(kAnyLength, 0).value();
  std::vector<std::vector<Value>> held;
  for (int i = 0; i < 40; ++i) {
    ASSERT_TRUE(run(*session, random_floats({1 + i * 7 % 90, 256}, 1), &held.emplace_back()).ok());
    expect_adds_up();
    if (i % 3 == 0) held.erase(held.begin());
    expect_adds_up();
    const MemoryStatistics s = session->memory_statistics();
    EXPECT_EQ(s.of(MemoryRole::planned).live, 0);
    int64_t bytes = 0;
    for (const auto& outputs : held) bytes += outputs[0].tensor().bytes();
    EXPECT_EQ(s.of(MemoryRole::leased).live, bytes);
    if (i % 10 == 9) {
      EXPECT_EQ(session->trim(), s.retained);
      EXPECT_EQ(session->memory_statistics().retained, 0);
      expect_adds_up();
    }
  }
  session.reset();
  expect_adds_up();  // the leases are counted still
  EXPECT_GT(obtained_bytes(), 0);
  held.clear();
}

TEST_F(MemoryTest, Check18ABurstOnOneArenaLeavesTheOtherAlone) {
  options_.retention = {.execution = 1 << 20, .io = 1 << 20, .side = 0};
  auto session = from_text(kAnyLength, 0).value();
  std::vector<Value> outputs;
  ASSERT_TRUE(run(*session, random_floats({64, 256}, 1), &outputs).ok());
  const int64_t execution = session->memory_statistics().of(MemoryRole::planned).retained;
  ASSERT_GT(execution, 0);
  std::vector<std::vector<Value>> held(1000);
  for (auto& o : held) ASSERT_TRUE(run(*session, random_floats({64, 256}, 1), &o).ok());
  EXPECT_EQ(session->memory_statistics().of(MemoryRole::planned).retained, execution);
  held.clear();
  EXPECT_LE(session->memory_statistics().of(MemoryRole::leased).retained, 1 << 20);
  EXPECT_EQ(session->memory_statistics().of(MemoryRole::planned).retained, execution);
  outputs.clear();
  const int64_t io = session->memory_statistics().of(MemoryRole::leased).retained;
  ASSERT_GT(io, 1 << 19);
  ASSERT_TRUE(run(*session, random_floats({64, 256}, 1), &outputs).ok());
  std::vector<Value> bound(1);
  bound[0] = random_floats({4000, 256}, 2);  // its own memory: only the slab spikes
  const Value large = random_floats({4000, 256}, 1);
  ASSERT_TRUE(session->run_ordered({&large, 1}, bound).ok());
  outputs.clear();
  EXPECT_EQ(session->memory_statistics().of(MemoryRole::leased).retained, io);
  EXPECT_LE(session->memory_statistics().of(MemoryRole::planned).retained, 1 << 20);
}

TEST_F(MemoryTest, Check19LoweringACapGivesBackAtOnceButNothingLive) {
  options_.retention = {.execution = 1 << 24, .io = 1 << 24, .side = 1 << 24};
  auto session = from_text(kAnyLength, 0).value();
  std::vector<std::vector<Value>> held(4);
  for (auto& o : held) ASSERT_TRUE(run(*session, random_floats({64, 256}, 1), &o).ok());
  held.resize(1);
  const MemoryStatistics before = session->memory_statistics();
  ASSERT_EQ(before.of(MemoryRole::leased).retained, 3 * (64 << 10));
  ASSERT_TRUE(session->set_retention({.execution = 1 << 24, .io = 64 << 10, .side = 0}).ok());
  MemoryStatistics s = session->memory_statistics();
  EXPECT_EQ(s.of(MemoryRole::leased).retained, 64 << 10);
  EXPECT_EQ(s.of(MemoryRole::leased).live, 64 << 10);
  EXPECT_EQ(s.of(MemoryRole::planned).retained, before.of(MemoryRole::planned).retained);
  const int64_t target = s.retained - 1000;
  const int64_t freed = session->trim(target);
  EXPECT_EQ(session->memory_statistics().retained, s.retained - freed);
  EXPECT_LE(session->memory_statistics().retained, target);
  ASSERT_TRUE(session->set_retention({.execution = 0, .io = 0, .side = 0}).ok());
  s = session->memory_statistics();
  EXPECT_EQ(s.retained, 0);
  EXPECT_EQ(s.of(MemoryRole::leased).live, 64 << 10);
  std::vector<Value> outputs;
  ASSERT_TRUE(run(*session, random_floats({64, 256}, 1), &outputs).ok());
  outputs.clear();
  EXPECT_EQ(session->memory_statistics().retained, 0);
}

TEST_F(MemoryTest, TheDefaultCapsFollowThePlan) {
  auto session = from_text(kAnyLength, 0).value();
  std::vector<std::vector<Value>> held(50);
  for (auto& o : held) ASSERT_TRUE(run(*session, random_floats({1000, 256}, 1), &o).ok());
  held.clear();
  const MemoryStatistics s = session->memory_statistics();
  const int64_t output = 1000 * 256 * 4;
  EXPECT_LE(s.of(MemoryRole::leased).retained, 2 * output + 2 * output / 4);
  EXPECT_GE(s.of(MemoryRole::leased).retained, output);
  EXPECT_LE(s.of(MemoryRole::planned).retained, session->summary().peak * 5 / 4 + page_size());
  EXPECT_GT(s.of(MemoryRole::planned).retained, 0);
}

TEST_F(MemoryTest, BadLimitsAndCapsAreRefusedByName) {
  struct Case {
    std::function<void(SessionOptions*)> set;
    const char* says;
  };
  const Case cases[] = {
      {[](SessionOptions* o) { o->memory_limit = -1; }, "-1 bytes; 0 stands for none"},
      {[](SessionOptions* o) { o->memory_limit = std::numeric_limits<int64_t>::max(); }, "more than any machine has"},
      {[](SessionOptions* o) { o->retention.execution = -2; }, "execution arena cannot keep -2 bytes"},
      {[](SessionOptions* o) { o->retention.io = -5; }, "I/O arena cannot keep -5 bytes"},
      {[](SessionOptions* o) { o->retention.side = std::numeric_limits<int64_t>::min(); }, "side arena cannot keep"},
      {[](SessionOptions* o) { o->idle_trim_ms = -1; }, "-1 ms"},
  };
  for (const Case& c : cases) {
    SessionOptions options;
    c.set(&options);
    const auto session = Session::from_graph(graph_from_text(kAnyLength).value(), options);
    ASSERT_FALSE(session.ok()) << c.says;
    EXPECT_THAT(std::string(session.status().message()), HasSubstr(c.says));
  }
  auto session = from_text(kAnyLength, 0).value();
  EXPECT_THAT(std::string(session->set_retention({.io = -3}).message()), HasSubstr("-3 bytes"));
  EXPECT_THAT(std::string(session->set_memory_limit(-3).message()), HasSubstr("-3 bytes"));
  std::vector<Value> held;
  ASSERT_TRUE(run(*session, random_floats({64, 256}, 1), &held).ok());
  const Status below = session->set_memory_limit(1000);
  EXPECT_EQ(below.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(below.message()), HasSubstr("are in use"));
  EXPECT_EQ(session->memory_statistics().limit, 0);
  ::setenv("FORETHOUGHT_MEMORY_LIMIT", "lots", 1);
  const Status knob = from_text(kAnyLength, 0).status();
  ::unsetenv("FORETHOUGHT_MEMORY_LIMIT");
  EXPECT_THAT(std::string(knob.message()), HasSubstr("FORETHOUGHT_MEMORY_LIMIT › 'lots' is no size of memory"));
}

TEST_F(MemoryTest, AnIdleSessionGivesBackWhatItKeeps) {
  options_.idle_trim_ms = 2;
  auto session = from_text(kAnyLength, 0).value();
  std::vector<Value> held;
  for (int round = 0; round < 3; ++round) {
    ASSERT_TRUE(run(*session, random_floats({64, 256}, 1), &held).ok());
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (session->memory_statistics().retained > 0 && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_EQ(session->memory_statistics().retained, 0);
    EXPECT_EQ(session->memory_statistics().of(MemoryRole::leased).live, 64 << 10);
  }
}

// Gives from the heap, off by `skew` bytes.
struct TestSource : MemorySource {
  void* allocate(size_t bytes, size_t alignment) override {
    if (empty) return nullptr;
    ++blocks;
    return static_cast<std::byte*>(std::aligned_alloc(alignment, bytes + alignment)) + skew;
  }
  void release(void* data, size_t) override {
    --blocks;
    std::free(static_cast<std::byte*>(data) - skew);
  }
  std::atomic<int64_t> blocks{0};
  int64_t skew = 0;
  bool empty = false;
};

TEST_F(MemoryTest, ArenasOfTheCallersMemory) {
  const auto execution = std::make_shared<TestSource>(), io = std::make_shared<TestSource>();
  options_.execution_source = execution;
  options_.io_source = io;
  auto session = from_text(kAnyLength, 0).value();
  SessionOptions unoptimized;
  unoptimized.optimization_level = OptimizationLevel::disabled;
  auto plain = session_of(kAnyLength, unoptimized);
  std::vector<Value> outputs, wanted;
  ASSERT_TRUE(run(*session, random_floats({64, 256}, 1), &outputs).ok());
  ASSERT_TRUE(run(*plain, random_floats({64, 256}, 1), &wanted).ok());
  EXPECT_EQ(floats(outputs[0]), floats(wanted[0]));
  EXPECT_EQ(execution->blocks, 1);
  EXPECT_EQ(io->blocks, 1);
  expect_adds_up();
  session.reset();
  EXPECT_EQ(execution->blocks, 0);
  EXPECT_EQ(io->blocks, 1);  // the lease holds its source
  EXPECT_EQ(floats(outputs[0]), floats(wanted[0]));
  outputs.clear();
  EXPECT_EQ(io->blocks, 0);
  for (const auto& [source, says] : {std::pair{execution, "the execution slab"}, std::pair{io, "y"}}) {
    auto again = from_text(kAnyLength, 0).value();
    source->empty = true;
    const Status none = run(*again, random_floats({64, 256}, 1), &outputs);
    EXPECT_EQ(none.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(std::string(none.message()), HasSubstr(says));
    source->empty = false;
    source->skew = 4;
    const Status skewed = run(*again, random_floats({64, 256}, 1), &outputs);
    EXPECT_EQ(skewed.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(skewed.message()), HasSubstr("at a multiple of"));
    source->skew = 0;
    EXPECT_TRUE(run(*again, random_floats({64, 256}, 1), &outputs).ok());
    outputs.clear();
  }
  EXPECT_EQ(execution->blocks + io->blocks, 0);
}

TEST_F(MemoryTest, EveryRequestOfLoadAndRunFailsOnce) {
  const std::string path = file_of(small_net());
  const Value input = random_floats({1, 3, 20, 20}, 1);
  std::vector<Value> wanted, outputs;
  ASSERT_TRUE(run(*load(path, 0).value(), input, &wanted).ok());
  const int64_t before = obtained_bytes();
  int64_t n = 1, in_regions = 0;
  for (bool reached = true; reached; ++n) {
    ASSERT_LT(n, 200);
    auto failing = std::make_unique<FailSystemRequests>(n);
    auto session = load(path, 0);
    Status status = session.status();
    if (status.ok()) status = run(**session, input, &outputs);
    reached = failing->triggered();
    failing.reset();
    if (!reached) {
      EXPECT_TRUE(status.ok()) << n << ": " << status;
    }
    in_regions += status.ok() && reached;
    if (!status.ok()) {
      EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
      EXPECT_FALSE(status.message().empty());
    }
    if (session.ok()) {
      const Status next = run(**session, input, &outputs);
      ASSERT_TRUE(next.ok()) << n << ": " << next;
      for (size_t i = 0; i < outputs.size(); ++i) EXPECT_EQ(floats(outputs[i]), floats(wanted[i]));
    }
    outputs.clear();
    session = invalid("");
    EXPECT_EQ(obtained_bytes(), before) << n;
    expect_adds_up();
  }
  EXPECT_GT(n, 8);
  EXPECT_EQ(in_regions, 1) << "the slab, which is found in smaller blocks";
}

TEST_F(MemoryTest, TheReportSaysWhoHoldsWhatAndWhatIsOutside) {
  auto session = from_text(small_net(), 0).value();
  std::vector<Value> held;
  ASSERT_TRUE(run(*session, random_floats({1, 3, 20, 20}, 1), &held).ok());
  const MemoryReport report = session->memory_report();
  const std::string text = to_string(report);
  for (const char* part :
       {"session\n", "process\n", "planned ", "padding ", "largest holders", "generated code", "least limit: "})
    EXPECT_THAT(text, HasSubstr(part));
  int64_t weights = 0, packed = 0;
  bool planned = false, leased = false;
  for (const MemoryHolder& h : report.holders) {
    weights += h.role == MemoryRole::weights ? h.bytes : 0;
    packed += h.role == MemoryRole::packed ? h.bytes : 0;
    planned = planned || (h.role == MemoryRole::planned && !h.node.empty());
    leased = leased || (h.role == MemoryRole::leased && h.buffers == 1);
  }
  EXPECT_EQ(packed, report.session.of(MemoryRole::packed).live);
  EXPECT_EQ(weights, report.session.of(MemoryRole::weights).live);
  EXPECT_GT(weights, 0);
  EXPECT_TRUE(planned);
  EXPECT_TRUE(leased);
  EXPECT_TRUE(std::ranges::is_sorted(report.holders, std::greater(), &MemoryHolder::bytes));
}

// Constants that are read in place, packed, folded and copied, some of them in bodies; values of planned and unknown
// sizes; outputs that are a tensor and a sequence.
std::string many_kinds() {
  std::string table;
  for (int i = 0; i < 5000; ++i) absl::StrAppend(&table, i ? ", " : "", i % 7);
  return absl::StrCat(
      "graph(%x: f32[N,64]) {\n  const %table: f32[5000] = [", table, R"(]
  %w: f32[64,64] = Expand(0.01, [64, 64])
  %a = MatMul(%x, %w)
  %rows = Shape<start=0, end=1>(%x)
  %s = Slice(%table, [0], %rows)
  %found = NonZero(%a)
  %all = SequenceConstruct(%found, %found)
  %y = Loop(i64 3, bool true, %a) {
    body: graph(%trip: i64[], %go: bool[], %state: f32[N,64]) {
      const %half: f32[64] = [)",
      [] {
        std::string half;
        for (int i = 0; i < 64; ++i) absl::StrAppend(&half, i ? ", " : "", "0.5");
        return half;
      }(),
      R"(]
      %h = Mul(%state, %half)
      %e = Softmax(%h)
      %next = Add(%e, %state)
      return %go, %next
    }
  }
  return %y, %all, %s
})");
}

TEST_F(MemoryTest, HoldersOfARoleAddUpToWhatIsLive) {
  const std::string inside = file_of(many_kinds());
  const std::string outside = (folder_ / "outside.onnx").string();
  ASSERT_TRUE(save_model(*graph_from_text(many_kinds()).value(), outside, {.external_from = 1000}).ok());
  const std::string bytes = model_bytes(*graph_from_text(many_kinds()).value()).value();
  const auto size = [](const std::string& path) { return static_cast<int64_t>(std::filesystem::file_size(path)); };
  using Files = std::vector<std::pair<std::string, int64_t>>;
  struct Case {
    const char* name;
    std::function<StatusOr<std::unique_ptr<Session>>()> load;
    Files files;  // what holds constants as a whole
  };
  const Case cases[] = {
      {"a file", [&] { return Session::load(inside, options_); }, {{"the model's file " + inside, size(inside)}}},
      {"a file and its data",
       [&] { return Session::load(outside, options_); },
       {{"the model's file " + std::filesystem::canonical(outside + ".data").string(), size(outside + ".data")}}},
      {"bytes that are copied", [&] { return Session::load_bytes(bytes, {}, options_); }, {}},
      {"bytes that the caller keeps", [&] { return Session::load_bytes(bytes, hold(int(0)), options_); }, {}},
      {"a graph", [&] { return Session::from_graph(graph_from_text(many_kinds()).value(), options_); }, {}},
  };
  for (const OptimizationLevel level : {OptimizationLevel::disabled, OptimizationLevel::all}) {
    options_.optimization_level = level;
    for (const Case& c : cases) {
      SCOPED_TRACE(c.name);
      auto session = c.load();
      ASSERT_TRUE(session.ok()) << session.status();
      std::vector<std::vector<Value>> held;
      for (const int64_t rows : {100, 30, 0}) {  // nothing is held, then more and more
        const MemoryReport report = (*session)->memory_report();
        for (int r = 0; r < kMemoryRoles; ++r) {
          const auto role = static_cast<MemoryRole>(r);
          if (role == MemoryRole::planned) continue;  // live within a run alone
          const bool counted = role == MemoryRole::leased || role == MemoryRole::unplanned;
          int64_t sum = 0;
          for (const MemoryHolder& h : report.holders)
            if (h.role == role && (!counted || h.buffers > 0)) sum += h.bytes;
          EXPECT_EQ(sum, report.session.of(role).live) << name(role);
          const bool some = counted ? !held.empty() : role == MemoryRole::packed || !c.files.empty();
          if (level == OptimizationLevel::all && some) {
            EXPECT_GT(sum, 0) << name(role);
          }
        }
        for (const auto& [file, of_size] : c.files) {
          const auto found = std::ranges::find(report.holders, file, &MemoryHolder::value);
          ASSERT_NE(found, report.holders.end()) << file << "\n" << to_string(report, 100);
          EXPECT_EQ(found->bytes, of_size);
          EXPECT_EQ(std::ranges::count(report.holders, file, &MemoryHolder::value), 1);
        }
        if (rows == 0) break;
        const Value input = random_floats({rows, 64}, 1);
        const Status status = run(**session, input, &held.emplace_back());
        ASSERT_TRUE(status.ok()) << status;
      }
      expect_adds_up();
    }
  }
  // A refusal names it too.
  options_.config["session.weights"] = "resident";
  const Status refused = load(inside, 10000).status();
  EXPECT_THAT(std::string(refused.message()), HasSubstr("'the model's file " + inside + "' (weights, "));
}

// Compares the accounts with what was obtained before and after each step of a run on one thread.
struct AddsUpSink final : StepSink {
  explicit AddsUpSink(const Session& s) : session(s) {}
  void on_run(const Program&, int32_t, const SlabPlace&) override { check(); }
  void on_begin(const StepEvent&) override { check(); }
  void on_step(const StepEvent&) override { check(); }
  void check() {
    expect_adds_up();
    const MemoryStatistics s = session.memory_statistics();
    most_planned = std::max(most_planned, s.of(MemoryRole::planned).live);
    most_unplanned = std::max(most_unplanned, s.of(MemoryRole::unplanned).live);
    ++checks;
  }
  const Session& session;
  int64_t checks = 0, most_planned = 0, most_unplanned = 0;
};

TEST_F(MemoryTest, Check20StatisticsAddUpWithinEveryStep) {
  auto session = from_text(many_kinds(), 0).value();
  AddsUpSink sink(*session);
  RunOptions options;
  options.sink = &sink;
  std::vector<std::vector<Value>> held;
  for (const int64_t rows : {100, 30, 400, 100, 30}) {
    held.emplace_back(session->outputs().size());
    const Value input = random_floats({rows, 64}, 1);
    ASSERT_TRUE(session->run_ordered({&input, 1}, held.back(), options).ok());
    if (held.size() == 2) held.erase(held.begin());
    expect_adds_up();
  }
  EXPECT_GT(sink.checks, 100);
  EXPECT_GT(sink.most_planned, 400 * 64 * 4);
  EXPECT_GE(sink.most_unplanned, 2 * 2 * 400 * 64 * 8);
  EXPECT_EQ(session->memory_statistics().of(MemoryRole::planned).live, 0);
}

TEST_F(MemoryTest, Check20StatisticsAddUpBesideThreadsThatRunKeepDropAndTrim) {
  constexpr int kThreads = 4, kRounds = 12, kOperations = 12;
  options_.retention.side = 1 << 20;  // what is over of held elements is cut now and then
  auto session = from_text(many_kinds(), 0).value();
  std::vector<std::vector<Value>> held[kThreads];
  int rounds = 0;
  const auto compare = [&]() noexcept {  // all threads wait
    ++rounds;
    expect_adds_up();
    int64_t leased = 0, elements = 0;
    for (const auto& of_thread : held) {
      for (const auto& outputs : of_thread) {
        leased += outputs[0].tensor().bytes() + outputs[2].tensor().bytes();
        for (const Value& element : outputs[1].sequence()->items) elements += element.tensor().bytes();
      }
    }
    const MemoryStatistics s = session->memory_statistics();
    EXPECT_EQ(s.of(MemoryRole::planned).live, 0);
    EXPECT_EQ(s.of(MemoryRole::leased).live, leased);
    EXPECT_EQ(s.of(MemoryRole::unplanned).live, elements);
    EXPECT_LE(s.of(MemoryRole::unplanned).padding, elements / 8);
    EXPECT_LE(s.of(MemoryRole::unplanned).retained, 1 << 20);
    EXPECT_EQ(s.mapped, s.live + s.retained + s.padding);
  };
  std::barrier meet(kThreads, compare);
  std::atomic<bool> done{false};
  std::thread reader([&] {  // what it reads adds up at any moment
    while (!done) {
      const MemoryStatistics s = session->memory_statistics();
      EXPECT_EQ(s.mapped, s.live + s.retained + s.padding);
      EXPECT_GE(s.peak, s.mapped);
      for (const MemoryUse& use : s.roles) EXPECT_GE(use.retained, 0);
      std::this_thread::yield();
    }
  });
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(static_cast<unsigned>(t));
      for (int round = 0; round < kRounds; ++round) {
        for (int i = 0; i < kOperations; ++i) {
          const unsigned dice = random() % 10;
          if (dice < 5) {
            const Value input = random_floats({1 + static_cast<int64_t>(random() % 300), 64}, random());
            std::vector<Value> outputs;
            EXPECT_TRUE(run(*session, input, &outputs).ok());
            if (random() % 2) held[t].push_back(std::move(outputs));
          } else if (dice < 9 && !held[t].empty()) {
            held[t].erase(held[t].begin() + static_cast<std::ptrdiff_t>(random() % held[t].size()));
          } else {
            session->trim(static_cast<int64_t>(random() % (1 << 20)));
          }
        }
        meet.arrive_and_wait();
      }
    });
  }
  for (std::thread& t : threads) t.join();
  done = true;
  reader.join();
  EXPECT_EQ(rounds, kRounds);
  session.reset();
  expect_adds_up();
  for (auto& of_thread : held) of_thread.clear();
  expect_adds_up();
}

}  // namespace
}  // namespace forethought
