// MaxPool: the largest value of each window, and where it lies.
#include "ops/pool/pool_op.h"

namespace forethought {

struct MaxPool : PoolBase {
  int64_t storage_order = 0;

  static constexpr OpName name{"MaxPool"};
  static constexpr auto attrs =
      std::tuple{attr("auto_pad", &MaxPool::auto_pad),   attr("ceil_mode", &MaxPool::ceil_mode),
                 attr("dilations", &MaxPool::dilations), attr("kernel_shape", &MaxPool::kernel_shape),
                 attr("pads", &MaxPool::pads),           attr("storage_order", &MaxPool::storage_order),
                 attr("strides", &MaxPool::strides)};
  static constexpr Traits traits{.max_outputs = 2, .in = {kFloats | DType::kInt8 | DType::kUint8}};

  Status init(const GraphNode& node) const {
    RETURN_IF_ERROR(PoolBase::init(node));
    if (storage_order != 0 && storage_order != 1)
      return invalid(absl::StrCat("attribute 'storage_order' is ", storage_order, "; it must be 0 or 1"));
    return absl::OkStatus();
  }
  Status infer(InferCtx& c) const {
    RETURN_IF_ERROR(infer_output(c, 0, c.dtype(0)));
    return c.wants_out(1) ? infer_output(c, 1, DType::kInt64) : absl::OkStatus();
  }
  StatusOr<KernelFacts> choose(const ChooseCtx& c) const {
    KernelFacts facts = default_facts(name, traits, c);
    ASSIGN_OR_RETURN(const int64_t lanes, pool_lanes(c.inputs[0].layout, c.inputs[0].dtype));
    if (c.outputs[0].layout != c.inputs[0].layout) return unsupported("pooling keeps its input's layout");
    const bool indices = c.outputs.size() > 1 && c.outputs[1].present;
    if (lanes > 1 && indices) return unsupported("MaxPool with indices takes plain channels");
    const bool vectors = c.isa != Isa::scalar && c.inputs[0].dtype == DType::kFloat && !indices;
    facts.kernel = absl::StrCat("maxpool.", vectors ? "simd." : "reference.", forethought::name(c.inputs[0].dtype));
    if (!vectors)
      facts.refused.push_back({"maxpool.simd", c.isa == Isa::scalar ? "the tier is scalar"
                                               : indices            ? "indices are wanted"
                                                                    : "the vector kernel is for f32"});
    return facts;
  }
  Status run(RunCtx& c) const {
    const Arg& x = c.in(0);
    ASSIGN_OR_RETURN(const kernels::Window w, window(x.dims().subspan(2), kernel_shape, ceil_mode));
    ASSIGN_OR_RETURN(const int64_t lanes, pool_lanes(x.layout, x.dtype));
    const int64_t planes = x.dim(0) * ((x.dim(1) + lanes - 1) / lanes), size = kernels::volume(w.out);
    if (size == 0) return absl::OkStatus();
    int64_t* indices = c.has_out(1) ? c.out_as<int64_t>(1) : nullptr;
    const Isa isa = active_isa();
    parallel_ranges(c, planes, pool_grain(kernels::volume(w.in) * lanes), [&](int64_t begin, int64_t end, int) {
      if (x.dtype == DType::kFloat && !indices)
        return kernels::pool_f32(isa, kernels::PoolKind::max, w, lanes, x.as<float>(), c.out_as<float>(0), begin, end);
      dispatch(x.dtype, Types<float, double, Float16, BFloat16, int8_t, uint8_t>{}, [&]<typename T>() {
        kernels::max_pool_reference<T>(w, x.as<T>(), c.out_as<T>(0), indices, storage_order == 1, begin, end);
      });
    });
    return absl::OkStatus();
  }
  bool accepts(LayoutQuery& q) const { return pool_accepts(q, false); }
};
DEFINE_OP(MaxPool)

}  // namespace forethought
