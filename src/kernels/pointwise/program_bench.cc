// Pointwise programs: what a call costs, memory-bound and compute-bound operators, broadcasting, half types, fused
// chains.
#include <benchmark/benchmark.h>

#include <vector>

#include "kernels/movement/strided_copy.h"
#include "kernels/pointwise/program.h"

namespace forethought::kernels {
namespace {

Broadcast map(std::initializer_list<int64_t> out, std::initializer_list<int64_t> a, std::initializer_list<int64_t> b) {
  const std::span<const int64_t> shapes[] = {{a.begin(), a.size()}, {b.begin(), b.size()}};
  return *Broadcast::from_shapes({out.begin(), out.size()}, shapes);
}

void binary(benchmark::State& state, DType dtype, const Broadcast& shape) {
  Program p(active_isa());
  const int a = p.add_input(dtype), b = p.add_input(dtype);
  if (!p.finish(p.apply(PointwiseOp::Add, {a, b}), dtype).ok()) return state.SkipWithError("no kernel");
  const size_t bytes = static_cast<size_t>(shape.size()) * 8;
  std::vector<char> x(bytes), y(bytes), z(bytes);
  const void* inputs[] = {x.data(), y.data()};
  for (auto _ : state) {
    p.run(shape, inputs, z.data(), 0, shape.size());
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * shape.size());
}
BENCHMARK_CAPTURE(binary, f32_same_16, DType::kFloat, Broadcast::same(16, 2));
BENCHMARK_CAPTURE(binary, f32_same_64k, DType::kFloat, Broadcast::same(1 << 16, 2));
BENCHMARK_CAPTURE(binary, f32_same_4M, DType::kFloat, Broadcast::same(1 << 22, 2));
BENCHMARK_CAPTURE(binary, f16_same_64k, DType::kFloat16, Broadcast::same(1 << 16, 2));
BENCHMARK_CAPTURE(binary, i64_same_64k, DType::kInt64, Broadcast::same(1 << 16, 2));
BENCHMARK_CAPTURE(binary, f32_scalar_64k, DType::kFloat, map({1 << 16}, {1 << 16}, {}));
BENCHMARK_CAPTURE(binary, f32_channel_7x7, DType::kFloat, map({8, 128, 49}, {8, 128, 49}, {128, 1}));
BENCHMARK_CAPTURE(binary, f32_channel_56x56, DType::kFloat, map({1, 64, 3136}, {1, 64, 3136}, {64, 1}));
BENCHMARK_CAPTURE(binary, f32_row_768, DType::kFloat, map({128, 768}, {128, 768}, {768}));
BENCHMARK_CAPTURE(binary, f32_row_3, DType::kFloat, map({20000, 3}, {20000, 3}, {3}));

// A sum with a matrix whose steps are given, read where it lies or copied to rows first.
void with_view(benchmark::State& state, int64_t rows, int64_t columns, int64_t row_step, int64_t column_step,
               bool copies) {
  Program p(active_isa());
  const int a = p.add_input(DType::kFloat), b = p.add_input(DType::kFloat);
  if (!p.finish(p.apply(PointwiseOp::Add, {a, b}), DType::kFloat).ok()) return state.SkipWithError("no kernel");
  const int64_t out[] = {rows, columns}, steps[] = {row_step, column_step}, whole[] = {columns, 1};
  const std::span<const int64_t> shapes[] = {out, out}, strides[] = {{}, steps};
  const Broadcast same = Broadcast::same(rows * columns, 2), view = *Broadcast::from_shapes(out, shapes, strides);
  const StridedCopy copy(Element::w4, out, steps, whole);
  std::vector<float> x(rows * columns), y(rows * row_step + columns * column_step), z(rows * columns), dense(z.size());
  for (auto _ : state) {
    if (copies) copy.run(active_isa(), y.data(), dense.data(), 0, copy.units());
    const void* inputs[] = {x.data(), copies ? dense.data() : y.data()};
    p.run(copies ? same : view, inputs, z.data(), 0, rows * columns);
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * rows * columns);
}
BENCHMARK_CAPTURE(with_view, half_of_rows_stepped_over, 256, 1024, 2048, 1, false);
BENCHMARK_CAPTURE(with_view, half_of_rows_copied, 256, 1024, 2048, 1, true);
BENCHMARK_CAPTURE(with_view, short_rows_stepped_over, 4096, 32, 64, 1, false);
BENCHMARK_CAPTURE(with_view, short_rows_copied, 4096, 32, 64, 1, true);
BENCHMARK_CAPTURE(with_view, columns_stepped_over, 512, 512, 1, 512, false);
BENCHMARK_CAPTURE(with_view, columns_copied, 512, 512, 1, 512, true);
BENCHMARK_CAPTURE(with_view, every_second_stepped_over, 256, 512, 1024, 2, false);
BENCHMARK_CAPTURE(with_view, every_second_copied, 256, 512, 1024, 2, true);

void unary(benchmark::State& state, PointwiseOp op) {
  Program p(active_isa());
  const int a = p.add_input(DType::kFloat);
  if (!p.finish(p.apply(op, {a}, {0.1, 0.5}), DType::kFloat).ok()) return state.SkipWithError("no kernel");
  std::vector<float> x(1 << 14), y(1 << 14);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 1000) / 100 - 4;
  const void* inputs[] = {x.data()};
  const Broadcast shape = Broadcast::same(1 << 14, 1);
  for (auto _ : state) {
    p.run(shape, inputs, y.data(), 0, shape.size());
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * shape.size());
}
BENCHMARK_CAPTURE(unary, Relu, PointwiseOp::Relu);
BENCHMARK_CAPTURE(unary, Exp, PointwiseOp::Exp);
BENCHMARK_CAPTURE(unary, Log, PointwiseOp::Log);
BENCHMARK_CAPTURE(unary, Sigmoid, PointwiseOp::Sigmoid);
BENCHMARK_CAPTURE(unary, Tanh, PointwiseOp::Tanh);
BENCHMARK_CAPTURE(unary, Erf, PointwiseOp::Erf);
BENCHMARK_CAPTURE(unary, Mish, PointwiseOp::Mish);
BENCHMARK_CAPTURE(unary, Softplus, PointwiseOp::Softplus);
BENCHMARK_CAPTURE(unary, HardSwish, PointwiseOp::HardSwish);

// 20 operators on 4M floats in one pass.
void chain(benchmark::State& state) {
  Program p(active_isa());
  const int x = p.add_input(DType::kFloat), s = p.add_input(DType::kFloat);
  int v = x;
  for (int i = 0; i < 10; ++i) v = p.apply(PointwiseOp::Relu, {p.apply(PointwiseOp::Mul, {v, s})});
  if (!p.finish(v, DType::kFloat).ok()) return state.SkipWithError("no kernel");
  std::vector<float> in(1 << 22, 1.0f), out(1 << 22);
  const float scale = 0.9f;
  const void* inputs[] = {in.data(), &scale};
  const Broadcast shape = map({1 << 22}, {1 << 22}, {});
  for (auto _ : state) {
    p.run(shape, inputs, out.data(), 0, shape.size());
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * shape.size() * 20);
}
BENCHMARK(chain)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace forethought::kernels
