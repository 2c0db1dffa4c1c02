// Operators whose shape arguments were attributes: Concat, Reshape, Squeeze, Unsqueeze, Slice, Split, Pad, Tile, TopK.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "onnx/upgrade/rules.h"

namespace forethought {
namespace {

Status up_reshape(Rewriter& r, NodeForm& n) {
  ints_to_input(r, n, "shape", 1);
  return absl::OkStatus();
}
bool down_reshape(const Graph& g, NodeForm& n) { return input_to_ints(g, n, 1, "shape"); }
// allowzero tells only what a 0 in the shape means: it says nothing where the result has no zero dim.
bool down_reshape_14(const Graph& g, NodeForm& n) {
  const SymShape& shape = g.value(n.outputs[0]).shape;
  const bool no_zero = shape.has_rank && std::all_of(shape.dims.begin(), shape.dims.end(),
                                                     [](const Dim& d) { return d.is_known() && d.value() != 0; });
  if (n.attributes.get_int("allowzero", 0) != 0 && no_zero) n.attributes.erase("allowzero");
  return true;
}

// Concat-1 joins along axis 1 if it does not say.
Status up_concat(Rewriter&, NodeForm& n) {
  if (!n.attributes.find("axis")) n.attributes.set("axis", int64_t{1});
  return absl::OkStatus();
}
bool down_concat(const Graph&, NodeForm&) { return true; }

Status up_axes(Rewriter& r, NodeForm& n) {
  ints_to_input(r, n, "axes", 1);
  return absl::OkStatus();
}
bool down_axes(const Graph& g, NodeForm& n) { return input_to_ints(g, n, 1, "axes"); }

Status up_slice(Rewriter& r, NodeForm& n) {
  if (!n.attributes.get_ints("starts") || !n.attributes.get_ints("ends"))
    return invalid("starts and ends are required");
  ints_to_input(r, n, "starts", 1);
  ints_to_input(r, n, "ends", 2);
  ints_to_input(r, n, "axes", 3);
  return absl::OkStatus();
}
bool down_slice(const Graph& g, NodeForm& n) {
  if (!input_to_ints(g, n, 4, "steps")) return false;
  if (const auto* steps = n.attributes.get_ints("steps")) {
    if (std::any_of(steps->begin(), steps->end(), [](int64_t s) { return s != 1; })) return false;
  }
  n.attributes.erase("steps");
  const bool all = input_to_ints(g, n, 3, "axes") && input_to_ints(g, n, 2, "ends") && input_to_ints(g, n, 1, "starts");
  const auto* axes = n.attributes.get_ints("axes");
  const bool negative = axes && std::any_of(axes->begin(), axes->end(), [](int64_t a) { return a < 0; });
  return all && !negative && n.attributes.get_ints("starts") && n.attributes.get_ints("ends");
}

Status up_split_13(Rewriter& r, NodeForm& n) {
  ints_to_input(r, n, "split", 1);
  return absl::OkStatus();
}
bool down_split_13(const Graph& g, NodeForm& n) { return input_to_ints(g, n, 1, "split"); }

Status up_split_18(Rewriter&, NodeForm& n) {
  if (!n.has_input(1)) n.attributes.set("num_outputs", static_cast<int64_t>(n.outputs.size()));
  return absl::OkStatus();
}
// Without sizes the older form wants equal parts, the newer lets the last one be smaller.
bool down_split_18(const Graph& g, NodeForm& n) {
  if (n.has_input(1)) return true;
  const SymShape& shape = g.value(n.inputs[0]).shape;
  int64_t axis = n.attributes.get_int("axis", 0);
  if (!shape.has_rank) return false;
  if (axis < 0) axis += shape.rank();
  const auto parts = static_cast<int64_t>(n.outputs.size());
  if (axis < 0 || axis >= shape.rank() || !shape.dims[axis].is_known() || shape.dims[axis].value() % parts != 0)
    return false;
  n.attributes.erase("num_outputs");
  return true;
}

Status up_pad_2(Rewriter&, NodeForm& n) {
  if (const auto* paddings = n.attributes.get_ints("paddings")) {
    n.attributes.set("pads", std::vector<int64_t>(*paddings));
    n.attributes.erase("paddings");
  }
  return absl::OkStatus();
}
bool down_pad_2(const Graph&, NodeForm& n) {
  const auto* pads = n.attributes.get_ints("pads");
  if (!pads) return false;
  n.attributes.set("paddings", std::vector<int64_t>(*pads));
  return n.attributes.erase("pads");
}

Status up_pad_11(Rewriter& r, NodeForm& n) {
  if (!n.attributes.get_ints("pads")) return invalid("pads is required");
  ints_to_input(r, n, "pads", 1);
  const float value = n.attributes.get_float("value", 0);
  n.attributes.erase("value");
  if (value != 0) {
    const DType dtype = r.dtype(n.inputs[0]);
    if (!is_floating(dtype))
      return invalid(fmt::format("Pad before opset 11 takes floating types, not {}", name(dtype)));
    n.set_input(2, r.scalar(dtype, value));
  }
  return absl::OkStatus();
}
bool down_pad_11(const Graph& g, NodeForm& n) {
  if (n.has_input(3)) return false;
  if (n.has_input(2)) {
    const auto& constant = g.value(n.inputs[2]).constant;
    const auto value = constant && is_floating(constant->dtype) ? first_element(*constant) : std::nullopt;
    if (!value || static_cast<double>(static_cast<float>(*value)) != *value) return false;
    n.attributes.set("value", static_cast<float>(*value));
    n.inputs.resize(2);
  }
  return input_to_ints(g, n, 1, "pads") && n.attributes.get_ints("pads");
}

// Tile-1 repeats one axis: `tiles` times along `axis`, both inputs of the data's type.
Status up_tile(Rewriter& r, NodeForm& n) {
  if (n.inputs.size() < 3) return absl::OkStatus();
  const auto value = [&](size_t i) {
    const Tensor* t = n.has_input(i) ? r.contents(n.inputs[i]) : nullptr;
    return t ? first_element(*t) : std::nullopt;
  };
  const auto tiles = value(1), axis = value(2);
  const auto rank = r.rank(n.inputs[0]);
  if (!tiles || !axis || !rank) return unsupported("Tile-1 with tiles, axis or a rank that is not known at load");
  if (!(*axis >= 0 && *axis < *rank && *tiles >= 0 && *tiles < 1e15))
    return invalid("Tile-1 has an impossible axis or count");
  std::vector<int64_t> repeats(static_cast<size_t>(*rank), 1);
  repeats[static_cast<size_t>(*axis)] = static_cast<int64_t>(*tiles);
  n.inputs = {n.inputs[0], r.ints(repeats)};
  return absl::OkStatus();
}

Status up_top_k(Rewriter& r, NodeForm& n) {
  if (!n.attributes.find("k")) return invalid("k is required");
  n.set_input(1, r.ints({n.attributes.get_int("k", 0)}));
  n.attributes.erase("k");
  return absl::OkStatus();
}
bool down_top_k(const Graph& g, NodeForm& n) {
  if (!input_to_ints(g, n, 1, "k")) return false;
  const auto* k = n.attributes.get_ints("k");
  if (!k || k->size() != 1) return false;
  const int64_t value = k->front();
  n.attributes.set("k", value);
  return n.attributes.get_int("axis", -1) >= 0;
}

constexpr UpgradeRule kRules[] = {
    {"Concat", 4, up_concat, down_concat},     {"Pad", 2, up_pad_2, down_pad_2},
    {"Pad", 11, up_pad_11, down_pad_11},       {"Reshape", 5, up_reshape, down_reshape},
    {"Reshape", 14, nullptr, down_reshape_14}, {"Slice", 10, up_slice, down_slice},
    {"Split", 13, up_split_13, down_split_13}, {"Split", 18, up_split_18, down_split_18},
    {"Squeeze", 13, up_axes, down_axes},       {"Tile", 6, up_tile, nullptr},
    {"TopK", 10, up_top_k, down_top_k},        {"Unsqueeze", 13, up_axes, down_axes},
};

}  // namespace

std::span<const UpgradeRule> shape_rules() { return kRules; }

}  // namespace forethought
