#include "passes/passes.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "passes/engine/engine.h"
#include "passes/layout/layout.h"
#include "passes/pipeline.h"

namespace forethought {
namespace passes {

#define RULE(STAGE, NAME) const Rule& rule_##NAME();
#include "passes/pipeline.inc"
#undef RULE

namespace {

using Entry = std::pair<PassStage, const Rule*>;

std::vector<Entry> all_rules() {
  return {
#define RULE(STAGE, NAME) {PassStage::STAGE, &rule_##NAME()},
#include "passes/pipeline.inc"
#undef RULE
  };
}

// Nodes that nobody reads, bodies included.
size_t remove_dead(Graph& graph) {
  size_t removed = graph.remove_dead();
  for (uint32_t i = 0; i < graph.node_capacity(); ++i)
    for (auto& [attribute, body] : graph.node(NodeId{i}).bodies) removed += remove_dead(*body);
  return removed;
}

}  // namespace

std::vector<const Rule*> rules_of(PassStage stage) {
  std::vector<const Rule*> rules;
  for (const auto& [of, rule] : all_rules())
    if (of == stage) rules.push_back(rule);
  return rules;
}

std::pair<const Rule*, PassStage> find_rule(std::string_view name) {
  for (const auto& [stage, rule] : all_rules())
    if (rule->name == name) return {rule, stage};
  return {nullptr, PassStage::basic};
}

}  // namespace passes

Status run_passes(Graph& graph, PassStage stage, const PassOptions& options, Journal& journal) {
  const auto is_disabled = [&](std::string_view rule) {
    return std::find(options.disabled.begin(), options.disabled.end(), rule) != options.disabled.end();
  };
  if (stage == PassStage::basic && !is_disabled("remove_dead") && journal.may_apply()) {
    const size_t removed = passes::remove_dead(graph);
    if (removed > 0) journal.applied("remove_dead", "graph", absl::StrCat(removed, " nodes that nobody reads"));
  }
  int64_t budget = options.fold_budget;
  RETURN_IF_ERROR(
      passes::run_rules(graph, passes::rules_of(stage), options, stage != PassStage::basic, journal, budget));
  if (stage == PassStage::layout && options.isa != Isa::scalar && !is_disabled("layout"))
    RETURN_IF_ERROR(passes::choose_layouts(graph, *options.library, options.isa == Isa::avx512 ? 16 : 8, journal));
  return validate(graph);
}

}  // namespace forethought
