#include "session/small_net_testing.h"

#include <fmt/format.h>

#include "base/hash.h"

namespace forethought {
namespace {

// In (-1, 1), times `scale`.
float number(uint64_t seed, int64_t i, float scale) {
  const uint64_t bits = mix64(seed * 0x9e3779b97f4a7c15ull + static_cast<uint64_t>(i));
  return (static_cast<float>(bits >> 40) / static_cast<float>(1 << 23) - 1.0f) * scale;
}

std::string constant(const std::string& name, const Dims& dims, uint64_t seed, float scale) {
  std::string text = fmt::format("  const %{}: f32{} = [", name, to_string(dims));
  const int64_t n = element_count(dims).value();
  for (int64_t i = 0; i < n; ++i) text += fmt::format("{}{:.8f}", i ? ", " : "", number(seed, i, scale));
  return text + "]\n";
}

}  // namespace

std::string small_net() {
  return "graph(%x: f32[1,3,20,20]) {\n" + constant("w1", {16, 3, 3, 3}, 1, 0.3f) + constant("b1", {16}, 2, 0.1f) +
         constant("w2", {16, 16, 3, 3}, 3, 0.15f) + constant("w3", {16, 4, 3, 3}, 4, 0.3f) +
         constant("w4", {10, 32}, 5, 0.3f) + constant("b4", {10}, 6, 0.1f) + R"(
    %c1 = Conv<pads=[1, 1, 1, 1]>(%x, %w1, %b1)
    %r1 = Relu(%c1)
    %c2 = Conv<pads=[1, 1, 1, 1]>(%r1, %w2)
    %s2 = Add(%c2, %r1)
    %r2 = Relu(%s2)
    %c3 = Conv<group=4, pads=[1, 1, 1, 1]>(%r2, %w3)
    %k = Concat<axis=1>(%c3, %r2)
    %y2 = Sigmoid(%k)
    %p = MaxPool<kernel_shape=[2, 2], strides=[2, 2]>(%k)
    %g = GlobalAveragePool(%p)
    %f = Reshape(%g, [1, 32])
    %m = Gemm<transB=1>(%f, %w4, %b4)
    %y = Softmax<axis=1>(%m)
    return %y, %y2
}
)";
}

std::string plain_net() {
  return R"(graph(%x: f32[4,64]) {
    %a = Mul(%x, 1.5)
    %b = Reshape(%a, [8, 32])
    %c = Sigmoid(%b)
    %d = Transpose<perm=[1, 0]>(%c)
    %e = Concat<axis=0>(%d, %d)
    %f = Reshape(%e, [2, 256])
    %g = Add(%f, 0.25)
    %y = Relu(%g)
    %z = Neg(%c)
    return %y, %z
}
)";
}

Value random_floats(const Dims& dims, uint64_t seed) {
  Tensor t = make_tensor(DType::kFloat, dims).value();
  for (int64_t i = 0; i < t.elements(); ++i) t.as<float>()[i] = number(seed + 100, i, 1.0f);
  return Value(std::move(t));
}

}  // namespace forethought
