// What a convolution or matrix product does to its result before it stores it: y = activation(sum + bias [+ residual]).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace forethought::kernels {

enum class Activation : uint8_t {
  none,
  relu,
  leaky_relu,
  clip,
  elu,
  sigmoid,
  tanh,
  hard_swish,
  hard_sigmoid,
  gelu,  // x·(1 + erf(x/√2))/2
  swish  // x·sigmoid(x)
};

// alpha, beta: leaky_relu slope; clip's bounds; elu's alpha; hard_sigmoid's alpha and beta; unused by the others.
struct Epilogue {
  Activation activation = Activation::none;
  float alpha = 0, beta = 0;
  bool operator==(const Epilogue&) const = default;
};

// ONNX's operator name ("Relu", "LeakyRelu", "Clip", …; "" is none), or nothing if there is no such activation here.
std::optional<Activation> activation_from_name(std::string_view name);
const char* name(Activation activation);

float activate(const Epilogue& e, float v);
void activate(const Epilogue& e, float* v, int64_t n);

}  // namespace forethought::kernels
