// Providers in a chain: three fake ones before the CPU, one of which claims whole subgraphs.
#include <gtest/gtest.h>

#include "graph/text.h"
#include "ops/op.h"
#include "session/session_testing.h"

namespace forethought {
namespace {

// Claims single nodes of one type and runs them with the host's kernels on memory that the host can touch.
class NodeProvider : public Provider {
 public:
  NodeProvider(std::string name, std::string op, uint16_t index)
      : name_(std::move(name)), op_(std::move(op)), index_(index) {}
  std::string_view name() const override { return name_; }
  Device device() const override { return {DeviceKind::other, MemoryKind::host_visible, index_}; }
  Capability capability(const Graph& graph, std::span<const NodeId> free) const override {
    Capability can;
    for (NodeId id : free) {
      if (graph.node(id).op.is(op_)) {
        can.claims.push_back({{id}, false, "", "it is a " + op_});
      } else {
        can.refusals.push_back({id, "not a " + op_});
      }
    }
    return can;
  }

 private:
  std::string name_, op_;
  uint16_t index_;
};

// y = (x·w) + b over equal shapes, as one compiled node.
class MulAdd final : public Operator, public Kernel {
 public:
  Status infer(InferCtx& c) const override {
    c.set(0, c.dtype(0), c.shape(0));
    return absl::OkStatus();
  }
  const Kernel* kernel() const override { return this; }
  StatusOr<KernelFacts> choose(const ChooseCtx&) const override {
    KernelFacts f;
    f.kernel = "fake.mul_add";
    return f;
  }
  Status run(RunCtx& c) const override {
    for (int64_t i = 0; i < c.out(0).elements; ++i)
      c.out_as<float>(0)[i] = c.in_as<float>(0)[i] * c.in_as<float>(1)[i] + c.in_as<float>(2)[i];
    return absl::OkStatus();
  }
};

// Claims every Mul whose result only an Add reads, together with that Add.
class PairProvider : public Provider {
 public:
  std::string_view name() const override { return "PairProvider"; }
  Device device() const override { return {DeviceKind::other, MemoryKind::host_visible, 3}; }
  Capability capability(const Graph& g, std::span<const NodeId> free) const override {
    Capability can;
    for (NodeId id : free) {
      if (!g.node(id).op.is("Mul")) continue;
      const GraphValue& product = g.value(g.node(id).outputs[0]);
      if (product.is_output || product.uses.size() != 1 || !g.node(product.uses[0].node).op.is("Add")) {
        can.refusals.push_back({id, "its product is read elsewhere too"});
        continue;
      }
      can.claims.push_back({{id, product.uses[0].node}, true, "MulAdd", "a multiply and an add"});
    }
    return can;
  }
  StatusOr<std::shared_ptr<const Operator>> compile(std::unique_ptr<Graph> g) const override {
    compiled_nodes += static_cast<int>(g->node_count());
    if (g->inputs().size() != 3 || g->outputs().size() != 1) return unsupported("only x, w and b");
    return std::shared_ptr<const Operator>(std::make_shared<MulAdd>());
  }
  inline static int compiled_nodes = 0;
};

class Providers : public ::testing::Test {
 protected:
  void SetUp() override {
    add("ReluProvider", [] { return std::make_unique<NodeProvider>("ReluProvider", "Relu", 1); });
    add("NegProvider", [] { return std::make_unique<NodeProvider>("NegProvider", "Neg", 2); });
    add("PairProvider", [] { return std::make_unique<PairProvider>(); });
    ASSERT_TRUE(ProviderRegistry::global()
                    .add("BrokenProvider",
                         [](const ProviderOptions&) -> StatusOr<std::unique_ptr<Provider>> {
                           return not_found("libbroken.so.1 is not installed");
                         })
                    .ok());
  }
  void TearDown() override {
    for (const char* n : {"ReluProvider", "NegProvider", "PairProvider", "BrokenProvider"})
      ProviderRegistry::global().remove(n);
  }
  template <typename F>
  void add(const char* name, F make) {
    ASSERT_TRUE(ProviderRegistry::global()
                    .add(name, [make](const ProviderOptions&) -> StatusOr<std::unique_ptr<Provider>> { return make(); })
                    .ok());
  }
};

constexpr char kChain[] = R"(graph(%x: f32[2,3], %w: f32[2,3], %b: f32[2,3]) {
  %r = Relu(%x) "relu"
  %m = Mul(%r, %w) "mul"
  %a = Add(%m, %b) "add"
  %n = Neg(%a) "neg"
  %e = Exp(%r) "exp"
  %y = Add(%n, %e) "last"
  return %y, %r
})";

