// relu_clip: Clip(Relu(x), lo, hi)  →  Clip(x, max(lo, 0), hi)
#include <algorithm>

#include "passes/engine/constants.h"
#include "passes/engine/rule.h"

namespace forethought::passes {
namespace {

Pattern pattern() { return op("Clip", {op("Relu", {any("x")}), optional(any("lo")), optional(any("hi"))}); }

Outcome rewrite(const Match& m) {
  const ValueType& type = m["x"].type;
  if (!type.is_tensor() || !kNumbers.contains(type.dtype())) return decline("'x' is ", to_string(type));
  double lo = 0;
  if (m.has("lo")) {
    const Tensor* t = m.constant("lo");
    if (!t) return decline("the lower bound is known only at run");
    const auto v = only_number(*t);
    if (!v || t->dtype != type.dtype()) return decline("the lower bound is no number of the type of 'x'");
    lo = std::max(*v, 0.0);
  }
  Rewrite r;
  const Ref low = r.constant(scalar(type.dtype(), lo));
  std::vector<Ref> inputs{m.id("x"), low};
  if (m.has("hi")) inputs.push_back(m.id("hi"));
  r.result(0, r.node(op_id("Clip"), std::move(inputs)));
  return r;
}

}  // namespace

DEFINE_FUSION(relu_clip, pattern, rewrite)

}  // namespace forethought::passes
