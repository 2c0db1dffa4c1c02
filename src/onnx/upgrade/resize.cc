// Upsample (1, 7, 9) and Resize-10: asymmetric coordinates, nearest rounds down; Resize-11 and 12: empty tensors for
// absent.
#include <cstring>

#include "onnx/upgrade/rules.h"

namespace forethought {
namespace {

ValueId floats(Rewriter& r, const std::vector<float>& values) {
  const auto n = static_cast<int64_t>(values.size());
  Tensor t = make_tensor(DType::kFloat, std::span(&n, 1)).value();
  if (n > 0) std::memcpy(t.data, values.data(), values.size() * sizeof(float));
  return r.constant(std::move(t));
}

// The legacy rule of coordinates in the newest form's words.
void set_legacy(NodeForm& n) {
  n.attributes.set("coordinate_transformation_mode", std::string("asymmetric"));
  const std::string mode = n.attributes.get_string("mode", "nearest");
  n.attributes.set("mode", mode == "bilinear" ? std::string("linear") : mode);
  if (mode == "nearest") n.attributes.set("nearest_mode", std::string("floor"));
}

Status up_upsample(Rewriter& r, NodeForm& n) {
  const auto* scales = n.attributes.find("scales");
  if (scales && std::get_if<std::vector<float>>(scales)) {
    n.inputs = {n.inputs[0], ValueId{}, floats(r, std::get<std::vector<float>>(*scales))};
  } else if (n.attributes.find("width_scale") && n.attributes.find("height_scale")) {
    n.inputs = {n.inputs[0], ValueId{},
                floats(r, {1, 1, n.attributes.get_float("height_scale", 1), n.attributes.get_float("width_scale", 1)})};
  } else if (n.has_input(1)) {
    n.inputs = {n.inputs[0], ValueId{}, n.inputs[1]};
  } else {
    return invalid("no scales are given");
  }
  for (const char* old : {"scales", "width_scale", "height_scale"}) n.attributes.erase(old);
  set_legacy(n);
  n.type = "Resize";
  n.version = 11;
  return absl::OkStatus();
}

Status up_resize_11(Rewriter&, NodeForm& n) {
  n.inputs = {n.inputs[0], ValueId{}, n.has_input(1) ? n.inputs[1] : ValueId{}};
  set_legacy(n);
  return absl::OkStatus();
}
bool down_resize_11(const Graph&, NodeForm& n) {
  const std::string mode = n.attributes.get_string("mode", "nearest");
  if (n.has_input(1) || n.has_input(3) || !n.has_input(2)) return false;
  if (n.attributes.get_string("coordinate_transformation_mode", "half_pixel") != "asymmetric") return false;
  if (mode != "linear" &&
      (mode != "nearest" || n.attributes.get_string("nearest_mode", "round_prefer_floor") != "floor")) {
    return false;
  }
  n.attributes.erase("coordinate_transformation_mode");
  n.attributes.erase("nearest_mode");
  n.inputs = {n.inputs[0], n.inputs[2]};
  return true;
}

bool is_empty(const Tensor* t) { return t && t->elements() == 0; }

Status up_resize_13(Rewriter& r, NodeForm& n) {
  for (const size_t i : {1, 2}) {
    if (n.has_input(i) && is_empty(r.contents(n.inputs[i]))) n.inputs[i] = ValueId{};
  }
  n.trim_inputs();
  return absl::OkStatus();
}
// Form 11 needs roi and scales as they are; form 10 needs scales alone.
bool down_resize_13(const Graph&, NodeForm&) { return true; }

// A Resize in the form of version 10 is an Upsample of version 9 under another name; 7 and 8 want constant scales.
bool to_upsample(const Graph& g, NodeForm& n, int opset) {
  n.type = "Upsample";
  if (opset >= 9) return true;
  const auto& scales = g.value(n.inputs[1]).constant;
  if (!scales || scales->dtype != DType::kFloat || scales->dims.size() != 1) return false;
  std::vector<float> values(static_cast<size_t>(scales->elements()));
  if (!values.empty()) std::memcpy(values.data(), scales->data, values.size() * sizeof(float));
  n.attributes.set("scales", std::move(values));
  n.inputs.resize(1);
  return true;
}

constexpr UpgradeRule kRules[] = {
    {"Resize", 11, up_resize_11, down_resize_11},
    {"Resize", 13, up_resize_13, down_resize_13},
    {"Upsample", 11, up_upsample, nullptr},
};

}  // namespace

std::span<const UpgradeRule> resize_rules() { return kRules; }

bool resize_to_upsample(const Graph& g, NodeForm& n, int opset) {
  return down_resize_13(g, n) && down_resize_11(g, n) && to_upsample(g, n, opset);
}

}  // namespace forethought
