// The layers of a text recogniser and of ResNet-50: code for any extents beside what oneDNN generates for the shape.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <string>
#include <vector>

#include "kernels/conv/blocked_conv.h"
#include "kernels/gemm/sgemm.h"
#include "kernels/onednn/onednn.h"

namespace forethought::kernels {
namespace {

struct Layer {
  int64_t in, out, rows, cols, kernel, stride;
  bool depthwise;
};
constexpr Layer kLayers[] = {
    {96, 192, 12, 80, 1, 1, false},  {192, 96, 12, 80, 1, 1, false},  {192, 384, 6, 80, 1, 1, false},
    {384, 192, 6, 80, 1, 1, false},  {384, 768, 3, 80, 1, 1, false},  {768, 384, 3, 80, 1, 1, false},
    {192, 384, 6, 300, 1, 1, false}, {64, 256, 56, 56, 1, 1, false},  {256, 512, 56, 56, 1, 2, false},
    {2048, 512, 7, 7, 1, 1, false},  {96, 48, 24, 160, 3, 2, false},  {64, 64, 56, 56, 3, 1, false},
    {128, 128, 28, 28, 3, 1, false}, {256, 256, 14, 14, 3, 1, false}, {512, 512, 7, 7, 3, 1, false},
    {96, 96, 12, 80, 3, 1, true},    {384, 384, 3, 80, 3, 1, true},   {192, 192, 12, 80, 3, 2, true},
    {512, 512, 14, 14, 3, 1, true},  {256, 256, 28, 28, 5, 1, true}};

// Both with bias and ReLU, on one thread.
void layer(benchmark::State& state, const Layer& l, bool ours) {
  const Isa isa = active_isa();
  const int64_t block = onednn::channel_block(isa), pad = l.kernel / 2;
  const int64_t rows = (l.rows + 2 * pad - l.kernel) / l.stride + 1,
                cols = (l.cols + 2 * pad - l.kernel) / l.stride + 1;
  onednn::ConvKey key;
  key.isa = isa;
  key.channels_in = l.in;
  key.channels_out = l.out;
  key.depthwise = l.depthwise;
  key.in = {1, l.rows, l.cols};
  key.out = {1, rows, cols};
  key.kernel = {1, l.kernel, l.kernel};
  key.strides = {1, l.stride, l.stride};
  key.dilations = {1, 1, 1};
  key.pads_begin = {0, pad, pad};
  for (int d : {1, 2}) key.pads_end[d] = std::max<int64_t>(0, (key.out[d] - 1) * l.stride + l.kernel - pad - key.in[d]);
  key.bias = true;
  const auto primitive = onednn::make_convolution(key);
  if (!primitive.ok()) return state.SkipWithError(std::string(primitive.status().message()).c_str());
  const auto floats = [](int64_t n) { return std::vector<float>(static_cast<size_t>(n) + 16, 0.01f); };
  const auto at = [](std::vector<float>& v) {
    return reinterpret_cast<float*>((reinterpret_cast<uintptr_t>(v.data()) + 63) & ~uintptr_t{63});
  };
  const int64_t outputs = l.out * rows * cols, products = l.out * (l.depthwise ? 1 : l.in) * l.kernel * l.kernel;
  auto x = floats(l.in * l.rows * l.cols), w = floats(products), bias = floats(l.out), y = floats(outputs);
  auto scratch = floats(static_cast<int64_t>((*primitive)->scratch_bytes() / sizeof(float)));
  const BlockedConv g{l.rows, l.cols, rows, cols, l.kernel, l.kernel, l.stride, l.stride, 1, 1, pad, pad};
  const Epilogue relu{Activation::relu, 0, 0};
  for (auto _ : state) {
    if (!ours) {
      if (!(*primitive)->run(at(x), at(w), at(bias), at(y), at(scratch)).ok()) return state.SkipWithError("failed");
      sgemm_finish(isa, {1, 1, {nullptr, 0, 0}, relu}, at(y), 0, 0, 1, 0, outputs);
    } else if (l.depthwise) {
      blocked_depthwise(isa, g, at(x), at(w), at(bias), at(y), l.out / block, false, relu);
    } else {
      blocked_conv(isa, g, at(x), l.in / block, at(w), at(bias), at(y), l.out / block, false, relu);
    }
    benchmark::ClobberMemory();
  }
  state.counters["GFLOP/s"] = benchmark::Counter(2e-9 * static_cast<double>(products * rows * cols),
                                                 benchmark::Counter::kIsIterationInvariantRate);
}

const bool kRegistered = [] {
  for (const Layer& l : kLayers) {
    const std::string name = std::to_string(l.in) + "-" + std::to_string(l.out) + "_" + std::to_string(l.rows) + "x" +
                             std::to_string(l.cols) + "_k" + std::to_string(l.kernel) + "_s" +
                             std::to_string(l.stride) + (l.depthwise ? "_depthwise" : "");
    for (const bool ours : {false, true})
      benchmark::RegisterBenchmark(("conv/" + name + (ours ? "/any" : "/onednn")).c_str(),
                                   [&l, ours](benchmark::State& state) { layer(state, l, ours); });
  }
  return true;
}();

}  // namespace
}  // namespace forethought::kernels
