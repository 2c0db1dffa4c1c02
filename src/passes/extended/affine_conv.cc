// scale_conv, shift_conv: a constant that scales or shifts each channel in front of a convolution goes into its weights
// or bias: conv(x · c) = conv'(x), and conv(x + c) = conv(x) + conv(c) where no padding comes between.
//
// Sums are formed in f64 and rounded once; results differ from the separate operators by rounding alone.
#include <algorithm>
#include <cmath>

#include "passes/basic/channels.h"
#include "passes/engine/constants.h"
#include "passes/engine/rule.h"

namespace forethought::passes {
namespace {

Pattern conv(const Pattern& input) { return op("Conv", {input, constant("w"), optional(constant("b"))}).as("conv"); }
Pattern scale() { return conv(any("x") * constant("c")); }
Pattern shift() { return conv(any("x") + constant("c")); }

// The constant as one number for each input channel, or a reason why it is none.
struct Numbers {
  std::vector<double> values;
  std::string reason;
};
Numbers numbers_of(const Match& m) {
  for (const char* name : {"w", "b", "c"})
    if (const Tensor* t = m.constant(name); t && t->dtype != DType::kFloat)
      return {{}, absl::StrCat("'", name, "' is ", to_string(m[name].type), "; only f32 is folded")};
  const Tensor& w = *m.constant("w");
  const SymShape& x = m["x"].shape;
  if (w.dims.size() < 3 || w.elements() == 0 || !x.has_rank || x.rank() != static_cast<int>(w.dims.size()))
    return {{}, absl::StrCat("'", m["x"].name, "' is ", to_string(x), ", of another rank than the weights")};
  const int64_t channels = w.dims[1] * std::max<int64_t>(1, m.node("conv").attributes.get_int("group", 1));
  if (!(x.dims[1] == channels)) return {{}, "the constant broadcasts the channels"};
  Numbers n{per_channel(*m.constant("c"), x.rank(), channels), ""};
  if (n.values.empty())
    n.reason = absl::StrCat("the constant ", to_string(m.constant("c")->dims), " is not one number a channel");
  for (double v : n.values)
    if (!std::isfinite(v)) n.reason = "the constant is not finite";
  return n;
}

bool pads(const GraphNode& conv) {
  const std::string auto_pad = conv.attributes.get_string("auto_pad", "NOTSET");
  if (auto_pad == "VALID") return false;
  if (auto_pad != "NOTSET" && !auto_pad.empty()) return true;
  const auto* p = conv.attributes.get_ints("pads");
  return p && std::any_of(p->begin(), p->end(), [](int64_t n) { return n != 0; });
}

// Calls f(element, output channel, input channel) for each weight of [out, in of a group, taps…].
template <typename F>
void for_each_weight(const Tensor& w, int64_t groups, F&& f) {
  const int64_t out = w.dims[0], in = w.dims[1], taps = w.elements() / (out * in),
                of_group = std::max<int64_t>(1, out / groups);
  for (int64_t o = 0, at = 0; o < out; ++o)
    for (int64_t i = 0; i < in; ++i)
      for (int64_t t = 0; t < taps; ++t, ++at) f(at, o, o / of_group * in + i);
}

Outcome rewrite_scale(const Match& m) {
  const Numbers n = numbers_of(m);
  if (!n.reason.empty()) return decline(n.reason);
  if (m["w"].uses.size() > 1)
    return decline("the weights '", m["w"].name, "' are shared; folding would keep both forms");
  const Tensor& w = *m.constant("w");
  const GraphNode& old = m.node("conv");
  Tensor scaled = make_tensor(DType::kFloat, w.dims).value();
  for_each_weight(w, old.attributes.get_int("group", 1), [&](int64_t at, int64_t, int64_t in) {
    scaled.as<float>()[at] = static_cast<float>(f32_at(w, at) * n.values[static_cast<size_t>(in)]);
  });
  Rewrite r;
  std::vector<Ref> inputs{m.id("x"), r.constant(std::move(scaled), m.id("w"))};
  if (m.has("b")) inputs.push_back(m.id("b"));
  r.result(0, r.node(old.op, std::move(inputs), old.attributes));
  return r;
}

Outcome rewrite_shift(const Match& m) {
  const GraphNode& old = m.node("conv");
  if (pads(old)) return decline("the convolution pads with zeros what would have been shifted");
  const Numbers n = numbers_of(m);
  if (!n.reason.empty()) return decline(n.reason);
  const Tensor& w = *m.constant("w");
  std::vector<double> bias(static_cast<size_t>(w.dims[0]), 0);
  if (m.has("b")) bias = f32_elements(*m.constant("b"));
  for_each_weight(w, old.attributes.get_int("group", 1), [&](int64_t at, int64_t out, int64_t in) {
    bias[static_cast<size_t>(out)] += f32_at(w, at) * n.values[static_cast<size_t>(in)];
  });
  Tensor b = make_tensor(DType::kFloat, {w.dims.data(), 1}).value();
  for (size_t o = 0; o < bias.size(); ++o) {
    b.as<float>()[o] = static_cast<float>(bias[o]);
    if (!std::isfinite(b.as<float>()[o])) return decline("channel ", o, " would not be finite");
  }
  Rewrite r;
  const Ref new_b = r.constant(std::move(b), m.has("b") ? m.id("b") : ValueId{});
  r.result(0, r.node(old.op, {m.id("x"), m.id("w"), new_b}, old.attributes));
  return r;
}

}  // namespace

DEFINE_FUSION(scale_conv, scale, rewrite_scale)
DEFINE_FUSION(shift_conv, shift, rewrite_shift)

}  // namespace forethought::passes
