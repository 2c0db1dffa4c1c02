#include "passes/passes.h"

#include "absl/strings/str_cat.h"

namespace forethought {

Status run_passes(Graph& graph, PassStage stage, const PassOptions&, Journal& journal) {
  if (stage == PassStage::basic && journal.may_apply()) {
    const size_t removed = graph.remove_dead();
    if (removed > 0) journal.applied("remove_dead", "graph", absl::StrCat(removed, " nodes that nobody reads"));
  }
  return validate(graph);
}

}  // namespace forethought
