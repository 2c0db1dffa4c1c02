// Softmax, LogSoftmax and Hardmax before 13 see a matrix: the dims from `axis` (default 1) on are one. The newest form
// says so with the internal attribute _coerce_2d.
#include "onnx/upgrade/rules.h"

namespace forethought {
namespace {

// Over the last axis both forms mean the same.
bool is_last(std::optional<int> rank, int64_t axis) { return axis == -1 || (rank && axis == *rank - 1); }

Status up(Rewriter& r, NodeForm& n) {
  const int64_t axis = n.attributes.get_int("axis", 1);
  n.attributes.set("axis", axis);
  if (n.has_input(0) && !is_last(r.rank(n.inputs[0]), axis)) n.attributes.set("_coerce_2d", int64_t{1});
  return absl::OkStatus();
}

bool down(const Graph& g, NodeForm& n) {
  if (n.attributes.get_int("_coerce_2d", 0) != 0) return n.attributes.erase("_coerce_2d");
  const SymShape& shape = g.value(n.inputs[0]).shape;
  if (!shape.has_rank || shape.rank() == 0 || !is_last(shape.rank(), n.attributes.get_int("axis", -1))) return false;
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

void spell_out_coercion(Rewriter& r, NodeForm& n) {
  if (n.attributes.get_int("_coerce_2d", 0) == 0 || !n.has_output(0)) return;
  const ValueId x = n.inputs[0], y = n.outputs[0];
  Attributes flatten, reshape;
  flatten.set("axis", n.attributes.get_int("axis", 1));
  reshape.set("allowzero", int64_t{1});
  n.inputs[0] = r.node("Flatten", {x}, std::move(flatten));
  n.attributes.set("axis", int64_t{-1});
  n.attributes.erase("_coerce_2d");
  n.outputs[0] = r.like(y);
  r.node_into("Reshape", {n.outputs[0], r.node("Shape", {x})}, y, std::move(reshape));
}

}  // namespace forethought
