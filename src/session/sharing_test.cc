// What sessions of one process hold together, what none keeps, and that equal hashes prove nothing.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <barrier>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <thread>

#include "base/hash.h"
#include "graph/text.h"
#include "memory/system.h"
#include "onnx/save/save.h"
#include "onnx/testing.h"
#include "session/constants.h"
#include "session/memory_report.h"
#include "session/packs.h"
#include "session/session_testing.h"
#include "session/small_net_testing.h"

namespace forethought {
namespace {

constexpr int64_t kRows = 512, kColumns = 64;
constexpr int64_t kTableBytes = kRows * kColumns * 4;

std::string constant(const std::string& name, int64_t rows, int64_t columns, uint64_t seed) {
  const Value values = random_floats({rows, columns}, seed);
  std::string text = fmt::format("  const %{}: f32[{},{}] = [", name, rows, columns);
  for (int64_t i = 0; i < rows * columns; ++i)
    text += fmt::format("{}{:.8f}", i ? ", " : "", values.tensor().as<float>()[i]);
  return text + "]\n";
}

// A table that is read in place, weights that are packed after a rewrite made them, and a folded addend.
std::string table_net(uint64_t seed) {
  return "graph(%x: f32[4,64], %i: i64[4]) {\n" + constant("table", kRows, kColumns, 1) + constant("w", 64, 64, seed) +
         constant("b", 4, 64, seed + 1) + R"(
    %rows = Gather(%table, %i)
    %w2 = Mul(%w, 2.0)
    %b2 = Mul(%b, 3.0)
    %s = Add(%x, %rows)
    %m = MatMul(%s, %w2)
    %r = Softmax(%m)
    %y = Add(%r, %b2)
    return %y
})";
}

class SharingTest : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(folder_);
    options_.intra_op_threads = 1;
    before_ = process_->mapped();
    constants_ = ConstantStore::global().size();
    packs_ = PackStore::global().size();
  }
  void TearDown() override {
    std::filesystem::remove_all(folder_);
    expect_nothing_left();
  }
  void expect_nothing_left() const {
    EXPECT_EQ(process_->mapped(), before_);
    EXPECT_EQ(process_->mapped(), obtained_bytes());
    EXPECT_EQ(ConstantStore::global().size(), constants_);
    EXPECT_EQ(PackStore::global().size(), packs_);
  }
  std::string file_of(const std::string& text, const std::string& name) const {
    const std::string path = (folder_ / name).string();
    EXPECT_TRUE(save_model(*graph_from_text(text).value(), path).ok());
    return path;
  }
  std::string bytes_of(const std::string& text) const {
    std::ostringstream bytes;
    bytes << std::ifstream(file_of(text, "bytes.onnx"), std::ios::binary).rdbuf();
    return bytes.str();
  }
  int64_t taken() const { return process_->mapped() - before_; }
  static std::vector<float> run(Session& session) {
    const std::vector<Value> inputs = {random_floats({4, 64}, 9), Value(tensor_of<int64_t>({4}, {0, 7, 511, 300}))};
    std::vector<Value> outputs(1);
    const Status status = session.run_ordered(inputs, outputs);
    EXPECT_TRUE(status.ok()) << status;
    return status.ok() ? floats(outputs[0]) : std::vector<float>();
  }

  SessionOptions options_;
  MemoryBudget* const process_ = MemoryBudget::process().get();
  int64_t before_ = 0;
  size_t constants_ = 0, packs_ = 0;
  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("forethought_sharing_" + std::to_string(::getpid()));
};

