#include "passes/rule_testing.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>

#include "graph/facts.h"
#include "graph/text.h"
#include "ops/op.h"
#include "passes/basic/evaluate.h"
#include "passes/engine/constants.h"
#include "passes/engine/engine.h"
#include "passes/pipeline.h"

namespace forethought {
namespace passes {

namespace {

// Whether two graphs are one but for names.
class Comparison {
 public:
  Comparison(const Graph& a, const Graph& b) : a_(a), b_(b) {}
  std::string difference() {
    if (a_.inputs().size() != b_.inputs().size() || a_.outputs().size() != b_.outputs().size())
      return "numbers of inputs or outputs";
    for (size_t i = 0; i < a_.inputs().size(); ++i) pairs_[a_.inputs()[i]] = b_.inputs()[i];
    for (size_t i = 0; i < a_.outputs().size(); ++i)
      if (!same(a_.outputs()[i], b_.outputs()[i])) return where_;
    if (a_.node_count() != b_.node_count()) return "the number of nodes";
    return "";
  }

 private:
  bool fail(std::string where) {
    if (where_.empty()) where_ = std::move(where);
    return false;
  }
  bool same(ValueId x, ValueId y) {
    if (!x.valid() || !y.valid()) return x.valid() == y.valid() || fail("a skipped input");
    if (const auto it = pairs_.find(x); it != pairs_.end()) return it->second == y || fail("edges");
    const GraphValue &v = a_.value(x), &w = b_.value(y);
    if (v.constant.has_value() != w.constant.has_value()) return fail("'" + v.name + "' is a constant in one of them");
    if (v.constant) return same_constant(*v.constant, *w.constant) || fail("constant '" + v.name + "'");
    if (v.is_input || w.is_input || v.producer_slot != w.producer_slot) return fail("'" + v.name + "'");
    const GraphNode &n = a_.node(v.producer), &m = b_.node(w.producer);
    if (n.op.type != m.op.type || n.op.domain != m.op.domain)
      return fail(to_string(n.op) + " is not " + to_string(m.op));
    if (!same_attributes(n.attributes, m.attributes)) return fail("attributes of " + to_string(n.op));
    if (n.inputs.size() != m.inputs.size()) return fail("inputs of " + to_string(n.op));
    for (size_t i = 0; i < n.inputs.size(); ++i)
      if (!same(n.inputs[i], m.inputs[i])) return false;
    pairs_[x] = y;
    return true;
  }
  static bool same_attributes(const Attributes& x, const Attributes& y) {
    auto j = y.begin();
    for (auto i = x.begin(); i != x.end(); ++i, ++j)
      if (j == y.end() || i->first != j->first || !equal(i->second, j->second)) return false;
    return j == y.end();
  }
  static bool same_constant(const Tensor& x, const Tensor& y) {
    if (x.dtype != y.dtype || x.dims != y.dims) return false;
    if (x.dtype != DType::kFloat)
      return x.bytes() == 0 || std::memcmp(x.data, y.data, static_cast<size_t>(x.bytes())) == 0;
    const auto v = passes::f32_elements(x), w = passes::f32_elements(y);
    double largest = 0;
    for (double e : w) largest = std::max(largest, std::abs(e));
    for (size_t i = 0; i < v.size(); ++i)
      if (!(std::abs(v[i] - w[i]) <= 1e-6 * largest) && v[i] != w[i]) return false;
    return true;
  }

