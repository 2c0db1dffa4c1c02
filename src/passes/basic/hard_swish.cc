// hard_swish: x · clip(x + 3, 0, 6) / 6, and x · HardSigmoid(x) with slope 1/6 and offset 1/2  →  HardSwish(x)
#include <cmath>

#include "passes/engine/rule.h"

namespace forethought::passes {
namespace {

Pattern pattern() {
  const Pattern x = any("x");
  const Pattern gate = op("Clip", {x + 3.0, 0.0, 6.0});
  return x * gate / 6.0 | x * (gate / 6.0) | x * gate * (1.0 / 6.0) | x * op("HardSigmoid", {x}).as("sigmoid");
}

Outcome rewrite(const Match& m) {
  const ValueType& type = m["x"].type;
  if (!type.is_tensor() || type.dtype() != DType::kFloat)
    return decline("'x' is ", to_string(type), "; HardSwish is fused for f32");
  if (m.has("sigmoid")) {
    const Attributes& a = m.node("sigmoid").attributes;
    if (std::abs(a.get_float("alpha", 0.2f) - 1.0f / 6) > 1e-6f || a.get_float("beta", 0.5f) != 0.5f)
      return decline("the HardSigmoid is not x/6 + 1/2");
  }
  return replace_root_with("HardSwish", {m.id("x")});
}

}  // namespace

DEFINE_FUSION(hard_swish, pattern, rewrite)

}  // namespace forethought::passes
