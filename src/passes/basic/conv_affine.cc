// conv_batch_norm, conv_mul, conv_add: what scales or shifts each channel of a convolution goes into its weights and
// bias.
//
// The products are formed in f64 and rounded once, so a folded weight is within half a unit in the last place of the
// exact one; results differ from the separate operators by rounding alone.
#include <algorithm>
#include <cmath>

#include "passes/basic/channels.h"
#include "passes/engine/constants.h"
#include "passes/engine/rule.h"

namespace forethought::passes {
namespace {

Pattern conv() { return op("Conv", {any("x"), constant("w"), optional(constant("b"))}).as("conv"); }

Tensor f32_tensor(const Dims& dims, std::span<const double> values) {
  Tensor t = make_tensor(DType::kFloat, dims).value();
  for (size_t i = 0; i < values.size(); ++i) t.as<float>()[i] = static_cast<float>(values[i]);
  return t;
}

// The weights [out, …] with each output channel multiplied by its number.
Tensor scaled(const Tensor& w, std::span<const double> scale) {
  Tensor t = make_tensor(DType::kFloat, w.dims).value();
  const int64_t each = w.elements() / std::max<int64_t>(1, static_cast<int64_t>(scale.size()));
  float* out = t.as<float>();
  int64_t at = 0;
  for (const double s : scale)
    for (int64_t i = 0; i < each; ++i, ++at) out[at] = static_cast<float>(f32_at(w, at) * s);
  return t;
}

// y = conv(x) · scale + shift as one convolution.
Outcome fold(const Match& m, std::span<const double> scale, std::span<const double> shift) {
  const Tensor &w = *m.constant("w"), *b = m.constant("b");
  if (m["w"].uses.size() > 1)
    return decline("the weights '", m["w"].name, "' are shared; folding would keep both forms");
  const size_t channels = scale.size();
  const std::vector<double> bias_was = b ? f32_elements(*b) : std::vector<double>(channels, 0);
  std::vector<double> bias(channels);
  bool scales = false;
  for (size_t c = 0; c < channels; ++c) {
    scales = scales || scale[c] != 1;
    bias[c] = bias_was[c] * scale[c] + shift[c];
    if (!std::isfinite(scale[c]) || !std::isfinite(bias[c])) return decline("channel ", c, " would not be finite");
  }
  Rewrite r;
  const Ref new_w = scales ? r.constant(scaled(w, scale), m.id("w")) : Ref(m.id("w"));
  const Ref new_b = r.constant(f32_tensor({static_cast<int64_t>(channels)}, bias), b ? m.id("b") : ValueId{});
  const GraphNode& old = m.node("conv");
  r.result(0, r.node(old.op, {m.id("x"), new_w, new_b}, old.attributes));
  return r;
}

bool is_f32(const Tensor* t) { return !t || t->dtype == DType::kFloat; }

Pattern batch_norm() {
  return op("BatchNormalization", {conv(), constant("scale"), constant("shift"), constant("mean"), constant("var")})
      .as("bn");
}
Outcome rewrite_batch_norm(const Match& m) {
  const GraphNode& bn = m.node("bn");
  if (bn.attributes.get_int("training_mode", 0) != 0) return decline("training_mode is on");
  for (const char* name : {"w", "b", "scale", "shift", "mean", "var"})
    if (!is_f32(m.constant(name))) return decline("'", name, "' is ", to_string(m[name].type), "; only f32 is folded");
  const double epsilon = bn.attributes.get_float("epsilon", 1e-5f);
  std::vector<double> scale = f32_elements(*m.constant("scale")), shift = f32_elements(*m.constant("shift"));
  const auto mean = f32_elements(*m.constant("mean")), var = f32_elements(*m.constant("var"));
  if (m.constant("w")->dims.empty() || static_cast<int64_t>(scale.size()) != m.constant("w")->dims[0])
    return decline("there are ", scale.size(), " scales for other numbers of channels");
  for (size_t c = 0; c < scale.size(); ++c) {
    scale[c] /= std::sqrt(var[c] + epsilon);
    shift[c] -= mean[c] * scale[c];
  }
  return fold(m, scale, shift);
}

Outcome fold_constant(const Match& m, bool scales) {
  const Tensor &c = *m.constant("c"), &w = *m.constant("w");
  for (const char* name : {"w", "b", "c"})
    if (!is_f32(m.constant(name))) return decline("'", name, "' is ", to_string(m[name].type), "; only f32 is folded");
  const SymShape& y = m.graph().value(m.graph().node(m.root()).outputs[0]).shape;
  if (w.dims.empty() || static_cast<size_t>(y.rank()) != w.dims.size())
    return decline("the output's rank is not that of the weights");
  const auto values = per_channel(c, static_cast<int>(w.dims.size()), w.dims[0]);
  if (values.empty()) return decline("the constant ", to_string(c.dims), " is not one number a channel");
  const std::vector<double> ones(values.size(), 1), zeros(values.size(), 0);
  return scales ? fold(m, values, zeros) : fold(m, ones, values);
}

Pattern mul() { return conv() * constant("c"); }
Pattern add() { return conv() + constant("c"); }
Outcome rewrite_mul(const Match& m) { return fold_constant(m, true); }
Outcome rewrite_add(const Match& m) { return fold_constant(m, false); }

}  // namespace

DEFINE_FUSION(conv_batch_norm, batch_norm, rewrite_batch_norm)
DEFINE_FUSION(conv_mul, mul, rewrite_mul)
DEFINE_FUSION(conv_add, add, rewrite_add)

}  // namespace forethought::passes
