// Before opset 7 binary operators broadcast B only if asked, aligned at an axis of A; from 7 on as NumPy does.
#include <fmt/format.h>

#include <numeric>

#include "onnx/upgrade/rules.h"

namespace forethought {
namespace {

// B with ones appended so that its dims stand from A's axis `axis` on: A.rank − axis − B.rank of them.
StatusOr<ValueId> align(Rewriter& r, ValueId a, ValueId b, int64_t axis) {
  const std::optional<int> rank_a = r.rank(a), rank_b = r.rank(b);
  if (axis < 0) {
    if (!rank_a) return unsupported("a negative broadcast axis needs an operand of known rank");
    axis += *rank_a;
  }
  if (rank_a && rank_b) {
    const int64_t ones = *rank_a - axis - *rank_b;
    if (ones < 0 || axis < 0) {
      return invalid(fmt::format("broadcast axis {} does not fit ranks {} and {}", axis, *rank_a, *rank_b));
    }
    if (ones == 0) return b;
    std::vector<int64_t> axes(static_cast<size_t>(ones));
    std::iota(axes.begin(), axes.end(), *rank_b);
    return r.node("Unsqueeze", {b, r.ints(axes)});
  }
  const ValueId shape_b = r.node("Shape", {b});
  const ValueId size_a = r.node("Size", {r.node("Shape", {a})});
  const ValueId size_b = r.node("Size", {shape_b});
  const ValueId behind = r.node("Sub", {size_a, r.scalar(DType::kInt64, static_cast<double>(axis))});
  const ValueId count = r.node("Unsqueeze", {r.node("Sub", {behind, size_b}), r.ints({0})});
  Attributes one;
  one.set("value", tensor_of<int64_t>({1}, {1}));
  const ValueId ones = r.node("ConstantOfShape", {count}, std::move(one));
  Attributes concat;
  concat.set("axis", int64_t{0});
  const ValueId shape = r.node("Concat", {shape_b, ones}, std::move(concat));
  Attributes zero_is_zero;
  zero_is_zero.set("allowzero", int64_t{1});
  return r.node("Reshape", {b, shape}, std::move(zero_is_zero));
}

Status up(Rewriter& r, NodeForm& n) {
  const bool broadcast = n.attributes.get_int("broadcast", 0) != 0;
  const AttributeValue* axis = n.attributes.find("axis");
  if (broadcast && axis && n.has_input(0) && n.has_input(1)) {
    ASSIGN_OR_RETURN(n.inputs[1], align(r, n.inputs[0], n.inputs[1], n.attributes.get_int("axis", 0)));
  }
  n.attributes.erase("broadcast");
  n.attributes.erase("axis");
  return absl::OkStatus();
}

// A[…, b…] with B[b…]: the older forms' broadcasting without an axis.
bool down(const Graph& g, NodeForm& n) {
  if (!n.has_input(0) || !n.has_input(1)) return false;
  const SymShape &a = g.value(n.inputs[0]).shape, &b = g.value(n.inputs[1]).shape;
  if (!a.has_rank || !b.has_rank || b.rank() > a.rank()) return false;
  for (int i = 0; i < b.rank(); ++i) {
    if (!b.dims[i].same(a.dims[a.rank() - b.rank() + i])) return false;
  }
  if (b.rank() < a.rank()) n.attributes.set("broadcast", int64_t{1});
  return true;
}

Status up_gemm(Rewriter&, NodeForm& n) {
  n.attributes.erase("broadcast");  // what it allowed, the newer form allows always
  return absl::OkStatus();
}
bool down_gemm(const Graph&, NodeForm& n) {
  n.attributes.set("broadcast", int64_t{1});
  return n.has_input(2);
}

// A slope for each channel ([C]) stands at axis 1; one for all stays.
Status up_prelu(Rewriter& r, NodeForm& n) {
  if (!n.has_input(0) || !n.has_input(1)) return absl::OkStatus();
  const Tensor* slope = r.contents(n.inputs[1]);
  if (slope && slope->elements() == 1) return absl::OkStatus();
  if (const auto rank = r.rank(n.inputs[1]); rank && *rank != 1) return absl::OkStatus();
  if (!slope) return unsupported("a slope that is no constant, in PRelu before opset 7");
  ASSIGN_OR_RETURN(n.inputs[1], align(r, n.inputs[0], n.inputs[1], 1));
  return absl::OkStatus();
}

constexpr UpgradeRule kRules[] = {
    {"Add", 7, up, down},
    {"Sub", 7, up, down},
    {"Mul", 7, up, down},
    {"Div", 7, up, down},
    {"Pow", 7, up, down},
    {"And", 7, up, down},
    {"Or", 7, up, down},
    {"Xor", 7, up, down},
    {"Equal", 7, up, down},
    {"Greater", 7, up, down},
    {"Less", 7, up, down},
    {"Gemm", 7, up_gemm, down_gemm},
    {"PRelu", 7, up_prelu, nullptr},
};

}  // namespace

std::span<const UpgradeRule> broadcast_rules() { return kRules; }

}  // namespace forethought
