// Cast (names of types), Clip (limits as attributes), Dropout (ratio and mode as attributes).
#include <fmt/format.h>

#include <limits>

#include "onnx/upgrade/rules.h"

namespace forethought {
namespace {

Status up_cast(Rewriter&, NodeForm& n) {
  const AttributeValue* to = n.attributes.find("to");
  const auto* text = to ? std::get_if<std::string>(to) : nullptr;
  if (!text) return absl::OkStatus();
  const auto dtype = dtype_from_name(*text);
  if (!dtype) return invalid(fmt::format("Cast to '{}', which is no type", *text));
  n.attributes.set("to", static_cast<int64_t>(*dtype));
  return absl::OkStatus();
}
bool down_cast(const Graph&, NodeForm& n) {
  const int64_t to = n.attributes.get_int("to", 0);
  if (!is_valid_dtype(to)) return false;
  n.attributes.set("to", std::string(info(static_cast<DType>(to)).onnx_name));
  return true;
}

// Limits at the ends of float's range are none.
Status up_clip(Rewriter& r, NodeForm& n) {
  const float min = n.attributes.get_float("min", std::numeric_limits<float>::lowest());
  const float max = n.attributes.get_float("max", std::numeric_limits<float>::max());
  n.attributes.erase("min");
  n.attributes.erase("max");
  if (!n.has_input(0)) return absl::OkStatus();
  const DType dtype = r.dtype(n.inputs[0]);
  if (!is_floating(dtype))
    return invalid(fmt::format("Clip before opset 11 takes floating types, not {}", name(dtype)));
  if (min != std::numeric_limits<float>::lowest()) n.set_input(1, r.scalar(dtype, min));
  if (max != std::numeric_limits<float>::max()) n.set_input(2, r.scalar(dtype, max));
  return absl::OkStatus();
}
bool down_clip(const Graph& g, NodeForm& n) {
  const char* names[] = {"", "min", "max"};
  for (size_t i = 1; i <= 2; ++i) {
    if (!n.has_input(i)) continue;
    const auto& limit = g.value(n.inputs[i]).constant;
    const auto value = limit && is_floating(limit->dtype) ? first_element(*limit) : std::nullopt;
    if (!value || static_cast<double>(static_cast<float>(*value)) != *value) return false;
    n.attributes.set(names[i], static_cast<float>(*value));
  }
  n.inputs.resize(1);
  return true;
}

// Forms 1 and 6 train if is_test is 0 and a mask is asked for ("Y" alone is their test mode); 7 and 10 never do.
Status up_dropout(Rewriter& r, NodeForm& n) {
  const bool has_ratio = n.attributes.find("ratio") != nullptr;
  const bool training = n.version < 7 && n.attributes.get_int("is_test", 0) == 0 && n.has_output(1);
  const float ratio = n.attributes.get_float("ratio", 0.5f);
  n.attributes.erase("ratio");
  n.attributes.erase("is_test");
  if (has_ratio || training) n.set_input(1, r.scalar(DType::kFloat, ratio));
  if (training) n.set_input(2, r.scalar(DType::kBool, 1));
  if (n.version < 10 && n.has_output(1)) {
    // The mask was of the data's type, now it is bool.
    Attributes to;
    to.set("to", static_cast<int64_t>(r.dtype(n.inputs[0])));
    const ValueId mask = n.outputs[1];
    n.outputs[1] = r.like(mask);
    r.node_into("Cast", {n.outputs[1]}, mask, std::move(to));
  }
  return absl::OkStatus();
}
bool down_dropout(const Graph& g, NodeForm& n) {
  const auto constant = [&](size_t i) { return n.has_input(i) ? &g.value(n.inputs[i]).constant : nullptr; };
  if (const auto* mode = constant(2)) {
    if (!*mode || (*mode)->dtype != DType::kBool || (*mode)->elements() != 1 || *(*mode)->as<bool>()) return false;
  }
  if (const auto* ratio = constant(1)) {
    const auto value = *ratio ? first_element(**ratio) : std::nullopt;
    if (!value) return false;
    n.attributes.set("ratio", static_cast<float>(*value));
  }
  n.inputs.resize(1);
  n.attributes.erase("seed");
  return true;
}
// Below 10 the mask has another type.
bool down_without_mask(const Graph&, NodeForm& n) { return !n.has_output(1); }
bool down_to_is_test(const Graph&, NodeForm& n) {
  n.attributes.set("is_test", int64_t{1});
  return true;
}

constexpr UpgradeRule kRules[] = {
    {"Cast", 6, up_cast, down_cast},           {"Clip", 11, up_clip, down_clip},
    {"Dropout", 7, nullptr, down_to_is_test},  {"Dropout", 10, nullptr, down_without_mask},
    {"Dropout", 12, up_dropout, down_dropout},
};

}  // namespace

std::span<const UpgradeRule> pointwise_rules() { return kRules; }

}  // namespace forethought
