#include "passes/extended/products.h"

namespace forethought::passes {
namespace {

constexpr const char* kActivation = "activation";

bool is_internal(const GraphNode& n, std::string_view type) {
  return n.op.domain == kInternalDomain && n.op.type == type;
}

}  // namespace

bool is_conv(const GraphNode& n) { return n.op.is("Conv") || is_internal(n, "FusedConv"); }
bool is_gemm(const GraphNode& n) { return n.op.is("Gemm") || is_internal(n, "FusedGemm"); }
bool is_matmul(const GraphNode& n) { return n.op.is("MatMul") || is_internal(n, "FusedMatMul"); }
bool is_activated(const GraphNode& n) { return !n.attributes.get_string(kActivation, "").empty(); }

std::string fused_name(const GraphNode& n) {
  return is_conv(n) ? "forethought.FusedConv" : is_gemm(n) ? "forethought.FusedGemm" : "forethought.FusedMatMul";
}

std::vector<Ref> inputs_of(const GraphNode& n) { return {n.inputs.begin(), n.inputs.end()}; }

Outcome fuse_into(NodeId product, std::string_view op, std::vector<Ref> inputs, Attributes attributes) {
  Rewrite r = replace_root_with(op, std::move(inputs), std::move(attributes));
  r.takes(product);
  return r;
}

Outcome fuse_activation_into(const GraphNode& n, NodeId product, const std::string& activation,
                             const std::vector<float>& params) {
  Attributes attributes = n.attributes;
  attributes.set(kActivation, activation);
  if (!params.empty()) attributes.set("activation_params", params);
  return fuse_into(product, fused_name(n), inputs_of(n), std::move(attributes));
}

}  // namespace forethought::passes
