#include "onnx/upgrade/rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "graph/schema/schema.h"

namespace forethought {
namespace {

// Attributes that newer forms added with a default other than what the older form did.
struct LegacyDefault {
  std::string_view op;
  int version;
  std::string_view attribute, legacy;
};
constexpr LegacyDefault kLegacyDefaults[] = {
    {"RoiAlign", 16, "coordinate_transformation_mode", "output_half_pixel"},
};

std::span<const UpgradeRule> rules_of(std::string_view op) {
  using Family = std::span<const UpgradeRule> (*)();
  constexpr Family families[] = {broadcast_rules, reduce_rules,    shape_rules,  pointwise_rules,
                                 softmax_rules,   normalize_rules, resize_rules, scan_rules};
  for (const Family family : families) {
    const auto rules = family();
    const auto first = std::find_if(rules.begin(), rules.end(), [&](const UpgradeRule& r) { return r.op == op; });
    auto last = first;
    while (last != rules.end() && last->op == op) ++last;
    if (first != last) return {first, last};
  }
  return {};
}

bool equals_default(const AttributeValue& v, const AttributeSchema& a) {
  if (!a.has_default) return false;
  switch (a.type) {
    case AttrType::kInt:
      return std::holds_alternative<int64_t>(v) && std::get<int64_t>(v) == a.i;
    case AttrType::kFloat:
      return std::holds_alternative<float>(v) && std::get<float>(v) == a.f;
    case AttrType::kString:
      return std::holds_alternative<std::string>(v) && std::get<std::string>(v) == a.s;
    default:
      return false;
  }
}

// Whether the schema has all that the node uses; attributes of the newest form at their default are dropped if it lacks
// them, and defaults that differ are spelled out.
bool fits(const Graph& graph, NodeForm& node, const OpSchema& old, const OpSchema& newest) {
  if (static_cast<int>(node.inputs.size()) > old.max_inputs ||
      static_cast<int>(node.outputs.size()) > old.max_outputs) {
    return false;
  }
  for (size_t i = 0; i < old.inputs.size(); ++i) {
    if (old.inputs[i].kind == FormalKind::kSingle && !node.has_input(i)) return false;
  }
  std::vector<std::string> drop;
  for (const auto& [name, value] : node.attributes) {
    if (old.find_attribute(name)) continue;
    const AttributeSchema* a = newest.find_attribute(name);
    if (!a || !equals_default(value, *a)) return false;
    drop.push_back(name);
  }
  for (const std::string& name : drop) node.attributes.erase(name);
  for (const AttributeSchema& a : newest.attributes) {
    const AttributeSchema* before = old.find_attribute(a.name);
    if (!before || !a.has_default || node.attributes.find(a.name)) continue;
    if (a.type == AttrType::kInt && (!before->has_default || before->i != a.i)) node.attributes.set(a.name, a.i);
    if (a.type == AttrType::kFloat && (!before->has_default || before->f != a.f)) node.attributes.set(a.name, a.f);
    if (a.type == AttrType::kString && (!before->has_default || before->s != a.s)) {
      node.attributes.set(a.name, std::string(a.s));
    }
  }
  for (const AttributeSchema& a : old.attributes) {
    if (a.required && !node.attributes.find(a.name) && a.type != AttrType::kGraph) return false;
  }
  const auto typed = [&](const std::vector<ValueId>& values, bool inputs) {
    for (size_t i = 0; i < values.size(); ++i) {
      if (!values[i].valid() || !graph.value(values[i]).type.is_tensor()) continue;
      const FormalParam* formal = inputs ? old.input(static_cast<int>(i)) : old.output(static_cast<int>(i));
      if (!formal || !formal->allowed->allows_tensor(graph.value(values[i]).type.dtype())) return false;
    }
    return true;
  };
  return typed(node.inputs, true) && typed(node.outputs, false);
}

}  // namespace

void ints_to_input(Rewriter& r, NodeForm& node, std::string_view attribute, size_t slot) {
  const auto* values = node.attributes.get_ints(attribute);
  if (!values) return;
  node.set_input(slot, r.ints(*values));
  node.attributes.erase(attribute);
}

bool input_to_ints(const Graph& graph, NodeForm& node, size_t slot, std::string_view attribute) {
  if (!node.has_input(slot)) return true;
  const auto& constant = graph.value(node.inputs[slot]).constant;
  auto values = constant ? int_elements(*constant) : std::nullopt;
  if (!values) return false;
  node.attributes.set(attribute, std::move(*values));
  node.inputs[slot] = ValueId{};
  node.trim_inputs();
  return true;
}

Status upgrade(Rewriter& r, NodeForm& node) {
  if (!node.domain.empty()) return absl::OkStatus();
  // A rule may turn the node into another operator, whose rules then apply in their turn.
  for (std::string type; type != node.type && !node.type.empty();) {
    type = node.type;
    for (const UpgradeRule& rule : rules_of(type)) {
      if (node.version >= rule.version || node.type != type) continue;
      if (rule.up) {
        Status s = rule.up(r, node);
        if (!s.ok()) return with_context(std::move(s), fmt::format("in the form of version {}", node.version));
      }
    }
    for (const LegacyDefault& d : kLegacyDefaults) {
      if (d.op == type && node.version < d.version && !node.attributes.find(d.attribute)) {
        node.attributes.set(d.attribute, std::string(d.legacy));
      }
    }
  }
  const auto versions = schema_versions("", node.type);
  if (!versions.empty()) node.version = std::max(node.version, versions.back().since_version);
  node.trim_inputs();
  return absl::OkStatus();
}

int downgrade(const Graph& graph, NodeForm& node, int opset) {
  const auto versions = schema_versions(node.domain, node.type);
  if (versions.empty()) return opset;
  if (node.domain.empty() && node.type == "Resize" && opset < 10) {
    NodeForm form = node;
    const int at = std::max(opset, 7);
    const OpSchema* old = find_schema("", "Upsample", at);
    if (resize_to_upsample(graph, form, at) && fits(graph, form, *old, *old)) {
      form.version = old->since_version;
      node = std::move(form);
      return at;
    }
  }
  for (size_t i = 0; i < versions.size(); ++i) {
    const OpSchema& old = versions[i];
    const bool last = i + 1 == versions.size();
    if (!last && versions[i + 1].since_version <= opset) continue;  // a newer form is there at this opset already
    NodeForm form = node;
    bool possible = !old.deprecated;
    if (node.domain.empty()) {
      const auto rules = rules_of(node.type);
      for (auto rule = rules.rbegin(); possible && rule != rules.rend(); ++rule) {
        if (rule->version > old.since_version) possible = rule->down && rule->down(graph, form);
      }
    }
    if (possible && fits(graph, form, old, versions.back())) {
      form.version = old.since_version;
      node = std::move(form);
      return std::max(opset, old.since_version);
    }
  }
  return 0;
}

}  // namespace forethought
