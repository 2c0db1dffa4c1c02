#include "passes/engine/engine.h"

#include <algorithm>
#include <deque>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "graph/operator.h"
#include "passes/engine/edit.h"

namespace forethought::passes {
namespace {

constexpr std::string_view kCpu = "CPUExecutionProvider";

// What all graphs of one call share.
struct Shared {
  std::span<const Rule* const> rules;
  const PassOptions& options;
  bool cpu_only;
  Journal& journal;
  int64_t& fold_budget;
  std::map<std::string, std::vector<const Rule*>, std::less<>> by_root;
  int reach = 1;               // the deepest rule
  std::set<std::string> said;  // reasons that are in the journal already

  void index();
  const std::vector<const Rule*>& rules_of(const OpId& op) const {
    static const std::vector<const Rule*> none;
    auto it = by_root.find(to_string(op));
    if (it == by_root.end()) it = by_root.find("");
    return it == by_root.end() ? none : it->second;
  }
};

void Shared::index() {
  const auto is_disabled = [&](const Rule* r) {
    return std::any_of(options.disabled.begin(), options.disabled.end(),
                       [&](const std::string& d) { return d == r->name; });
  };
  by_root[""];
  for (const Rule* r : rules)
    for (const std::string& root : r->roots) by_root[root];
  // Rules for any operator are in every list, at their place in the order.
  for (const Rule* r : rules) {
    if (is_disabled(r)) continue;
    reach = std::max(reach, r->depth);
    for (auto& [root, list] : by_root)
      if (r->roots.empty() || std::find(r->roots.begin(), r->roots.end(), root) != r->roots.end()) list.push_back(r);
  }
}

// One graph.
class Runner {
 public:
  Runner(Graph& graph, Shared& shared, std::string prefix)
      : graph_(graph), shared_(shared), prefix_(std::move(prefix)) {}

  Status run() {
    for (NodeId id : graph_.order()) push(id);
    while (!queue_.empty()) {
      const NodeId id = queue_.front();
      queue_.pop_front();
      queued_[id.index] = false;
      RETURN_IF_ERROR(visit(id));
    }
    for (uint32_t i = 0; i < graph_.node_capacity(); ++i) {
      if (!may_touch(NodeId{i})) continue;
      for (auto& [attribute, body] : graph_.node(NodeId{i}).bodies)
        RETURN_IF_ERROR(Runner(*body, shared_, absl::StrCat(place(NodeId{i}), "/", attribute, "/")).run());
    }
#ifdef FORETHOUGHT_DEBUG_CHECKS
    RETURN_IF_ERROR(with_context(validate(graph_), "after the last rewrite"));
#endif
    return absl::OkStatus();
  }

 private:
  bool may_touch(NodeId id) const {
    const GraphNode& n = graph_.node(id);
    return !n.removed && n.impl && (!shared_.cpu_only || n.provider == kCpu);
  }
  void push(NodeId id) {
    if (id.index >= queued_.size()) queued_.resize(graph_.node_capacity(), false);
    if (queued_[id.index] || !may_touch(id)) return;
    queued_[id.index] = true;
    queue_.push_back(id);
  }
  std::string place(NodeId id) const {
    const std::string& name = graph_.node(id).name;
    return prefix_ + (name.empty() ? absl::StrCat("#", id.index) : name);
  }

  Status visit(NodeId id) {
    if (!may_touch(id)) return absl::OkStatus();
    for (const Rule* rule : shared_.rules_of(graph_.node(id).op)) {
      if (!shared_.journal.may_apply()) return absl::OkStatus();
      Outcome outcome = rule->attempt({graph_, id, shared_.options, shared_.fold_budget});
      if (auto* no = std::get_if<Declined>(&outcome)) {
        declined(*rule, id, no->reason);
      } else if (auto* rewrite = std::get_if<Rewrite>(&outcome)) {
        ASSIGN_OR_RETURN(const bool done, carry_out(*rule, id, *rewrite));
        if (done) return absl::OkStatus();
      }
    }
    return absl::OkStatus();
  }

  void declined(const Rule& rule, NodeId id, const std::string& reason) {
    const std::string where = place(id);
    if (shared_.said.insert(absl::StrCat(rule.name, "\n", where, "\n", reason)).second)
      shared_.journal.declined(rule.name, where, reason);
  }

  StatusOr<bool> carry_out(const Rule& rule, NodeId id, Rewrite& rewrite) {
    const std::string where = place(id);
    Edit edit(graph_, *shared_.options.library, id, rewrite);
    if (const Status s = edit.prepare(); !s.ok()) {
      declined(rule, id, std::string(s.message()));
      return false;
    }
    shared_.fold_budget -= rewrite.spent();
    edit.commit();
    shared_.journal.applied(rule.name, where, rewrite.what());
    for (NodeId made : edit.made()) push(made);
    for (ValueId v : edit.changed()) push_readers(v, shared_.reach);
    refresh(edit.sharper());
    if (!graph_.node(id).removed) push(id);
    for (NodeId made : edit.made())
      RETURN_IF_ERROR(with_context(edit.check(made), absl::StrCat("after ", rule.name, " at ", where)));
#ifdef FORETHOUGHT_DEBUG_CHECKS
    // The whole graph after each rewrite; of a large one now and then, or the time would grow with its square.
    if (++unchecked_ * kCheckedEachTime > graph_.node_capacity()) {
      unchecked_ = 0;
      RETURN_IF_ERROR(with_context(validate(graph_), absl::StrCat("after ", rule.name, " at ", where)));
    }
#endif
    return true;
  }

  // Nodes for which `v` is within reach of a pattern.
  void push_readers(ValueId v, int reach) {
    if (reach == 0 || graph_.value(v).removed) return;
    size_t some = 0;  // of a value with very many readers the first ones: nothing that must be found depends on more
    for (const Use& u : graph_.value(v).uses) {
      if (++some > 64) return;
      push(u.node);
      for (ValueId next : graph_.node(u.node).outputs)
        if (next.valid()) push_readers(next, reach - 1);
    }
  }

  // Infers again what reads values of which more is known now, as far as that tells more.
  void refresh(std::vector<ValueId> sharper) {
    while (!sharper.empty()) {
      const ValueId v = sharper.back();
      sharper.pop_back();
      if (graph_.value(v).removed) continue;
      for (const Use& u : std::vector<Use>(graph_.value(v).uses.begin(), graph_.value(v).uses.end())) {
        push(u.node);
        if (!graph_.node(u.node).bodies.empty() || refreshes_ > 16 * graph_.node_capacity()) continue;
        ++refreshes_;
        for (ValueId out : infer_again(graph_, u.node)) sharper.push_back(out);
      }
    }
  }

  Graph& graph_;
  Shared& shared_;
  std::string prefix_;
  std::deque<NodeId> queue_;
  std::vector<bool> queued_;
  size_t refreshes_ = 0;
#ifdef FORETHOUGHT_DEBUG_CHECKS
  static constexpr size_t kCheckedEachTime = 512;  // nodes of a graph that is validated after each rewrite
  size_t unchecked_ = 0;                           // rewrites since the last whole validation
#endif
};

}  // namespace

Status run_rules(Graph& graph, std::span<const Rule* const> rules, const PassOptions& options, bool cpu_only,
                 Journal& journal, int64_t& fold_budget) {
  Shared shared{rules, options, cpu_only, journal, fold_budget, {}, 1, {}};
  shared.index();
  return Runner(graph, shared, "").run();
}

}  // namespace forethought::passes
