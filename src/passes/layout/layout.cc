#include "passes/layout/layout.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "graph/operator.h"
#include "passes/engine/rewrite.h"
#include "passes/layout/candidates.h"

namespace forethought::passes {
namespace {

constexpr int kSweeps = 6;

// The choice of one form for every node of a graph.
class Choice {
 public:
  Choice(const Graph& graph, uint8_t block) : graph_(graph), block_(block), order_(graph.order()) {
    forms_.resize(graph.node_capacity());
    chosen_.resize(graph.node_capacity(), 0);
    for (NodeId id : order_) {
      if (graph.node(id).provider != "CPUExecutionProvider") {
        forms_[id.index].resize(1);
        forms_[id.index][0].inputs.assign(graph.node(id).inputs.size(), Layout());
        forms_[id.index][0].outputs.assign(graph.node(id).outputs.size(), Layout());
      } else {
        forms_[id.index] = forms_of(graph, id, block);
      }
    }
  }

  // Starts with every node blocked that a convolution reaches, then changes single nodes as long as that costs less.
  void run() {
    for (NodeId id : order_) chosen_[id.index] = first_choice(id);
    for (int sweep = 0; sweep < kSweeps; ++sweep) {
      bool changed = false;
      for (size_t i = 0; i < order_.size(); ++i) {
        // Backwards first: a tail that gains nothing is given up from its end.
        const NodeId id = sweep % 2 == 0 ? order_[order_.size() - 1 - i] : order_[i];
        changed |= improve(id);
      }
      if (!changed && sweep > 0) break;
    }
  }

  const std::vector<NodeId>& order() const { return order_; }
  const Form& form(NodeId id) const { return forms_[id.index][chosen_[id.index]]; }
  void make_plain(NodeId id) { chosen_[id.index] = 0; }
  Layout home(ValueId v) const {
    const GraphValue& g = graph_.value(v);
    return g.producer.valid() ? form(g.producer).outputs[g.producer_slot] : Layout();
  }

 private:
  size_t first_choice(NodeId id) const {
    const auto& forms = forms_[id.index];
    const GraphNode& n = graph_.node(id);
    size_t best = 0;
    int best_fit = 0;
    for (size_t f = 1; f < forms.size(); ++f) {
      int fit = 1;  // a form that blocks what is blocked already before one that would need a reorder
      bool reached = false, asks = false;
      for (size_t i = 0; i < n.inputs.size(); ++i) {
        if (!forms[f].inputs[i].is_blocked()) continue;
        asks = true;
        const bool is = home(n.inputs[i]).is_blocked();
        reached = reached || is;
        fit += is ? 2 : -1;
      }
      if (asks && !reached) continue;
      if (best == 0 || fit > best_fit) best = f, best_fit = fit;
    }
    return best;
  }

  // Reorders of a value: one if somebody reads it in another layout than it is made in.
  double cost_of(ValueId v) const {
    const GraphValue& g = graph_.value(v);
    const Layout made = home(v);
    bool other = g.is_output && !made.is_plain();
    for (const Use& u : g.uses) {
      if (other) break;
      other = form(u.node).inputs[u.slot] != made;
    }
    return other ? reorder_cost(g, block_) : 0;
  }

  double cost_around(NodeId id) const {
    const GraphNode& n = graph_.node(id);
    double cost = form(id).cost;
    for (size_t i = 0; i < n.inputs.size(); ++i)
      if (n.inputs[i].valid() && std::find(n.inputs.begin(), n.inputs.begin() + i, n.inputs[i]) == n.inputs.begin() + i)
        cost += cost_of(n.inputs[i]);
    for (ValueId v : n.outputs)
      if (v.valid()) cost += cost_of(v);
    return cost;
  }

  bool improve(NodeId id) {
    const size_t forms = forms_[id.index].size(), was = chosen_[id.index];
    if (forms == 1) return false;
    size_t best = was;
    double least = cost_around(id);
    for (size_t f = 0; f < forms; ++f) {
      if (f == was) continue;
      chosen_[id.index] = f;
      const double cost = cost_around(id);
      if (cost < least) least = cost, best = f;
    }
    chosen_[id.index] = best;
    return best != was;
  }

  const Graph& graph_;
  uint8_t block_;
  std::vector<NodeId> order_;
  std::vector<std::vector<Form>> forms_;
  std::vector<size_t> chosen_;
};

// Nodes that hand blocked values to each other.
class Regions {
 public:
  Regions(const Graph& graph, const Choice& choice) : parent_(graph.node_capacity()) {
    std::iota(parent_.begin(), parent_.end(), 0u);
    for (NodeId id : choice.order()) {
      const GraphNode& n = graph.node(id);
      for (size_t i = 0; i < n.inputs.size(); ++i) {
        if (!n.inputs[i].valid() || !choice.form(id).inputs[i].is_blocked() || !choice.home(n.inputs[i]).is_blocked())
          continue;
        parent_[root(id.index)] = root(graph.producer(n.inputs[i]).index);
      }
    }
  }
  uint32_t root(uint32_t i) {
    while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
    return i;
  }