TEST_F(Providers, D12_ChainTakesNodesInOrderWithReasons) {
  PairProvider::compiled_nodes = 0;
  const std::vector<Value> in = {tensor_of<float>({2, 3}, {1, -2, 3, -4, 5, -6}),
                                 tensor_of<float>({2, 3}, {1, 2, 3, 4, 5, 6}),
                                 tensor_of<float>({2, 3}, {9, 8, 7, 6, 5, 4})};
  SessionOptions alone;
  alone.optimization_level = OptimizationLevel::disabled;
  SessionOptions chained = alone;
  chained.providers = {{"ReluProvider", {}}, {"PairProvider", {}}, {"NegProvider", {}}};
  auto plain = session_of(kChain, alone);
  auto split = session_of(kChain, chained);
  ASSERT_TRUE(plain && split);
  std::vector<Value> want(2), got(2);
  ASSERT_TRUE(plain->run_ordered(in, want).ok());
  const Status ran = split->run_ordered(in, got);
  ASSERT_TRUE(ran.ok()) << ran;
  EXPECT_EQ(floats(want[0]), floats(got[0]));
  EXPECT_EQ(floats(want[1]), floats(got[1]));
  EXPECT_EQ(PairProvider::compiled_nodes, 2);

  std::map<std::string, NodePlacement> by_name;
  for (const NodePlacement& p : split->report().partition.placements) by_name[p.node] = p;
  EXPECT_EQ(by_name["relu"].provider, "ReluProvider");
  EXPECT_EQ(by_name["relu"].reason, "it is a Relu");
  EXPECT_EQ(by_name["neg"].provider, "NegProvider");
  EXPECT_EQ(by_name["MulAdd"].provider, "PairProvider");
  EXPECT_EQ(by_name["MulAdd"].fused_nodes, 2);
  EXPECT_EQ(by_name["exp"].provider, "CPUExecutionProvider");
  ASSERT_EQ(by_name["exp"].refused.size(), 2u);
  EXPECT_EQ(by_name["exp"].refused[0].first, "ReluProvider");
  EXPECT_EQ(by_name["exp"].refused[0].second, "not a Relu");
  EXPECT_EQ(split->providers(),
            (std::vector<std::string>{"ReluProvider", "PairProvider", "NegProvider", "CPUExecutionProvider"}));
}

TEST_F(Providers, A49_OneCopyForEachValueAndDevice) {
  SessionOptions o;
  o.optimization_level = OptimizationLevel::disabled;
  o.providers = {{"ReluProvider", {}}};
  // %x goes to the device once, %r comes back once for its five readers.
  auto s = session_of(R"(graph(%x: f32[4]) {
    %r = Relu(%x) %a = Neg(%r) %b = Exp(%r) %c = Abs(%r) %d = Sqrt(%r) %e = Add(%r, %a)
    return %b, %c, %d, %e })",
                      o);
  ASSERT_TRUE(s);
  EXPECT_EQ(s->report().partition.copies, 2);
  auto cpu = session_of("graph(%x: f32[4]) { %r = Relu(%x) %y = Exp(%r) return %y }");
  ASSERT_TRUE(cpu);
  EXPECT_EQ(cpu->report().partition.copies, 0);
}

// Claims Mul and Add as one node though a path leaves the pair and comes back.
class GreedyProvider final : public PairProvider {
 public:
  Capability capability(const Graph& g, std::span<const NodeId> free) const override {
    Claim c{{}, true, "MulAdd", "all of it"};
    for (NodeId id : free)
      if (!g.node(id).op.is("Exp")) c.nodes.push_back(id);
    return {{c}, {}};
  }
};

TEST_F(Providers, FusedClaimsThatCloseACycleAreDropped) {
  add("GreedyProvider", [] { return std::make_unique<GreedyProvider>(); });
  SessionOptions o;
  o.optimization_level = OptimizationLevel::disabled;
  o.providers = {{"GreedyProvider", {}}};
  auto s =
      session_of(R"(graph(%x: f32[2], %w: f32[2]) { %m = Mul(%x, %w) %e = Exp(%m) %y = Add(%m, %e) return %y })", o);
  ProviderRegistry::global().remove("GreedyProvider");
  ASSERT_TRUE(s);
  int dropped = 0;
  for (const NodePlacement& p : s->report().partition.placements) {
    EXPECT_EQ(p.provider, "CPUExecutionProvider") << p.node;
    for (const auto& [provider, reason] : p.refused) dropped += reason == "its subgraph would close a cycle";
  }
  EXPECT_EQ(dropped, 2);
}

TEST_F(Providers, D15_UnknownNamesAndBrokenOnesAreErrorsUnlessFallbackIsAskedFor) {
  auto load = [](const SessionOptions& o) {
    auto graph = graph_from_text("graph(%x: f32[2]) { %y = Relu(%x) return %y }");
    return Session::from_graph(std::move(*graph), o).status();
  };
  SessionOptions o;
  o.providers = {{"ReluProvidr", {}}};
  EXPECT_NE(load(o).message().find("did you mean 'ReluProvider'"), std::string::npos) << load(o);
  o.providers = {{"BrokenProvider", {}}};
  EXPECT_NE(load(o).message().find("libbroken.so.1"), std::string::npos) << load(o);
  o.allow_fallback = true;
  EXPECT_TRUE(load(o).ok());
}

}  // namespace
}  // namespace forethought
