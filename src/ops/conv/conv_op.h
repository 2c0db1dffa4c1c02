// The common part of Conv and the internal FusedConv: attributes, shape rule, packing, choice of the kernel.
#pragma once

#include <string>
#include <vector>

#include "kernels/conv/direct.h"
#include "kernels/gemm/epilogue.h"
#include "ops/conv/spatial.h"
#include "ops/op.h"

namespace forethought {

struct ConvBase : SpatialAttributes {
  int64_t group = 1;

  Status init(const GraphNode&) const;
  Status infer(InferCtx& c) const;
};

// A fused activation as attributes: its ONNX name and parameters (Clip: min, max; LeakyRelu, Elu: alpha; HardSigmoid:
// alpha, beta), defaults where they are left out.
StatusOr<kernels::Epilogue> epilogue_of(const std::string& activation, const std::vector<float>& params);

// What differs between the users of the implementation.
struct ConvCall {
  kernels::Epilogue epilogue;
  int residual = -1;  // input added before the activation; -1: none
};
StatusOr<std::vector<PackSpec>> prepare_conv(const ConvBase& op, const PrepareCtx& ctx);
StatusOr<KernelFacts> choose_conv(const ConvBase& op, const ConvCall& call, const ChooseCtx& ctx);
bool conv_accepts(const ConvBase& op, int residual, LayoutQuery& query);

}  // namespace forethought
