// ONNX BatchNormalization, InstanceNormalization and LRN on contiguous tensors; dtype is f32, f64, f16 or bf16.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/cpu.h"
#include "base/dtype.h"

namespace forethought::kernels {

// ---- BatchNormalization: y = (x − mean[c]) · factor[c] + bias[c] with factor = scale / √(var + epsilon).

// The prepared parameters of `channels` channels, kept in float (in double for f64 tensors): mean, factor, bias, each
// padded with zeros to `padded` channels, so that the padding of a blocked layout stays zero.
size_t batch_norm_params_bytes(DType x, int64_t padded);
void batch_norm_params(Isa isa, DType x, int64_t channels, int64_t padded, double epsilon, DType scale_type,
                       const void* scale, const void* bias, DType mean_type, const void* mean, const void* var,
                       void* params);

// How channels lie. block 1: rows of `inner` elements of one channel, row r is channel r % channels. block b: rows of
// inner × b elements, row r holds the channels from (r % (channels / b)) · b on, channel fastest. Channels-last is one
// block of all channels. `channels` counts padded ones.
struct ChannelRows {
  int64_t channels, inner, block = 1;
};
// Rows [begin, end). x and y may be the same memory.
void batch_norm(Isa isa, DType dtype, const ChannelRows& shape, const void* params, const void* x, void* y,
                int64_t begin, int64_t end);

// Mean and population variance of channel c of a plain [batch, channels, inner] tensor; NaN without elements.
struct Moments {
  double mean, variance;
};
Moments channel_moments(Isa isa, DType dtype, const void* x, int64_t batch, int64_t channels, int64_t inner, int64_t c);

// ---- InstanceNormalization over rows [begin, end) of [batch · channels, inner]; scale and bias have type dtype.
// In place is allowed.
void instance_norm(Isa isa, DType dtype, int64_t channels, int64_t inner, double epsilon, const void* scale,
                   const void* bias, const void* x, void* y, int64_t begin, int64_t end);

// ---- LRN: y = x / (bias + alpha / size · Σ x²)^beta, the sum over the channels c − ⌊(size−1)/2⌋ … c + ⌈(size−1)/2⌉
// that exist. Rows [begin, end) of [batch · channels, inner]; y must not be x.
struct Lrn {
  int64_t size;  // at least 1
  float alpha, beta, bias;
};
void lrn(Isa isa, DType dtype, const Lrn& p, int64_t channels, int64_t inner, const void* x, void* y, int64_t begin,
         int64_t end);
// The same for float32 in blocks of `block` channels (all channels: channels-last), over positions [begin, end) of
// batch · inner. Channels beyond `channels` become zero. p.size is at most kMaxBlockedLrn.
constexpr int64_t kMaxBlockedLrn = 64;
void lrn_blocked(Isa isa, const Lrn& p, int64_t channels, int64_t inner, int64_t block, const float* x, float* y,
                 int64_t begin, int64_t end);

}  // namespace forethought::kernels
