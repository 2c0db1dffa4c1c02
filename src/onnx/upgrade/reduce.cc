// Reductions: axes is an attribute before 13 (ReduceSum) or 18 (the others), then an input.
#include "onnx/upgrade/rules.h"

namespace forethought {
namespace {

Status up(Rewriter& r, NodeForm& n) {
  ints_to_input(r, n, "axes", 1);
  return absl::OkStatus();
}

bool down(const Graph& g, NodeForm& n) {
  if (!input_to_ints(g, n, 1, "axes")) return false;
  const auto* axes = n.attributes.get_ints("axes");
  const bool none = !axes || axes->empty();
  // An empty list reduces nothing under noop_with_empty_axes, which the older form cannot say.
  if (none && n.attributes.get_int("noop_with_empty_axes", 0) != 0) return false;
  if (none) n.attributes.erase("axes");
  n.attributes.erase("noop_with_empty_axes");
  return true;
}

constexpr UpgradeRule kRules[] = {
    {"ReduceL1", 18, up, down},        {"ReduceL2", 18, up, down},   {"ReduceLogSum", 18, up, down},
    {"ReduceLogSumExp", 18, up, down}, {"ReduceMax", 18, up, down},  {"ReduceMean", 18, up, down},
    {"ReduceMin", 18, up, down},       {"ReduceProd", 18, up, down}, {"ReduceSum", 13, up, down},
    {"ReduceSumSquare", 18, up, down},
};

}  // namespace

std::span<const UpgradeRule> reduce_rules() { return kRules; }

}  // namespace forethought