TEST_F(SharingTest, ASecondSessionOfAModelAddsNothing) {
  const std::string path = file_of(table_net(3), "a.onnx");
  const struct {
    const char* what;
    std::function<std::unique_ptr<Session>()> load;
  } ways[] = {
      {"file", [&] { return Session::load(path, options_).value(); }},
      {"bytes", [&] { return Session::load_bytes(std::string(bytes_of(table_net(3))), {}, options_).value(); }},
      {"graph", [&] { return session_of(table_net(3), options_); }},
  };
  for (const auto& way : ways) {
    for (const bool first_goes_first : {true, false}) {
      auto first = way.load();
      const int64_t one = taken();
      const MemoryStatistics alone = first->memory_statistics();
      EXPECT_EQ(one, alone.mapped) << way.what;
      EXPECT_GE(alone.of(MemoryRole::weights).live, kTableBytes) << way.what;
      EXPECT_GT(alone.of(MemoryRole::packed).live, 0) << way.what;
      auto second = way.load();
      EXPECT_EQ(taken(), one) << way.what;
      EXPECT_EQ(second->memory_statistics().mapped, alone.mapped) << way.what;
      EXPECT_EQ(process_->mapped(), obtained_bytes());
      const std::vector<float> want = run(*first);
      EXPECT_EQ(run(*second), want) << way.what;
      first->trim();
      second->trim();
      auto& goes = first_goes_first ? first : second;
      auto& stays = first_goes_first ? second : first;
      goes.reset();
      EXPECT_EQ(taken(), one) << way.what;
      EXPECT_EQ(run(*stays), want) << way.what;
      stays.reset();
      expect_nothing_left();
    }
  }
}

TEST_F(SharingTest, DifferentModelsShareWhatIsEqual) {
  const std::string one = bytes_of(table_net(3)), other = bytes_of(table_net(30));
  auto first = Session::load_bytes(one, {}, options_).value();
  const int64_t alone = taken();
  auto second = Session::load_bytes(other, {}, options_).value();
  EXPECT_LE(taken() - alone, second->memory_statistics().mapped - kTableBytes);
  EXPECT_NE(run(*first), run(*second));
  const std::vector<float> want = run(*second);
  first.reset();
  EXPECT_EQ(run(*second), want);

  // Files with equal weights share their packs; neither holds the other's file.
  auto a = Session::load(file_of(table_net(5), "a.onnx"), options_).value();
  const int64_t before = taken();
  const std::string text = table_net(5);
  auto b =
      Session::load(file_of(text.substr(0, text.rfind("return")) + "%z = Relu(%y)\n return %z\n}", "b.onnx"), options_)
          .value();
  const MemoryStatistics s = b->memory_statistics();
  EXPECT_LE(taken() - before, s.mapped - s.of(MemoryRole::packed).mapped());
  const int64_t both = taken();
  const int64_t size = Pages::rounded(static_cast<int64_t>(std::filesystem::file_size(folder_ / "a.onnx")));
  a.reset();
  EXPECT_LE(taken(), both - size);
  EXPECT_EQ(run(*b).size(), 4u * 64u);
}

// Tells when it is gone.
struct Watch {
  explicit Watch(bool* g) : gone(g) {}
  Watch(Watch&& o) noexcept : gone(std::exchange(o.gone, nullptr)) {}
  ~Watch() {
    if (gone) *gone = true;
  }
  bool* gone;
};

TEST_F(SharingTest, OriginalsOfWhatIsPackedGo) {
  const char* const nets[] = {
      "graph(%x: f32[4,64]) {\n const %w: f32[1,1] = [0]\n %y = MatMul(%x, %w)\n return %y\n}",
      "graph(%x: f32[1,64,6,6]) {\n const %w: f32[1,1,1,1] = [0]\n %y = Conv<pads=[1, 1, 1, 1]>(%x, %w)\n return %y\n}",
  };
  const Dims dims[] = {{64, 64}, {64, 64, 3, 3}};
  for (int i = 0; i < 2; ++i) {
    auto graph = graph_from_text(nets[i]).value();
    bool gone = false;
    const Value values = random_floats(dims[i], 7);
    Tensor& w = *graph->value(graph->find_value("w")).constant;
    w = values.tensor();
    std::vector<float> own(w.as<float>(), w.as<float>() + w.elements());
    w.data = own.data();
    w.owner = hold(Watch(&gone));
    auto session = Session::from_graph(std::move(graph), options_).value();
    const MemoryStatistics s = session->memory_statistics();
    if (s.of(MemoryRole::packed).live == 0) continue;  // this tier reads them as they are
    EXPECT_TRUE(gone) << nets[i];
    EXPECT_EQ(s.of(MemoryRole::weights).live, 0) << nets[i];
  }
}

