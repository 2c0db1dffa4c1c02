// The activations that follow a convolution or matrix product, in plain code.
#include "kernels/gemm/epilogue.h"

#include <cmath>
#include <iterator>

namespace forethought::kernels {
namespace {

constexpr const char* kNames[] = {"",     "Relu",      "LeakyRelu",   "Clip", "Elu",  "Sigmoid",
                                  "Tanh", "HardSwish", "HardSigmoid", "Gelu", "Swish"};

constexpr float kHalfRoot = 0.70710678118654752f;  // 1/√2

// NaN passes through both bounds.
float clamp(float v, float low, float high) { return v < low ? low : v > high ? high : v; }

}  // namespace

std::optional<Activation> activation_from_name(std::string_view n) {
  for (size_t i = 0; i < std::size(kNames); ++i)
    if (n == kNames[i]) return static_cast<Activation>(i);
  return std::nullopt;
}

const char* name(Activation activation) { return kNames[static_cast<int>(activation)]; }

float activate(const Epilogue& e, float v) {
  switch (e.activation) {
    case Activation::none:
      return v;
    case Activation::relu:
      return v < 0 ? 0 : v;
    case Activation::leaky_relu:
      return v < 0 ? e.alpha * v : v;
    case Activation::clip:
      return clamp(v, e.alpha, e.beta);
    case Activation::elu:
      return v < 0 ? e.alpha * std::expm1(v) : v;
    case Activation::sigmoid:
      return 1.0f / (1.0f + std::exp(-v));
    case Activation::tanh:
      return std::tanh(v);
    case Activation::hard_swish:
      return v * clamp(v * (1.0f / 6.0f) + 0.5f, 0, 1);
    case Activation::hard_sigmoid:
      return clamp(e.alpha * v + e.beta, 0, 1);
    case Activation::gelu:
      return 0.5f * v * (1.0f + std::erf(v * kHalfRoot));
    case Activation::swish:
      return v / (1.0f + std::exp(-v));
  }
  return v;
}

void activate(const Epilogue& e, float* v, int64_t n) {
  if (e.activation == Activation::none) return;
  if (e.activation == Activation::relu) {
    for (int64_t i = 0; i < n; ++i) v[i] = v[i] < 0 ? 0 : v[i];
    return;
  }
  for (int64_t i = 0; i < n; ++i) v[i] = activate(e, v[i]);
}

}  // namespace forethought::kernels
