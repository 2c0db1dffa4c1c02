// batch_norm_mul, batch_norm_add: a constant that scales or shifts each channel after a BatchNormalization goes into
// its scale and bias, in f64 and rounded once.
#include <algorithm>
#include <cmath>

#include "passes/basic/channels.h"
#include "passes/engine/constants.h"
#include "passes/engine/rule.h"

namespace forethought::passes {
namespace {

Pattern batch_norm() {
  return op("BatchNormalization", {any("x"), constant("scale"), constant("shift"), any("mean"), any("var")}).as("bn");
}
Pattern mul() { return batch_norm() * constant("c"); }
Pattern add() { return batch_norm() + constant("c"); }

Tensor f32_of(const std::vector<double>& values) {
  Tensor t = make_tensor(DType::kFloat, Dims{static_cast<int64_t>(values.size())}).value();
  std::transform(values.begin(), values.end(), t.as<float>(), [](double v) { return static_cast<float>(v); });
  return t;
}

Outcome fold(const Match& m, bool scales) {
  const GraphNode& bn = m.node("bn");
  if (bn.attributes.get_int("training_mode", 0) != 0) return decline("training_mode is on");
  for (const char* name : {"scale", "shift", "c"})
    if (m.constant(name)->dtype != DType::kFloat)
      return decline("'", name, "' is ", to_string(m[name].type), "; only f32 is folded");
  const SymShape& x = m["x"].shape;
  std::vector<double> scale = f32_elements(*m.constant("scale")), shift = f32_elements(*m.constant("shift"));
  if (!x.has_rank || x.rank() < 2) return decline("the rank of '", m["x"].name, "' is not known");
  const auto values = per_channel(*m.constant("c"), x.rank(), static_cast<int64_t>(scale.size()));
  if (values.empty()) return decline("the constant ", to_string(m.constant("c")->dims), " is not one number a channel");
  for (size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) return decline("channel ", i, " would not be finite");
    if (scales) scale[i] *= values[i];
    shift[i] = scales ? shift[i] * values[i] : shift[i] + values[i];
  }
  Rewrite r;
  const Ref new_scale = scales ? r.constant(f32_of(scale), m.id("scale")) : Ref(m.id("scale"));
  const Ref new_shift = r.constant(f32_of(shift), m.id("shift"));
  r.result(0, r.node(bn.op, {m.id("x"), new_scale, new_shift, m.id("mean"), m.id("var")}, bn.attributes));
  return r;
}

Outcome rewrite_mul(const Match& m) { return fold(m, true); }
Outcome rewrite_add(const Match& m) { return fold(m, false); }

}  // namespace

DEFINE_FUSION(batch_norm_mul, mul, rewrite_mul)
DEFINE_FUSION(batch_norm_add, add, rewrite_add)

}  // namespace forethought::passes
