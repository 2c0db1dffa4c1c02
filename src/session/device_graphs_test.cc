// Random graphs split between the CPU and one or two simulated devices, with delays: the bits of the CPU alone.
// FORETHOUGHT_DEVICE_GRAPHS says how many (300 by default).
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "base/hash.h"
#include "session/session_testing.h"
#include "session/sim_provider_testing.h"

namespace forethought {
namespace {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(mix64(seed + 77)) {}
  int below(int n) { return static_cast<int>(mix64(state_ += 0x9e3779b97f4a7c15ull) % static_cast<uint64_t>(n)); }
  bool one_in(int n) { return below(n) == 0; }

 private:
  uint64_t state_;
};

// A graph on matrices as text: arithmetic, products, views, joins, splits, and shapes that the graph computes itself.
class RandomGraph {
 public:
  explicit RandomGraph(uint64_t seed) : rng_(seed) {}

  std::string text() {
    std::string inputs;
    for (int i = 0; i < 3; ++i) {
      const int rows = 1 + rng_.below(6), columns = 1 + rng_.below(8);
      feeds.push_back({rows, columns});
      values_.push_back({absl::StrCat("x", i), rows, columns});
      absl::StrAppend(&inputs, i ? ", " : "", "%x", i, ": f32[", rows, ",", columns, "]");
    }
    const int nodes = 4 + rng_.below(20);
    for (int n = 0; n < nodes; ++n) add_node();
    std::string outputs;
    std::vector<size_t> listed;
    for (size_t v = 0; v < values_.size(); ++v) {
      if (v < 3 || (v + 2 < values_.size() && !rng_.one_in(5))) continue;
      absl::StrAppend(&outputs, outputs.empty() ? "" : ", ", "%", values_[v].name);
    }
    return absl::StrCat("graph(", inputs, ") {\n", body_, "  return ", outputs, "\n}");
  }

  std::vector<Value> inputs() {
    std::vector<Value> made;
    for (const auto& [rows, columns] : feeds) {
      Tensor t = make_tensor(DType::kFloat, Dims{rows, columns}).value();
      for (int64_t i = 0; i < t.elements(); ++i) t.as<float>()[i] = static_cast<float>(rng_.below(64) - 32) / 16;
      made.push_back(std::move(t));
    }
    return made;
  }

 private:
  struct Matrix {
    std::string name;
    int rows, columns;
  };

  const Matrix& some() {
    const int n = static_cast<int>(values_.size());
    return values_[static_cast<size_t>(rng_.one_in(4) ? rng_.below(n) : n - 1 - rng_.below(std::min(n, 5)))];
  }
  template <typename F>
  const Matrix* find(F&& fits) {
    const size_t n = values_.size(), start = static_cast<size_t>(rng_.below(static_cast<int>(n)));
    for (size_t i = 0; i < n; ++i)
      if (fits(values_[(start + i) % n])) return &values_[(start + i) % n];
    return nullptr;
  }
  std::string fresh() { return absl::StrCat("v", next_++); }
  void emit(const std::string& results, const std::string& call) {
    absl::StrAppend(&body_, "  ", results, " = ", call, " \"n", nodes_++, "\"\n");
  }
  void make(const std::string& call, int rows, int columns) {
    const std::string name = fresh();
    emit("%" + name, call);
    values_.push_back({name, rows, columns});
  }

  void add_node() {
    const Matrix a = some();
    const std::string x = "%" + a.name;
    switch (rng_.below(11)) {
      case 0: {
        static const char* const ops[] = {"Relu", "Neg", "Abs", "Sigmoid", "Tanh"};
        return make(absl::StrCat(ops[rng_.below(5)], "(", x, ")"), a.rows, a.columns);
      }
      case 1:
      case 2: {
        static const char* const ops[] = {"Add", "Sub", "Mul", "Max"};
        const Matrix* b = rng_.one_in(5)
                              ? nullptr
                              : find([&](const Matrix& m) { return m.rows == a.rows && m.columns == a.columns; });
        return make(absl::StrCat(ops[rng_.below(4)], "(", x, ", ", b ? "%" + b->name : "0.75", ")"), a.rows, a.columns);
      }
      case 3:
        return make(absl::StrCat("Transpose<perm=[1, 0]>(", x, ")"), a.columns, a.rows);
      case 4: {
        const Matrix* b = find([&](const Matrix& m) { return m.columns == a.columns && m.rows + a.rows <= 24; });
        if (!b) return;
        return make(absl::StrCat("Concat<axis=0>(", x, ", %", b->name, ")"), a.rows + b->rows, a.columns);
      }
      case 5: {
        const int rows = 1 + rng_.below(a.rows);
        return make(absl::StrCat("Slice(", x, ", [", a.rows - rows, "], [", a.rows, "], [0])"), rows, a.columns);
      }
      case 6:
        return make(absl::StrCat("Reshape(", x, ", [", a.rows * a.columns, ", 1])"), a.rows * a.columns, 1);
      case 7: {  // a shape that is computed
        const std::string s = fresh(), r = fresh();
        emit("%" + s, absl::StrCat("Shape(", x, ")"));
        emit("%" + r, absl::StrCat("Gather(%", s, ", [1, 0])"));
        return make(absl::StrCat("Reshape(", x, ", %", r, ")"), a.columns, a.rows);
      }
      case 8:
        return make(absl::StrCat("Softmax<axis=-1>(", x, ")"), a.rows, a.columns);
      case 9: {
        if (a.rows % 2) return;
        const std::string one = fresh(), two = fresh();
        emit(absl::StrCat("%", one, ", %", two), absl::StrCat("Split<axis=0, num_outputs=2>(", x, ")"));
        values_.push_back({one, a.rows / 2, a.columns});
        values_.push_back({two, a.rows / 2, a.columns});
        return;
      }
      default: {
        const Matrix* b = find([&](const Matrix& m) { return m.rows == a.columns; });
        if (!b) return;
        return make(absl::StrCat("MatMul(", x, ", %", b->name, ")"), a.rows, b->columns);
      }
    }
  }

