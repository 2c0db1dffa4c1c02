// BatchNormalization: is_test and five outputs (1, 6), spatial and five outputs (7), five outputs (9), training_mode
// (14).
#include "onnx/upgrade/rules.h"

namespace forethought {
namespace {

// spatial = 0: statistics for each activation. (X − mean) / √(var + ε) · scale + B, broadcast over the batch alone.
Status per_activation(Rewriter& r, NodeForm& n) {
  const ValueId epsilon = r.scalar(r.dtype(n.inputs[4]), n.attributes.get_float("epsilon", 1e-5f));
  const ValueId deviation = r.node("Sqrt", {r.node("Add", {n.inputs[4], epsilon})});
  const ValueId normal = r.node("Div", {r.node("Sub", {n.inputs[0], n.inputs[3]}), deviation});
  r.node_into("Add", {r.node("Mul", {normal, n.inputs[1]}), n.inputs[2]}, n.outputs[0]);
  n.type.clear();
  return absl::OkStatus();
}

// Forms 1 and 6 train if is_test is 0 and more than Y is asked for ("Y" alone is their test mode).
Status up(Rewriter& r, NodeForm& n) {
  bool more = false;
  for (size_t i = 1; i < n.outputs.size(); ++i) more = more || n.has_output(i);
  const bool training = more && (n.version >= 7 || n.attributes.get_int("is_test", 0) == 0);
  const bool spatial = n.attributes.get_int("spatial", 1) != 0;
  n.attributes.erase("is_test");
  n.attributes.erase("spatial");
  if (n.inputs.size() != 5 || n.outputs.empty()) return invalid("five inputs and an output are required");
  if (!training && more) return unsupported("outputs other than Y outside of training");
  if (n.has_output(3) || n.has_output(4)) return unsupported("the outputs saved_mean and saved_var");
  if (!spatial) {
    if (training) return unsupported("spatial = 0 in training");
    return per_activation(r, n);
  }
  n.outputs.resize(training ? 3 : 1);
  if (training) n.attributes.set("training_mode", int64_t{1});
  return absl::OkStatus();
}

bool down(const Graph&, NodeForm& n) {
  if (n.attributes.get_int("training_mode", 0) != 0) return false;
  n.attributes.erase("training_mode");
  return n.outputs.size() <= 1;
}
bool down_to_is_test(const Graph&, NodeForm& n) {
  n.attributes.set("is_test", int64_t{1});
  return true;
}

constexpr UpgradeRule kRules[] = {
    {"BatchNormalization", 7, nullptr, down_to_is_test},
    {"BatchNormalization", 14, up, down},
};

}  // namespace

std::span<const UpgradeRule> normalize_rules() { return kRules; }

}  // namespace forethought
