// AveragePool: the mean of each window, over what lies inside the image or (count_include_pad) inside its padding too.
#include "ops/pool/pool_op.h"

namespace forethought {

struct AveragePool : PoolBase {
  bool count_include_pad = false;

  static constexpr OpName name{"AveragePool"};
  static constexpr auto attrs = std::tuple{attr("auto_pad", &AveragePool::auto_pad),
                                           attr("ceil_mode", &AveragePool::ceil_mode),
                                           attr("count_include_pad", &AveragePool::count_include_pad),
                                           attr("dilations", &AveragePool::dilations),
                                           attr("kernel_shape", &AveragePool::kernel_shape),
                                           attr("pads", &AveragePool::pads),
                                           attr("strides", &AveragePool::strides)};
  static constexpr Traits traits{.in = {kFloats}};

  Status infer(InferCtx& c) const { return infer_output(c, 0, c.dtype(0)); }
  StatusOr<KernelFacts> choose(const ChooseCtx& c) const {
    KernelFacts facts = default_facts(name, traits, c);
    RETURN_IF_ERROR(pool_lanes(c.inputs[0].layout, c.inputs[0].dtype).status());
    if (c.outputs[0].layout != c.inputs[0].layout) return unsupported("pooling keeps its input's layout");
    const bool vectors = c.isa != Isa::scalar && c.inputs[0].dtype == DType::kFloat;
    facts.kernel = absl::StrCat("averagepool.", vectors ? "simd." : "reference.", forethought::name(c.inputs[0].dtype));
    if (!vectors)
      facts.refused.push_back(
          {"averagepool.simd", c.isa == Isa::scalar ? "the tier is scalar" : "the vector kernel is for f32"});
    return facts;
  }
  Status run(RunCtx& c) const {
    const Arg& x = c.in(0);
    ASSIGN_OR_RETURN(const kernels::Window w, window(x.dims().subspan(2), kernel_shape, ceil_mode));
    ASSIGN_OR_RETURN(const int64_t lanes, pool_lanes(x.layout, x.dtype));
    const int64_t planes = x.dim(0) * ((x.dim(1) + lanes - 1) / lanes), size = kernels::volume(w.out);
    if (size == 0) return absl::OkStatus();
    const Isa isa = active_isa();
    const auto kind = count_include_pad ? kernels::PoolKind::average_count_pad : kernels::PoolKind::average;
    parallel_ranges(c, planes, pool_grain(kernels::volume(w.in) * lanes), [&](int64_t begin, int64_t end, int) {
      if (x.dtype == DType::kFloat)
        return kernels::pool_f32(isa, kind, w, lanes, x.as<float>(), c.out_as<float>(0), begin, end);
      dispatch(x.dtype, FloatTypes{}, [&]<typename T>() {
        kernels::average_pool_reference<T>(w, x.as<T>(), c.out_as<T>(0), count_include_pad, begin, end);
      });
    });
    return absl::OkStatus();
  }
  bool accepts(LayoutQuery& q) const { return pool_accepts(q, false); }
};
DEFINE_OP(AveragePool)

}  // namespace forethought
