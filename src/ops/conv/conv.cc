// Conv: y = x ⋆ w + bias over any number of spatial dimensions; and FusedConv, which adds a residual and an activation.
#include "ops/conv/conv_op.h"

namespace forethought {

struct Conv : ConvBase {
  static constexpr OpName name{"Conv"};
  static constexpr auto attrs = std::tuple{attr("auto_pad", &Conv::auto_pad), attr("dilations", &Conv::dilations),
                                           attr("group", &Conv::group),       attr("kernel_shape", &Conv::kernel_shape),
                                           attr("pads", &Conv::pads),         attr("strides", &Conv::strides)};
  static constexpr Traits traits{.min_inputs = 2, .max_inputs = 3, .in = {kFloats, kFloats, kFloats}};

  StatusOr<std::vector<PackSpec>> prepare(const PrepareCtx& c) const { return prepare_conv(*this, c); }
  StatusOr<KernelFacts> choose(const ChooseCtx& c) const { return choose_conv(*this, {}, c); }
  bool accepts(LayoutQuery& q) const { return conv_accepts(*this, -1, q); }
};
DEFINE_OP(Conv)

// forethought.FusedConv(x, w, bias?, residual?): y = activation(conv + bias + residual); the residual is shaped like y.
struct FusedConv : ConvBase {
  std::string activation;
  std::vector<float> activation_params;

  static constexpr OpName name{"FusedConv", "forethought"};
  static constexpr auto attrs = std::tuple{attr("auto_pad", &FusedConv::auto_pad),
                                           attr("dilations", &FusedConv::dilations),
                                           attr("group", &FusedConv::group),
                                           attr("kernel_shape", &FusedConv::kernel_shape),
                                           attr("pads", &FusedConv::pads),
                                           attr("strides", &FusedConv::strides),
                                           attr("activation", &FusedConv::activation),
                                           attr("activation_params", &FusedConv::activation_params)};
  static constexpr Traits traits{
      .min_inputs = 2, .max_inputs = 4, .in = {DType::kFloat, DType::kFloat, DType::kFloat, DType::kFloat}};

  Status init(const GraphNode& node) const {
    RETURN_IF_ERROR(ConvBase::init(node));
    return epilogue_of(activation, activation_params).status();
  }
  StatusOr<std::vector<PackSpec>> prepare(const PrepareCtx& c) const { return prepare_conv(*this, c); }
  StatusOr<KernelFacts> choose(const ChooseCtx& c) const {
    ASSIGN_OR_RETURN(const kernels::Epilogue e, epilogue_of(activation, activation_params));
    return choose_conv(*this, {e, c.inputs.size() > 3 && c.inputs[3].present ? 3 : -1}, c);
  }
  bool accepts(LayoutQuery& q) const { return conv_accepts(*this, 3, q); }
};
DEFINE_OP(FusedConv)

}  // namespace forethought
