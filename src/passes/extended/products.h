// The operators that do more to their result before they store it: Conv, Gemm, MatMul and their fused forms.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "passes/engine/rule.h"

namespace forethought::passes {

bool is_conv(const GraphNode& n);
bool is_gemm(const GraphNode& n);
bool is_matmul(const GraphNode& n);
inline bool is_product(const GraphNode& n) { return is_conv(n) || is_gemm(n) || is_matmul(n); }
bool is_activated(const GraphNode& n);  // has an activation already
inline bool takes_activation(const GraphNode& n) { return is_product(n) && !is_activated(n); }

std::string fused_name(const GraphNode& product);  // "forethought.FusedConv" …
std::vector<Ref> inputs_of(const GraphNode& n);

// The root becomes `op`, which does the work of `product` too.
Outcome fuse_into(NodeId product, std::string_view op, std::vector<Ref> inputs, Attributes attributes);
// The root becomes the product with an activation; `params` as FusedConv's attribute has them.
Outcome fuse_activation_into(const GraphNode& n, NodeId product, const std::string& activation,
                             const std::vector<float>& params);

}  // namespace forethought::passes