// Two blocks of 32 bytes with one hash: what the second half adds makes up for the first.
std::array<uint64_t, 4> collision(const std::array<uint64_t, 4>& with, uint64_t seed) {
  std::array<uint64_t, 4> other = with;
  const uint64_t start = seed ^ sizeof(with);
  ++other[0];
  other[2] += mix64(start + with[0]) - mix64(start + other[0]);
  return other;
}

Tensor tensor_of_words(const std::array<uint64_t, 4>& words) {
  Tensor t = tensor_of<uint64_t>({4}, {words.begin(), words.end()});
  return t;
}

TEST_F(SharingTest, EqualHashesAreNoProof) {
  const std::array<uint64_t, 4> words = {1, 2, 3, 4};
  const Tensor a = tensor_of_words(words), same = tensor_of_words(words);
  const Tensor b = tensor_of_words(collision(words, static_cast<uint64_t>(DType::kUint64)));
  ConstantStore& constants = ConstantStore::global();
  const uint64_t key = ConstantStore::key(a);
  ASSERT_EQ(ConstantStore::key(b), key);
  ASSERT_NE(std::memcmp(a.data, b.data, 32), 0);
  for (const bool copy : {false, true}) {
    const auto of_a = constants.get(key, a, copy, "a").value(), of_b = constants.get(key, b, copy, "b").value();
    EXPECT_NE(of_a, of_b);
    EXPECT_EQ(constants.get(key, same, copy, "same").value(), of_a);
    EXPECT_EQ(std::memcmp(of_b->tensor.data, b.data, 32), 0);
    Tensor cast = same;
    cast.dtype = DType::kInt64;
    EXPECT_NE(constants.get(ConstantStore::key(cast), cast, copy, "cast").value(), of_a);
  }

  const Tensor c = tensor_of_words(collision(words, 0));
  const PackSpec spec = {0, "as it is", 32, [](const Tensor& t, std::span<std::byte> to) {
                           std::memcpy(to.data(), t.data, to.size());
                           return absl::OkStatus();
                         }};
  PackSpec renamed = spec;
  renamed.format = "another form";
  PackStore& packs = PackStore::global();
  ASSERT_EQ(PackStore::key(c, spec), PackStore::key(a, spec));
  auto of_a = packs.get(a, spec).value();
  EXPECT_EQ(packs.find(c, spec).value(), nullptr);
  const auto of_c = packs.get(c, spec).value();
  EXPECT_NE(of_c, of_a);
  EXPECT_EQ(packs.get(same, spec).value(), of_a);
  EXPECT_EQ(packs.find(c, spec).value(), of_c);
  EXPECT_NE(packs.get(a, renamed).value(), of_a);
  PackSpec failing = spec;
  failing.pack = [](const Tensor&, std::span<std::byte>) { return internal("no"); };
  EXPECT_FALSE(packs.find(a, failing).ok());
  of_a.reset();
  EXPECT_EQ(packs.find(a, spec).value(), nullptr);
}

TEST_F(SharingTest, StringsAreSharedByWhatTheySay) {
  const auto strings = [](std::vector<std::string> words) {
    Tensor t = make_tensor(DType::kString, Dims{static_cast<int64_t>(words.size())}).value();
    std::ranges::move(words, t.as<std::string>());
    return t;
  };
  ConstantStore& store = ConstantStore::global();
  const Tensor a = strings({"a word", "and another that is too long to lie in place"});
  const Tensor same = strings({"a word", "and another that is too long to lie in place"});
  const Tensor other = strings({"a word", "and another that is too long to lie in place!"});
  const auto of_a = store.get(ConstantStore::key(a), a, false, "a").value();
  EXPECT_EQ(store.get(ConstantStore::key(same), same, false, "same").value(), of_a);
  EXPECT_NE(store.get(ConstantStore::key(other), other, false, "other").value(), of_a);
}

