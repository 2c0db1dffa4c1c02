// Conv's shape rule, packing and choice of the kernel.
#include "ops/conv/conv_op.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "base/checked.h"
#include "kernel_api/instance_cache.h"
#include "ops/conv/conv_instance.h"

namespace forethought {

Status ConvBase::init(const GraphNode&) const {
  RETURN_IF_ERROR(check());
  if (group < 1) return invalid(absl::StrCat("attribute 'group' is ", group, "; it must be 1 or more"));
  return absl::OkStatus();
}

Status ConvBase::infer(InferCtx& c) const {
  const SymShape &x = c.shape(0), &w = c.shape(1);
  for (int i = 1; i < c.inputs(); ++i)
    if (c.has_in(i) && c.dtype(i) != DType::kUndefined && c.dtype(i) != c.dtype(0))
      return invalid(absl::StrCat("input ", i, " is ", name(c.dtype(i)), " and input 0 is ", name(c.dtype(0)),
                                  "; they must be of one type"));
  if (x.has_rank && w.has_rank && x.rank() != w.rank())
    return invalid(absl::StrCat("the input ", to_string(x), " and the weights ", to_string(w), " differ in rank"));
  if (!x.has_rank && !w.has_rank) {
    c.set(0, c.dtype(0), SymShape::unknown());
    return absl::OkStatus();
  }
  const int rank = (x.has_rank ? x.rank() : w.rank()) - 2;
  RETURN_IF_ERROR(check_rank(rank));
  absl::InlinedVector<Dim, 6> in(rank), kernel(rank), out;
  for (int d = 0; d < rank; ++d) {
    if (x.has_rank) in[d] = x.dims[d + 2];
    kernel[d] = !kernel_shape.empty() ? Dim(kernel_shape[d]) : w.has_rank ? w.dims[d + 2] : Dim();
    if (w.has_rank && w.dims[d + 2].is_known() && kernel[d].is_known() && w.dims[d + 2].value() != kernel[d].value())
      return invalid(absl::StrCat("attribute 'kernel_shape' does not match the weights ", to_string(w)));
  }
  if (w.has_rank) {
    if (x.has_rank && x.dims[1].is_known() && w.dims[1].is_known()) {
      const auto want = checked_mul(w.dims[1].value(), group);
      if (!want || *want != x.dims[1].value())
        return invalid(absl::StrCat("the input ", to_string(x), " has ", x.dims[1].value(), " channels; the weights ",
                                    to_string(w), " in ", group, " groups need ", want.value_or(-1)));
    }
    if (w.dims[0].is_known() && w.dims[0].value() % group != 0)
      return invalid(absl::StrCat(w.dims[0].value(), " output channels do not divide into ", group, " groups"));
    const SymShape& bias = c.shape(2);
    if (c.has_in(2) && bias.has_rank &&
        (bias.rank() != 1 ||
         (bias.dims[0].is_known() && w.dims[0].is_known() && bias.dims[0].value() != w.dims[0].value())))
      return invalid(absl::StrCat("the bias is ", to_string(bias), "; the weights ", to_string(w), " need [",
                                  to_string(w.dims[0]), "]"));
  }
  SymShape y;
  y.has_rank = true;
  y.dims.push_back(x.has_rank ? x.dims[0] : Dim());
  y.dims.push_back(w.has_rank ? w.dims[0] : Dim());
  ASSIGN_OR_RETURN(out, output_dims(in, kernel, false));
  y.dims.insert(y.dims.end(), out.begin(), out.end());
  c.set(0, c.dtype(0), std::move(y));
  // Attributes are compared with the weights, and groups multiply channels. Whether the kernel fits choose() asks too.
  if (w.is_known() && (group == 1 || (x.has_rank && x.dims[1].is_known()))) c.by_formula();
  return absl::OkStatus();
}

StatusOr<kernels::Epilogue> epilogue_of(const std::string& activation, const std::vector<float>& params) {
  using kernels::Activation;
  const auto kind = kernels::activation_from_name(activation);
  if (!kind)
    return invalid(absl::StrCat("attribute 'activation' is '", activation, "', which is not one that is fused"));
  const auto param = [&](size_t i, float or_else) { return i < params.size() ? params[i] : or_else; };
  kernels::Epilogue e{*kind, 0, 0};
  switch (*kind) {
    case Activation::leaky_relu:
      e.alpha = param(0, 0.01f);
      break;
    case Activation::elu:
      e.alpha = param(0, 1.0f);
      break;
    case Activation::clip:
      e.alpha = param(0, std::numeric_limits<float>::lowest());
      e.beta = param(1, std::numeric_limits<float>::max());
      break;
    case Activation::hard_sigmoid:
      e.alpha = param(0, 0.2f);
      e.beta = param(1, 0.5f);
      break;
    default:
      break;
  }
  return e;
}

namespace {

// Types that oneDNN's f32 kernels serve, the half types by conversion.
bool through_f32(DType t) { return t == DType::kFloat || t == DType::kFloat16 || t == DType::kBFloat16; }

StatusOr<kernels::ConvPack> pack_of(Isa isa, int64_t group, DType dtype, std::span<const int64_t> w) {
  if (!through_f32(dtype)) return unsupported(absl::StrCat("oneDNN has no convolution in ", name(dtype)));
  if (w.size() < 3) return unsupported("the weights have no spatial dimension");
  return kernels::choose_conv_pack(isa, w[0], w[1], group, w.subspan(2));
}

// What prepare() and choose() agree on: whether the node runs as a matrix product on plain channels.
bool is_grouped_pointwise(const ConvBase& op, const kernels::ConvPack& pack, DType dtype) {
  const auto is = [](const std::vector<int64_t>& list, int64_t v) {
    return std::all_of(list.begin(), list.end(), [v](int64_t x) { return x == v; });
  };
  return dtype == DType::kFloat && grouped_pointwise(pack, is(op.strides, 1), !is(op.pads, 0));
}

std::string pack_format(const kernels::ConvPack& p, const char* what) {
  return absl::StrCat(what, ".", p.name(), ".g", p.groups, ".", p.group_out, "x", p.group_in, "x", p.taps);
}

}  // namespace

StatusOr<std::vector<PackSpec>> prepare_conv(const ConvBase& op, const PrepareCtx& ctx) {
  std::vector<PackSpec> specs;
  const Tensor* w = ctx.constants[1];
  if (!w) return specs;
  const auto pack = pack_of(ctx.isa, op.group, w->dtype, w->dims);
  if (!pack.ok()) return specs;
  const kernels::ConvPack p = *pack;
  if (is_grouped_pointwise(op, p, w->dtype)) return specs;  // it reads the weights as they are
  // Shapes that oneDNN refuses unpack the weights at each run.
  specs.push_back(
      {1, pack_format(p, "conv"), static_cast<size_t>(p.weight_elements()) * sizeof(float),
       [p](const Tensor& t, std::span<std::byte> to) { return pack_conv(p, t, reinterpret_cast<float*>(to.data())); }});
  if (ctx.constants.size() > 2 && ctx.constants[2])
    specs.push_back({2, pack_format(p, "conv_bias"), static_cast<size_t>(p.bias_elements()) * sizeof(float),
                     [p](const Tensor& t, std::span<std::byte> to) {
                       return pack_conv_bias(p, t, reinterpret_cast<float*>(to.data()));
                     }});
  return specs;
}

StatusOr<KernelFacts> choose_conv(const ConvBase& op, const ConvCall& call, const ChooseCtx& ctx) {
  KernelFacts facts;
  const Operand &x = ctx.inputs[0], &w = ctx.inputs[1], &y = ctx.outputs[0];
  const auto operand = [&](int i) {
    return i >= 0 && i < static_cast<int>(ctx.inputs.size()) && ctx.inputs[i].present ? &ctx.inputs[i] : nullptr;
  };
  const Operand *bias = operand(2), *residual = operand(call.residual);
  if (!x.known || !w.known || !y.known) {
    facts.kernel = "conv";
    facts.reason = "shapes are known at run only";
    return facts;
  }
  ConvProblem p;
  p.isa = ctx.isa;
  p.dtype = x.dtype;
  p.bias = bias != nullptr;
  p.residual = residual ? call.residual : -1;
  p.epilogue = call.epilogue;
  p.source_blocked = x.layout.is_blocked();
  p.dest_blocked = y.layout.is_blocked();
  ASSIGN_OR_RETURN(p.shape.window, op.window(x.dims.subspan(2), w.dims.subspan(2), false));
  p.shape.batch = x.dims[0];
  p.shape.in_channels = x.dims[1];
  p.shape.out_channels = w.dims[0];
  p.shape.groups = op.group;
  for (const Operand* o : {&x, &y}) {
    if (!o->layout.is_plain() && o->layout != Layout::blocked(kernels::onednn::channel_block(ctx.isa)))
      return unsupported(absl::StrCat("a convolution takes plain or blocked channels, not ", to_string(o->layout)));
  }
  if (residual && (residual->layout != y.layout || residual->dtype != y.dtype ||
                   !std::equal(residual->dims.begin(), residual->dims.end(), y.dims.begin(), y.dims.end())))
    return invalid("the residual must have the output's shape, type and layout");
  p.weights_packed = w.packed != nullptr;
  p.bias_packed = bias && bias->packed;
  const auto pack = pack_of(ctx.isa, op.group, x.dtype, w.dims);
  Status refused = pack.status();
  if (pack.ok()) {
    p.pack = *pack;
    if (is_grouped_pointwise(op, *pack, x.dtype) && !p.source_blocked && !p.dest_blocked) {
      auto pointwise = choose_pointwise_conv(p);
      if (pointwise.ok() && residual) pointwise->overwrites.push_back({0, call.residual});
      return pointwise;
    }
    auto chosen = choose_direct_conv(p, ctx.cache);
    if (chosen.ok()) {
      if (residual && x.dtype == DType::kFloat) chosen->overwrites.push_back({0, call.residual});
      return chosen;
    }
    refused = chosen.status();
    if (refused.code() != absl::StatusCode::kUnimplemented) return refused;
  }
  ASSIGN_OR_RETURN(facts, choose_reference_conv(p));
  facts.reason = "oneDNN does not serve it";
  facts.refused.push_back(
      {absl::StrCat("conv.onednn.direct.", name(x.dtype), ".", name(ctx.isa)), std::string(refused.message())});
  return facts;
}

bool conv_accepts(const ConvBase& op, int residual, LayoutQuery& q) {
  const Isa isa = active_isa();
  const SymShape& w = *q.input_shapes[1];
  if (!kernels::onednn::serves(isa) || q.block != kernels::onednn::channel_block(isa)) return false;
  if (!q.input_types[0]->is_tensor() || q.input_types[0]->dtype() != DType::kFloat || !q.constants[1]) return false;
  const auto dims = w.numbers();
  if (!dims) return false;
  const auto pack = pack_of(isa, op.group, DType::kFloat, *dims);
  if (!pack.ok()) return false;
  using kernels::ConvForm;
  const Layout blocked = Layout::blocked(q.block);
  const bool whole = pack->groups == 1 || pack->form == ConvForm::depthwise;
  if (!whole && pack->group_out % q.block != 0) return false;
  if (q.inputs[0] == blocked) {
    if (pack->form == ConvForm::plain_source || (!whole && pack->group_in % q.block != 0)) return false;
  } else if (!q.inputs[0].is_plain()) {
    return false;
  }
  for (size_t i = 1; i < q.inputs.size(); ++i) {
    if (!q.input_shapes[i]) continue;  // a skipped input
    if (static_cast<int>(i) == residual ? q.inputs[i] != blocked : !q.inputs[i].is_plain()) return false;
  }
  q.outputs[0] = blocked;
  return true;
}

}  // namespace forethought