  Random rng_;
  std::vector<Matrix> values_;
  std::vector<std::pair<int, int>> feeds;
  std::string body_;
  int next_ = 0, nodes_ = 0;
};

std::vector<std::string> bytes_of(const std::vector<Value>& values) {
  std::vector<std::string> all;
  for (const Value& v : values)
    all.emplace_back(v.is_tensor() ? std::string(v.tensor().as<char>(), static_cast<size_t>(v.tensor().bytes())) : "");
  return all;
}

// Takes about `percent` of the nodes, by name.
std::function<bool(const Graph&, const GraphNode&)> some_nodes(uint64_t seed, int percent) {
  return [=](const Graph&, const GraphNode& n) {
    const uint64_t h = mix64(seed * 1000003 + hash_bytes(n.name.data(), n.name.size()));
    return static_cast<int>(h % 100) < percent;
  };
}

TEST(DeviceGraphs, Check28_RandomGraphsWithDelaysGiveTheBitsOfTheCpu) {
  const char* asked = std::getenv("FORETHOUGHT_DEVICE_GRAPHS");
  const int count = asked ? std::atoi(asked) : 300;
  int64_t launches = 0, copies = 0, edges = 0, waits = 0, views = 0;
  for (int seed = 0; seed < count; ++seed) {
    RandomGraph random(static_cast<uint64_t>(seed));
    const std::string text = random.text();
    const std::vector<Value> in = random.inputs();
    SessionOptions plain;
    plain.optimization_level = OptimizationLevel::disabled;
    plain.validate_plans = true;
    auto cpu = session_of(text, plain);
    ASSERT_TRUE(cpu) << "seed " << seed << "\n" << text;
    std::vector<Value> out(cpu->outputs().size());
    ASSERT_TRUE(cpu->run_ordered(in, out).ok()) << seed;
    const auto want = bytes_of(out);

    SimDeviceOptions first{.index = 1, .lanes = 1 + seed % 2, .max_delay_us = seed % 3 ? 60 : 0};
    first.seed = static_cast<uint32_t>(seed);
    first.waits_for_other_devices = first.copies_from_other_devices = seed % 4 == 0;
    SimDeviceOptions second = first;
    second.index = 2;
    auto one = SimDevice::make(first).value(), two = SimDevice::make(second).value();
    {
      SimProviderScope provider_one("OneProvider", one, some_nodes(static_cast<uint64_t>(seed), 30 + seed % 60));
      SimProviderScope provider_two("TwoProvider", two, some_nodes(static_cast<uint64_t>(seed) + 99, 50));
      SessionOptions options = seed % 5 == 0 ? with_provider("TwoProvider", plain) : plain;
      options.intra_op_threads = 1 + seed % 2;
      options = with_provider("OneProvider", options);
      auto split = session_of(text, options);
      ASSERT_TRUE(split) << "seed " << seed << "\n" << text;
      std::vector<Dims> dims;
      for (const Value& v : in) dims.push_back(v.tensor().dims);
      const auto program = split->plan_for(dims);
      ASSERT_TRUE(program.ok()) << program.status();
      edges += (*program)->waits.edges;
      waits += (*program)->waits.waits;
      views += std::ranges::count((*program)->plan.aliases, 1);
      for (int round = 0; round < 3; ++round) {
        std::vector<Value> got(out.size());
        const Status status = split->run_ordered(in, got);
        ASSERT_TRUE(status.ok()) << "seed " << seed << ": " << status << "\n" << text;
        ASSERT_EQ(bytes_of(got), want) << "seed " << seed << " round " << round << "\n" << text;
      }
      // In the middle of a run, the device fails or the run is cancelled; the next run is right.
      RunOptions cancel;
      std::atomic<int> pieces{0};
      if (seed % 2) {
        one->fail_work(1 + seed % 7);
      } else {
        one->on_work([&](int64_t) {
          if (++pieces == 1 + seed % 7) cancel.cancel.cancel();
        });
      }
      std::vector<Value> got(out.size());
      split->run_ordered(in, got, cancel).IgnoreError();
      one->fail_work(0);
      one->on_work({});
      got.assign(out.size(), Value());
      const Status status = split->run_ordered(in, got);
      ASSERT_TRUE(status.ok()) << "seed " << seed << ": " << status;
      ASSERT_EQ(bytes_of(got), want) << "seed " << seed << " after a run that ended early\n" << text;
    }
    for (const auto& d : {one, two}) {
      launches += d->counts().launches;
      copies += d->counts().copies;
      EXPECT_EQ(d->counts().freed_in_use, 0) << seed;
      EXPECT_EQ(d->allocator().statistics().live, 0) << seed;
    }
  }
  EXPECT_GT(launches, count);
  EXPECT_GT(copies, count);
  EXPECT_GT(views, 0);
  EXPECT_LT(waits, edges);
}

}  // namespace
}  // namespace forethought