 private:
  std::vector<uint32_t> parent_;
};

// Writes the choice into the graph.
class Writer {
 public:
  Writer(Graph& graph, const Choice& choice, uint8_t block)
      : graph_(graph), choice_(choice), blocked_(Layout::blocked(block)) {}

  // Returns the reorders made.
  StatusOr<int> run(const OperatorLibrary& library) {
    const uint32_t values = static_cast<uint32_t>(graph_.value_capacity());
    for (uint32_t i = 0; i < values; ++i) {
      if (graph_.value(ValueId{i}).removed) continue;
      RETURN_IF_ERROR(place(ValueId{i}, library));
    }
    return reorders_;
  }

 private:
  Status place(ValueId v, const OperatorLibrary& library) {
    const Layout home = choice_.home(v);
    std::vector<Use> others;  // readers in the other layout
    for (const Use& u : graph_.value(v).uses)
      if (choice_.form(u.node).inputs[u.slot] != home) others.push_back(u);
    if (!home.is_plain() && graph_.value(v).is_output) return place_output(v, library);
    graph_.value(v).layout = home;
    if (others.empty()) return absl::OkStatus();
    const ValueId other = twin(v, home.is_plain() ? blocked_ : Layout());
    RETURN_IF_ERROR(add_reorder(v, other, library));
    for (const Use& u : others) graph_.set_input(u.node, u.slot, other);
    return absl::OkStatus();
  }

  // The graph output stays plain under its name; the node writes a twin.
  Status place_output(ValueId v, const OperatorLibrary& library) {
    const ValueId inner = twin(v, blocked_);
    const NodeId producer = graph_.producer(v);
    const int slot = graph_.value(v).producer_slot;
    const auto uses = graph_.value(v).uses;
    graph_.set_output(producer, slot, inner);
    for (const Use& u : uses)
      if (choice_.form(u.node).inputs[u.slot].is_blocked()) graph_.set_input(u.node, u.slot, inner);
    return add_reorder(inner, v, library);
  }

  ValueId twin(ValueId v, Layout layout) {
    const GraphValue of = graph_.value(v);
    const ValueId made = graph_.add_value(absl::StrCat(of.name, "/", to_string(layout)), of.type, of.shape);
    graph_.value(made).layout = layout;
    return made;
  }

  Status add_reorder(ValueId from, ValueId to, const OperatorLibrary& library) {
    Attributes attributes;
    attributes.set("layout", to_string(graph_.value(to).layout));
    const NodeId id =
        graph_.add_node(op_id("forethought.Reorder"), graph_.value(to).name, {from}, {to}, std::move(attributes));
    ASSIGN_OR_RETURN(graph_.node(id).impl, library.bind(graph_.node(id)));
    ++reorders_;
    return absl::OkStatus();
  }

  Graph& graph_;
  const Choice& choice_;
  Layout blocked_;
  int reorders_ = 0;
};

struct Region {
  NodeId first;
  int nodes = 0, convolutions = 0;
};

}  // namespace

Status choose_layouts(Graph& graph, const OperatorLibrary& library, uint8_t block, Journal& journal) {
  for (uint32_t i = 0; i < graph.node_capacity(); ++i)
    for (auto& [attribute, body] : graph.node(NodeId{i}).bodies)
      RETURN_IF_ERROR(choose_layouts(*body, library, block, journal));
  Choice choice(graph, block);
  choice.run();
  Regions regions(graph, choice);
  std::map<uint32_t, Region> found;
  for (NodeId id : choice.order()) {
    if (!choice.form(id).blocked) continue;
    Region& r = found[regions.root(id.index)];
    if (r.nodes++ == 0) r.first = id;
    r.convolutions += graph.node(id).op.type.find("Conv") != std::string::npos;
  }
  if (found.empty()) return absl::OkStatus();
  std::vector<uint32_t> refused;
  for (const auto& [root, r] : found) {
    const std::string& name = graph.node(r.first).name;
    if (journal.may_apply()) {
      journal.applied("layout", name.empty() ? absl::StrCat("#", r.first.index) : name,
                      absl::StrCat(to_string(Layout::blocked(block)), " through ", r.nodes, " nodes, ", r.convolutions,
                                   " convolutions"));
    } else {
      refused.push_back(root);
    }
  }
  for (NodeId id : choice.order())
    if (std::find(refused.begin(), refused.end(), regions.root(id.index)) != refused.end()) choice.make_plain(id);
  return Writer(graph, choice, block).run(library).status();
}

}  // namespace forethought::passes