  const Graph &a_, &b_;
  std::map<ValueId, ValueId> pairs_;
  std::string where_;
};

}  // namespace
}  // namespace passes

std::unique_ptr<Graph> graph_of(std::string_view text) {
  auto graph = graph_from_text(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  if (!graph.ok()) return std::make_unique<Graph>();
  Status s = bind_operators(**graph, operator_library());
  if (s.ok()) s = infer_shapes(**graph);
  EXPECT_TRUE(s.ok()) << s;
  return std::move(*graph);
}

Journal run_rule(Graph& graph, std::string_view name, const PassOptions& given) {
  PassOptions options = given;
  options.library = &operator_library();
  options.isa = active_isa();
  Journal journal;
  const auto [rule, stage] = passes::find_rule(name);
  EXPECT_NE(rule, nullptr) << "pipeline.inc has no rule " << name;
  if (!rule) return journal;
  const passes::Rule* rules[] = {rule};
  int64_t budget = options.fold_budget;
  const Status s = passes::run_rules(graph, rules, options, stage != PassStage::basic, journal, budget);
  EXPECT_TRUE(s.ok()) << s;
  EXPECT_EQ(validate(graph), absl::OkStatus());
  return journal;
}

std::vector<Tensor> random_inputs(const Graph& graph) {
  std::vector<Tensor> inputs;
  uint64_t state = 12345;
  for (ValueId v : graph.inputs()) {
    Dims dims;
    for (const Dim& d : graph.value(v).shape.dims) dims.push_back(d.known().value_or(2));
    Tensor t = make_tensor(graph.value(v).type.dtype(), dims).value();
    for (int64_t i = 0; i < t.elements(); ++i) {
      state = state * 6364136223846793005ull + 1442695040888963407ull;
      const double u = static_cast<double>(state >> 40) / (1 << 24) * 8 - 4;  // [-4, 4)
      dispatch(t.dtype, NumberTypes{}, [&]<typename T>() {
        if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>)
          t.as<T>()[i] = T(static_cast<float>(u));
        else
          t.as<T>()[i] = static_cast<T>(static_cast<int64_t>(u) != 0 || is_floating(t.dtype) ? u : 1);
      });
      if (t.dtype == DType::kBool) t.as<uint8_t>()[i] = u > 0;
    }
    inputs.push_back(std::move(t));
  }
  return inputs;
}

std::vector<Tensor> run_plainly(const Graph& graph, const std::vector<Tensor>& inputs) {
  const auto g = graph.clone();
  for (size_t i = 0; i < inputs.size(); ++i) g->make_constant(g->inputs()[i], inputs[i]);
  for (NodeId id : g->order()) {
    const auto outputs = passes::evaluate(*g, id, active_isa(), int64_t{1} << 32);
    EXPECT_TRUE(outputs.ok()) << to_string(g->node(id).op) << ": " << outputs.status();
    if (!outputs.ok()) return {};
    const auto ids = g->node(id).outputs;
    for (size_t i = 0; i < ids.size(); ++i)
      if (ids[i].valid()) g->make_constant(ids[i], (*outputs)[i]);
  }
  std::vector<Tensor> results;
  for (ValueId v : g->outputs()) results.push_back(*g->value(v).constant);
  return results;
}

void expect_rewrite(std::string_view rule, std::string_view before, std::string_view after, double tolerance) {
  const auto original = graph_of(before), changed = graph_of(before), wanted = graph_of(after);
  const Journal journal = run_rule(*changed, rule);
  EXPECT_GT(journal.applied_count(), 0) << "nothing applied";
  for (const JournalEntry& e : journal.entries())
    EXPECT_TRUE(e.applied) << "declined at " << e.place << ": " << e.reason;
  EXPECT_EQ(passes::Comparison(*changed, *wanted).difference(), "") << to_text(*changed);
  const auto inputs = random_inputs(*original);
  const auto want = run_plainly(*original, inputs), got = run_plainly(*changed, inputs);
  ASSERT_EQ(want.size(), got.size());
  for (size_t i = 0; i < want.size(); ++i) {
    ASSERT_EQ(want[i].dtype, got[i].dtype);
    ASSERT_EQ(to_string(want[i].dims), to_string(got[i].dims));
    if (tolerance == 0) {
      EXPECT_TRUE(want[i].bytes() == 0 ||
                  std::memcmp(want[i].data, got[i].data, static_cast<size_t>(want[i].bytes())) == 0)
          << "output " << i << " differs";
      continue;
    }
    for (int64_t k = 0; k < want[i].elements(); ++k) {
      const double w = passes::number_at(want[i], k).value(), g = passes::number_at(got[i], k).value();
      ASSERT_LE(std::abs(w - g), tolerance * (1 + std::abs(w))) << "output " << i << " element " << k;
    }
  }
}

void expect_declined(std::string_view rule, std::string_view text, std::string_view reason) {
  const auto graph = graph_of(text);
  const std::string before = to_text(*graph);
  const Journal journal = run_rule(*graph, rule);
  EXPECT_EQ(journal.applied_count(), 0);
  EXPECT_EQ(to_text(*graph), before);
  std::string said;
  for (const JournalEntry& e : journal.entries()) said += e.reason + "\n";
  if (reason.empty()) {
    EXPECT_EQ(said, "");
  } else {
    EXPECT_NE(said.find(reason), std::string::npos) << "it said: " << said;
  }
}

}  // namespace forethought
