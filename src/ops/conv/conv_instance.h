// What Conv runs at one shape: oneDNN's direct kernels, or the plain reference.
#pragma once

#include <cstddef>
#include <span>

#include "kernel_api/facts.h"
#include "kernels/conv/direct.h"

namespace forethought {

// A convolution with all sizes known. Inputs: 0 x, 1 weights, 2 bias, `residual`.
struct ConvProblem {
  Isa isa = Isa::scalar;
  DType dtype = DType::kFloat;
  kernels::ConvShape shape;
  kernels::ConvPack pack;  // of the direct kernels
  kernels::Epilogue epilogue;
  int residual = -1;
  bool bias = false, source_blocked = false, dest_blocked = false;
  bool weights_packed = false, bias_packed = false;  // else packed at each run into scratch
};

// Refuses (unimplemented) what oneDNN has no fast kernel for.
StatusOr<KernelFacts> choose_direct_conv(const ConvProblem& p, InstanceCache* cache);
// 1×1 convolutions of stride 1 without padding, in groups that are no whole blocks of channels: a matrix product on
// plain channels wastes less than padding each group to blocks.
bool grouped_pointwise(const kernels::ConvPack& pack, bool unit_steps, bool padded);
StatusOr<KernelFacts> choose_pointwise_conv(const ConvProblem& p);
// Serves everything; blocked layouts through scratch.
StatusOr<KernelFacts> choose_reference_conv(const ConvProblem& p);

Status pack_conv(const kernels::ConvPack& pack, const Tensor& weights, float* packed);
Status pack_conv_bias(const kernels::ConvPack& pack, const Tensor& bias, float* packed);

}  // namespace forethought
