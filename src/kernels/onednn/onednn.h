// oneDNN behind plain objects: one primitive on one dense block, run with one thread and scratch of the caller's.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/cpu.h"
#include "base/dtype.h"
#include "base/half.h"
#include "base/status.h"
#include "kernels/gemm/epilogue.h"
#include "kernels/gemm/reference.h"

namespace forethought::kernels::onednn {

// Whether oneDNN may be used at this tier: the process's own tier (active_isa()), above scalar. The first call caps
// oneDNN to the tier and turns its primitive cache off.
bool serves(Isa isa);

// Channels of one block of its blocked layouts: 16 for avx512, 8 for avx2.
constexpr int64_t channel_block(Isa isa) { return isa == Isa::avx512 ? 16 : 8; }

// Made once, executed from any number of threads at a time.
class Primitive {
 public:
  virtual ~Primitive() = default;
  // `bias` where the primitive was made with one; `scratch` of scratch_bytes(), 64-byte aligned. The destination holds
  // the addend before the call where `sum` was asked for.
  virtual Status run(const void* src, const void* weights, const float* bias, void* dst, void* scratch) const = 0;
  virtual size_t scratch_bytes() const = 0;
  virtual const std::string& implementation() const = 0;
};
using PrimitiveRef = std::shared_ptr<const Primitive>;

// A convolution of one image in f32, 2-D or 3-D (unused leading entries of the arrays are ignored). Source: blocked
// channels, or plain with few channels (weights then Ohwi{B}o). Destination: blocked channels. Channel counts are whole
// blocks, but for those of a plain source. Weights: OIhw{B}i{B}o; Ohwi{B}o; Goihw{B}g for depthwise.
struct ConvKey {
  Isa isa = Isa::avx512;
  int rank = 2;
  int64_t channels_in = 0, channels_out = 0;
  bool depthwise = false, plain_source = false;
  std::array<int64_t, 3> in{}, out{}, kernel{}, strides{}, dilations{}, pads_begin{}, pads_end{};
  bool bias = false, sum = false;
  Epilogue epilogue;
  bool operator==(const ConvKey&) const = default;
};
// Refuses, with the reason, what oneDNN has no fast implementation for.
StatusOr<PrimitiveRef> make_convolution(const ConvKey& key);

// C[m, n] = A[m, k]·B + bias[n] with B packed, A and C row-major; B, A and C of one type, f32 or bf16.
struct MatmulKey {
  int64_t m = 0, k = 0, n = 0;
  DType dtype = DType::kFloat;
  bool bias = false;
  Epilogue epilogue;
  bool operator==(const MatmulKey&) const = default;
};
// True where packed weights are worth it: avx512, and for bf16 a processor with bf16 dot products.
bool serves_matmul(Isa isa, DType dtype);
// The packed form of B: blocks of 64 columns; in each, blocks of 16 rows (of 32 in pairs for bf16); zeros beyond B. The
// layout does not depend on m, so one pack serves every height.
int64_t matmul_packed_size(DType dtype, int64_t k, int64_t n);
void pack_matmul(Matrix<float> b, int64_t k, int64_t n, float* packed);
void pack_matmul(Matrix<BFloat16> b, int64_t k, int64_t n, BFloat16* packed);
StatusOr<PrimitiveRef> make_matmul(const MatmulKey& key);

}  // namespace forethought::kernels::onednn
