// Which arena each value lies in: outputs in the I/O arena, what is between in the execution arena, inputs where they
// are; and what holding an output costs.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <mutex>
#include <random>

#include "absl/strings/str_cat.h"
#include "exec/profile.h"
#include "exec/program.h"
#include "memory/system.h"
#include "session/random_graph_testing.h"
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
  bool holds(const Value& v) const { return holds(v.tensor().data); }
  bool holds(const void* data) const {
    const std::lock_guard lock(mutex_);
    const auto* at = static_cast<const std::byte*>(data);
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

  explicit Routed(const std::string& text, int lanes = 1) {
    SessionOptions o;
    o.optimization_level = OptimizationLevel::disabled;  // every value stays
    o.intra_op_threads = 1;
    o.lanes = lanes;
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

// Looks at every operand of every step: are its bytes in the arena that the role of the value names?
class ArenaSink final : public StepSink {
 public:
  ArenaSink(const Routed& routed, const std::vector<Value>& inputs) : routed_(routed), inputs_(inputs) {}

  void on_step(const StepEvent& event) override {
    const Program& p = *event.program;
    const ProgramStep& step = p.steps[event.step];
    const std::lock_guard lock(mutex_);
    for (size_t i = 0; i < step.inputs.size(); ++i) look(event, step.inputs[i], event.ctx->inputs[i]);
    for (size_t i = 0; i < step.outputs.size(); ++i) look(event, step.outputs[i], event.ctx->outputs[i]);
    if (step.runnable && step.scratch_shared + step.scratch_per_worker > 0) {
      ++seen["scratch"];
      EXPECT_TRUE(routed_.execution->holds(event.ctx->scratch_data)) << step.name;
    }
  }

  std::map<std::string, int> seen;

 private:
  void look(const StepEvent& event, int32_t v, const Arg& arg) {
    if (v < 0 || !arg.present || !arg.data || arg.elements == 0) return;
    const ProgramValue& value = event.program->values[v];
    if (value.is_object()) return;
    const bool execution = routed_.execution->holds(arg.data), io = routed_.io->holds(arg.data);
    const std::string which = absl::StrCat("'", std::string(value.name), "' of ",
                                           std::string(event.program->steps[event.step].name), ", depth ", event.depth);
    const bool outermost = event.depth == 0;  // what crosses the border of a body lies where the graph around has it
    switch (value.base) {
      case Base::slab:
        ++seen["slab"];
        EXPECT_TRUE(execution && !io) << which;
        break;
      case Base::weight:
      case Base::side:
        ++seen[value.base == Base::side ? "side" : "weight"];
        EXPECT_TRUE(!execution && !io) << which;
        break;
      case Base::output:
        seen["output"] += outermost;
        EXPECT_TRUE(!outermost || (io && !execution)) << which;
        break;
      case Base::input:
        seen["input"] += outermost;
        EXPECT_TRUE(!outermost || arg.data == static_cast<std::byte*>(inputs_[value.index].tensor().data) +
                                                  value.offset + value.first)
            << which;
        break;
      case Base::none:
      case Base::object:
        break;
    }
  }
  const Routed& routed_;
  const std::vector<Value>& inputs_;
  std::mutex mutex_;
};

TEST(Routing, C16_EveryOperandLiesInTheArenaThatItsRoleNames) {
  std::map<std::string, int> seen;
  for (uint64_t seed = 0; seed < 150 && !HasFailure(); ++seed) {
    const RandomGraph graph = random_graph(seed);
    SCOPED_TRACE(absl::StrCat("seed ", seed, "\n", graph.text));
    Routed routed(graph.text, 1 + static_cast<int>(seed % 3));
    ASSERT_TRUE(routed.session);
    ArenaSink sink(routed, graph.inputs);
    RunOptions watched;
    watched.sink = &sink;
    for (int r = 0; r < 2; ++r) {
      std::vector<Value> outputs(routed.session->outputs().size());
      const Status status = routed.session->run_ordered(graph.inputs, outputs, watched);
      ASSERT_TRUE(status.ok()) << status;
    }
    for (const auto& [kind, count] : sink.seen) seen[kind] += count;
  }
  for (const char* const kind : {"slab", "weight", "side", "output", "input", "scratch"})
    EXPECT_GT(seen[kind], 50) << kind;
}

// Outputs, what is between, scratch, inputs that are borrowed, inputs that were copied: where each of them lies.
TEST(Routing, C29_TheFiveRules) {
  Routed routed(R"(graph(%x: f32[8,64]) {
  %s = Softmax(%x)
  %v, %i = TopK(%s, [16])
  %y = Neg(%v)
  return %y
})");
  ASSERT_TRUE(routed.session);
  const std::vector<Value> borrowed = {random_floats({8, 64}, 1)};
  Tensor room = routed.session->take_io(DType::kFloat, Dims{8, 64}, "x").value();
  std::copy_n(borrowed[0].tensor().as<float>(), room.elements(), room.as<float>());
  const std::vector<Value> copied = {Value(std::move(room))};
  EXPECT_TRUE(routed.io->holds(copied[0]));
  EXPECT_FALSE(routed.execution->holds(borrowed[0]) || routed.io->holds(borrowed[0]));
  std::vector<std::vector<float>> results;
  for (const std::vector<Value>* in : {&borrowed, &copied}) {
    ArenaSink sink(routed, *in);
    RunOptions watched;
    watched.sink = &sink;
    std::vector<Value> out(1);
    const Status status = routed.session->run_ordered(*in, out, watched);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_TRUE(routed.io->holds(out[0]));
    for (const char* const kind : {"slab", "output", "input", "scratch"}) EXPECT_GT(sink.seen[kind], 0) << kind;
    results.push_back(floats(out[0]));
  }
  EXPECT_EQ(results[0], results[1]);
}

}  // namespace
}  // namespace forethought