TEST_F(SharingTest, SessionsComeAndGoOnManyThreads) {
  const std::string models[] = {bytes_of(table_net(3)), bytes_of(table_net(30))};
  std::vector<float> want[2];
  for (int m = 0; m < 2; ++m) want[m] = run(*Session::load_bytes(models[m], {}, options_).value());
  constexpr int kThreads = 4;
  std::barrier start(kThreads);
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 6; ++i) {
        start.arrive_and_wait();  // all at once
        const int m = (t + i) % 2;
        auto session = Session::load_bytes(models[m], {}, options_);
        if (!session.ok() || run(**session) != want[m]) ++wrong;
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

// Constants are taken out of bytes that nobody keeps; where a node's attribute stays in them, all are copied.
TEST_F(SharingTest, BytesMayChangeAfterTheLoad) {
  using namespace onnx_testing;  // NOLINT
  for (const bool attribute : {false, true}) {
    Models t;
    wire::Model m = model(17);
    m.graph.inputs.push_back(value("n", DType::kInt64, {1}));
    m.graph.inputs.push_back(value("i", DType::kInt64, {1}));
    m.graph.outputs.push_back(value("y", DType::kFloat, {-1}));
    m.graph.initializers.push_back(t.tensor<float>("table", {4}, {10, 20, 30, 40}));
    m.graph.nodes.push_back(
        attribute ? node("ConstantOfShape", {"n"}, {"c"}, attrs(attr("value", t.tensor<float>("", {1}, {0.5f}))))
                  : node("Cast", {"n"}, {"c"}, attrs(attr("to", int64_t{1}))));
    m.graph.nodes.push_back(node("Gather", {"table", "i"}, {"g"}));
    m.graph.nodes.push_back(node("Add", {"c", "g"}, {"y"}));
    std::string bytes = wire::serialize(m);
    const auto size = static_cast<int64_t>(bytes.size());
    auto session = Session::load_bytes(bytes, {}, options_).value();
    std::ranges::fill(bytes, '\xff');
    const std::vector<Value> inputs = {Value(tensor_of<int64_t>({1}, {2})), Value(tensor_of<int64_t>({1}, {3}))};
    std::vector<Value> outputs(1);
    const Status status = session->run_ordered(inputs, outputs);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(floats(outputs[0]), attribute ? std::vector<float>({40.5f, 40.5f}) : std::vector<float>({42}));
    EXPECT_EQ(session->memory_statistics().of(MemoryRole::weights).live >= size, attribute);
    outputs.clear();
  }
}

// What the sessions hold together is in the process's account already: a limit that leaves nothing lets them load.
TEST_F(SharingTest, AFullProcessTakesAnotherSessionOfTheSame) {
  const std::string path = file_of(table_net(3), "a.onnx");
  auto first = Session::load(path, options_).value();
  const std::vector<float> want = run(*first);
  auto sized = Session::load(path, options_).value();
  run(*sized);
  const int64_t run_bytes = process_->mapped() - first->memory_statistics().mapped;
  sized.reset();
  process_->set_limit(process_->mapped() + run_bytes);
  for (const int64_t limit : {int64_t{0}, first->memory_report().least}) {
    options_.memory_limit = limit;
    auto second = Session::load(path, options_);
    EXPECT_TRUE(second.ok()) << second.status();
    if (second.ok()) {
      EXPECT_EQ(run(**second), want);
    }
  }
  process_->set_limit(0);
}

}  // namespace
}  // namespace forethought
