// Which arena each value lies in: outputs in the I/O arena, what is between in the execution arena, inputs where they
// are; and what holding an output costs.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <mutex>
#include <random>

#include "memory/system.h"
#include "session/session_testing.h"
#include "session/small_net_testing.h"

namespace forethought {
namespace {

// Gives from the heap, and knows what it gave.
class KnownSource final : public MemorySource {
 public:
  void* allocate(size_t bytes, size_t alignment) override {
    void* data = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    const std::lock_guard lock(mutex_);
    blocks_[static_cast<std::byte*>(data)] = bytes;
    ++requests_;
    return data;
  }
  void release(void* data, size_t) override {
    const std::lock_guard lock(mutex_);
    blocks_.erase(static_cast<std::byte*>(data));
    std::free(data);
  }
  bool holds(const Value& v) const {
    const std::lock_guard lock(mutex_);
    const auto* at = static_cast<std::byte*>(v.tensor().data);
    const auto block = blocks_.upper_bound(const_cast<std::byte*>(at));
    return block != blocks_.begin() && at < std::prev(block)->first + std::prev(block)->second;
  }
  int64_t requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::byte*, size_t> blocks_;
  int64_t requests_ = 0;
};

struct Routed {
  std::shared_ptr<KnownSource> execution = std::make_shared<KnownSource>(), io = std::make_shared<KnownSource>();
  std::unique_ptr<Session> session;

  explicit Routed(const std::string& text) {
    SessionOptions o;
    o.optimization_level = OptimizationLevel::disabled;  // every value stays
    o.intra_op_threads = 1;
    o.execution_source = execution;
    o.io_source = io;
    session = session_of(text, o);
  }
  std::vector<Value> run(const std::vector<Value>& inputs) {
    std::vector<Value> outputs(session->outputs().size());
    const Status status = session->run_ordered(inputs, outputs);
    EXPECT_TRUE(status.ok()) << status;
    return outputs;
  }
};

TEST(Routing, Check17_ANodeWithOutputsOfBothKindsWritesEachWhereItBelongs) {
  for (const auto& [outputs, scratch_first] : {std::pair{"%v, %y", true}, std::pair{"%i, %y", false}}) {
    // Either the first or the second output of TopK is one of the graph; the other is read on.
    const std::string text = fmt::format(R"(graph(%x: f32[8,64]) {{
  %s = Softmax(%x)
  %v, %i = TopK(%s, [16])
  %f = Cast<to=1>({})
  %y = Neg(%f)
  return {}
}})",
                                         scratch_first ? "%i" : "%v", outputs);
    Routed routed(text);
    ASSERT_TRUE(routed.session);
    for (int k = 0; k < 3; ++k) {
      const std::vector<Value> made = routed.run({random_floats({8, 64}, static_cast<uint64_t>(k))});
      for (const Value& v : made) {
        EXPECT_TRUE(routed.io->holds(v));
        EXPECT_FALSE(routed.execution->holds(v));
      }
    }
    const auto program = routed.session->plan_for({{Dims{8, 64}}}).value();
    EXPECT_TRUE(program->copies.empty()) << "no output moves from one arena to the other";
    EXPECT_EQ(routed.execution->requests(), 1) << "the slab, once";
    EXPECT_EQ(routed.session->summary().copies, 0);
  }
}

TEST(Routing, C36_AnySetOfOutputsLiesInTheIoArenaAndCopiesNothing) {
  std::mt19937 random(36);
  constexpr int kNodes = 8;
  for (int round = 0; round < 60; ++round) {
    std::string body, outputs;
    for (int n = 1; n <= kNodes; ++n) {
      const int a = static_cast<int>(random() % static_cast<unsigned>(n)),
                b = static_cast<int>(random() % static_cast<unsigned>(n));
      const char* const forms[] = {"Softmax(%v{0})", "Add(%v{0}, %v{1})", "Transpose<perm=[1, 0]>(%v{0})",
                                   "MatMul(%v{0}, %v{1})"};
      body += fmt::format("  %v{} = {}\n", n, fmt::format(fmt::runtime(forms[random() % 4]), a, b));
      if (random() % 3 == 0) outputs += fmt::format("{}%v{}", outputs.empty() ? "" : ", ", n);
    }
    if (outputs.empty()) outputs = fmt::format("%v{}", kNodes);
    Routed routed(fmt::format("graph(%v0: f32[24,24]) {{\n{}  return {}\n}}", body, outputs));
    ASSERT_TRUE(routed.session) << body;
    const std::vector<Value> made = routed.run({random_floats({24, 24}, static_cast<uint64_t>(round))});
    for (const Value& v : made) {
      EXPECT_TRUE(routed.io->holds(v)) << body << outputs;
      EXPECT_FALSE(routed.execution->holds(v)) << body << outputs;
    }
    EXPECT_EQ(routed.io->requests(), static_cast<int64_t>(made.size()));
    EXPECT_LE(routed.execution->requests(), 1);
    EXPECT_EQ(routed.session->summary().copies, 0) << body << outputs;
  }
}

TEST(Routing, Check16_AHeldOutputCostsOneBlockOfTheIoArenaAndNothingElse) {
  Routed routed(small_net());
  ASSERT_TRUE(routed.session);
  const std::vector<Value> in = {random_floats({1, 3, 20, 20}, 1)};
  for (int warm = 0; warm < 3; ++warm) routed.run(in);
  const std::vector<Value> held = routed.run(in);
  const int64_t io = routed.io->requests(), execution = routed.execution->requests();
  for (int r = 0; r < 20; ++r) routed.run(in);
  EXPECT_EQ(routed.io->requests() - io, static_cast<int64_t>(held.size()));
  EXPECT_EQ(routed.execution->requests(), execution);
}

}  // namespace
}  // namespace forethought
