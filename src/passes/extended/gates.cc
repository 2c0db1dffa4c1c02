// fuse_gelu: x · (1 + erf(x/√2)) · ½, and fuse_swish: x · sigmoid(x), into the convolution or matrix product that makes
// x and that nobody else reads.
#include "passes/extended/products.h"

namespace forethought::passes {
namespace {

constexpr double kRoot2 = 1.4142135623730951;

Pattern gelu() {
  const Pattern x = any("x");
  const Pattern scaled = x / kRoot2 | x * (1 / kRoot2);
  return x * (op("Erf", {scaled}) + 1.0) * 0.5;
}
Pattern swish() { return any("x") * op("Sigmoid", {any("x")}); }

Outcome fuse(const Match& m, const char* activation) {
  const NodeId product = m["x"].producer;
  if (!product.valid() || !takes_activation(m.graph().node(product))) return no_match();
  return fuse_activation_into(m.graph().node(product), product, activation, {});
}
Outcome rewrite_gelu(const Match& m) { return fuse(m, "Gelu"); }
Outcome rewrite_swish(const Match& m) { return fuse(m, "Swish"); }

}  // namespace

DEFINE_FUSION(fuse_gelu, gelu, rewrite_gelu)
DEFINE_FUSION(fuse_swish, swish, rewrite_swish)

}  // namespace forethought::passes
