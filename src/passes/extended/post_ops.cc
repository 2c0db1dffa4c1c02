// fuse_residual, fuse_bias, fuse_addend, fuse_activation: what follows a convolution or matrix product and that its
// kernel does before it stores the result.
#include <limits>

#include "passes/engine/constants.h"
#include "passes/extended/products.h"

namespace forethought::passes {
namespace {

// The node that makes input i, if it is one that takes post-ops.
std::optional<NodeId> product_at(const RuleCtx& c, int i) {
  if (!c.has_in(i)) return std::nullopt;
  const NodeId id = c.in(i).producer;
  if (!id.valid()) return std::nullopt;
  return is_product(c.graph.node(id)) ? std::optional<NodeId>(id) : std::nullopt;
}

// --- y = conv(x) + r with r shaped like y.
Outcome residual_at(const RuleCtx& c, int side, NodeId product) {
  const GraphNode& conv = c.graph.node(product);
  const GraphValue &y = c.in(side), &r = c.in(1 - side);
  if (is_activated(conv)) return decline("the convolution has an activation before the sum");
  if (conv.inputs.size() > 3 && conv.inputs[3].valid()) return decline("the convolution adds a residual already");
  if (r.constant) return decline("'", r.name, "' is a constant of full size, no bias");
  if (!y.shape.has_rank || !y.shape.same(r.shape))
    return decline("'", r.name, "' is ", to_string(r.shape), ", the convolution gives ", to_string(y.shape));
  std::vector<Ref> inputs = inputs_of(conv);
  inputs.resize(4);
  inputs[3] = c.node().inputs[1 - side];
  return fuse_into(product, fused_name(conv), std::move(inputs), conv.attributes);
}

Outcome residual(const RuleCtx& c) {
  Outcome last = no_match();
  for (int side : {0, 1}) {
    const auto product = product_at(c, side);
    if (!product || !is_conv(c.graph.node(*product))) continue;
    Outcome outcome = residual_at(c, side, *product);
    // Of two convolutions the one that nobody else reads takes the other as its residual.
    const bool free = c.in(side).uses.size() == 1 && !c.in(side).is_output;
    if (std::holds_alternative<Rewrite>(outcome) && free) return outcome;
    if (!std::holds_alternative<Rewrite>(last)) last = std::move(outcome);
  }
  return last;
}

// --- y = a·b + bias with one number a column.
Outcome bias(const RuleCtx& c) {
  for (int side : {0, 1}) {
    const auto product = product_at(c, side);
    if (!product) continue;
    const GraphNode& matmul = c.graph.node(*product);
    if (!is_matmul(matmul)) continue;
    if (is_activated(matmul) || (matmul.inputs.size() > 2 && matmul.inputs[2].valid()))
      return decline("the product has a bias or an activation already");
    const SymShape &b = c.graph.value(matmul.inputs[1]).shape, &z = c.in(1 - side).shape;
    const Dim columns = b.has_rank && b.rank() > 1 ? b.dims.back() : Dim(), elements = z.elements();
    if (!columns.is_known() || !elements.is_known())
      return decline("columns of B or elements of the bias are not known");
    const bool row = z.rank() > 0 && z.dims.back() == columns.value() && elements == columns.value();
    if (elements.value() != 1 && !row)
      return decline("'", c.in(1 - side).name, "' is ", to_string(z), ", not one number a column of B ", to_string(b));
    return fuse_into(*product, "forethought.FusedMatMul",
                     {matmul.inputs[0], matmul.inputs[1], c.node().inputs[1 - side]}, {});
  }
  return no_match();
}

// --- y = Gemm(a, b) + c.
Outcome addend(const RuleCtx& c) {
  for (int side : {0, 1}) {
    const auto product = product_at(c, side);
    if (!product) continue;
    const GraphNode& gemm = c.graph.node(*product);
    if (!gemm.op.is("Gemm")) continue;
    if (gemm.inputs.size() > 2 && gemm.inputs[2].valid()) return decline("the product has a C already");
    const SymShape &y = c.in(side).shape, &z = c.in(1 - side).shape;
    if (!y.has_rank || !z.has_rank || z.rank() > 2) return decline("'", c.in(1 - side).name, "' is ", to_string(z));
    for (int d = 1; d <= z.rank(); ++d) {
      const Dim& have = z.dims[z.rank() - d];
      if (!(have == 1) && !have.same(y.dims[2 - d]))
        return decline("'", c.in(1 - side).name, "' is ", to_string(z), ", which need not broadcast to ", to_string(y));
    }
    Attributes attributes = gemm.attributes;
    attributes.set("beta", 1.0f);
    return fuse_into(*product, "Gemm", {gemm.inputs[0], gemm.inputs[1], c.node().inputs[1 - side]},
                     std::move(attributes));
  }
  return no_match();
}

// The parameters of an activation in the order of FusedConv's attribute; false: they are not constant f32 numbers.
bool parameters_of(const RuleCtx& c, std::vector<float>* params) {
  const GraphNode& n = c.node();
  const auto attribute = [&](const char* name, float or_else) {
    params->push_back(n.attributes.get_float(name, or_else));
  };
  if (n.op.is("LeakyRelu")) attribute("alpha", 0.01f);
  if (n.op.is("Elu")) attribute("alpha", 1.0f);
  if (n.op.is("HardSigmoid")) attribute("alpha", 0.2f), attribute("beta", 0.5f);
  if (!n.op.is("Clip")) return true;
  for (int i : {1, 2}) {
    float bound = i == 1 ? std::numeric_limits<float>::lowest() : std::numeric_limits<float>::max();
    if (c.has_in(i)) {
      const Tensor* t = c.constant(i);
      const auto v = t && t->dtype == DType::kFloat ? only_number(*t) : std::nullopt;
      if (!v) return false;
      bound = static_cast<float>(*v);
    }
    params->push_back(bound);
  }
  return (*params)[0] <= (*params)[1];
}

Outcome activation(const RuleCtx& c) {
  const auto product = product_at(c, 0);
  if (!product) return no_match();
  const GraphNode& n = c.graph.node(*product);
  if (is_activated(n)) return decline("the product has an activation already");
  std::vector<float> params;
  if (!parameters_of(c, &params)) return decline("the bounds are not constant f32 numbers in order");
  return fuse_activation_into(n, *product, c.node().op.type, params);
}

}  // namespace

DEFINE_RULE(fuse_residual, residual, "Add")
DEFINE_RULE(fuse_bias, bias, "Add")
DEFINE_RULE(fuse_addend, addend, "Add")
DEFINE_RULE(fuse_activation, activation, "Relu", "LeakyRelu", "Clip", "Elu", "Sigmoid", "Tanh", "HardSwish",
            "HardSigmoid")

}  // namespace forethought::passes
