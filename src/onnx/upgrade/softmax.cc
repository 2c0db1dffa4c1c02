// Softmax, LogSoftmax and Hardmax before 13 see a matrix: the dims from `axis` (default 1) on are one.
#include "onnx/upgrade/rules.h"

namespace forethought {
namespace {

Status up(Rewriter& r, NodeForm& n) {
  const int64_t axis = n.attributes.get_int("axis", 1);
  if (!n.has_input(0) || !n.has_output(0)) return absl::OkStatus();
  const auto rank = r.rank(n.inputs[0]);
  if (rank && (axis == *rank - 1 || axis == -1)) {
    n.attributes.set("axis", axis);
    return absl::OkStatus();
  }
  const ValueId x = n.inputs[0], y = n.outputs[0];
  Attributes flatten, reshape;
  flatten.set("axis", axis);
  reshape.set("allowzero", int64_t{1});
  n.inputs[0] = r.node("Flatten", {x}, std::move(flatten));
  n.attributes.set("axis", int64_t{-1});
  n.outputs[0] = r.like(y);
  r.node_into("Reshape", {n.outputs[0], r.node("Shape", {x})}, y, std::move(reshape));
  return absl::OkStatus();
}

// Over the last axis both forms mean the same.
bool down(const Graph& g, NodeForm& n) {
  const SymShape& shape = g.value(n.inputs[0]).shape;
  const int64_t axis = n.attributes.get_int("axis", -1);
  if (!shape.has_rank || shape.rank() == 0) return false;
  if (axis != -1 && axis != shape.rank() - 1) return false;
  n.attributes.set("axis", static_cast<int64_t>(shape.rank() - 1));
  return true;
}

constexpr UpgradeRule kRules[] = {
    {"Hardmax", 13, up, down},
    {"LogSoftmax", 13, up, down},
    {"Softmax", 13, up, down},
};

}  // namespace

std::span<const UpgradeRule> softmax_rules() { return kRules; }

}  // namespace forethought
