// GlobalAveragePool and GlobalMaxPool: the mean and the maximum of each channel of each image.
#include <algorithm>

#include "ops/pool/pool_op.h"

namespace forethought {
namespace {

Status infer_global(InferCtx& c) {
  const SymShape& x = c.shape(0);
  if (!x.has_rank) {
    c.set(0, c.dtype(0), SymShape::unknown());
    return absl::OkStatus();
  }
  if (x.rank() < 2)
    return invalid(absl::StrCat("the input is ", to_string(x), "; it needs a batch and a channel dimension"));
  SymShape y = x;
  for (int d = 2; d < y.rank(); ++d) y.dims[d] = Dim(1);
  c.set(0, c.dtype(0), std::move(y));
  c.by_formula();
  return absl::OkStatus();
}

StatusOr<KernelFacts> choose_global(const OpName& op, const Traits& traits, const ChooseCtx& c) {
  KernelFacts facts = default_facts(op, traits, c);
  RETURN_IF_ERROR(pool_lanes(c.inputs[0].layout, c.inputs[0].dtype).status());
  // One value a channel: plain whatever the input's layout.
  if (!c.outputs[0].layout.is_plain()) return unsupported("a global pool writes plain channels");
  return facts;
}

// A block of channels is pooled into a stack row, of which the channels that exist are kept.
Status run_global(RunCtx& c, kernels::PoolKind kind) {
  const Arg& x = c.in(0);
  ASSIGN_OR_RETURN(const int64_t lanes, pool_lanes(x.layout, x.dtype));
  const int64_t channels = x.dim(1), blocks = (channels + lanes - 1) / lanes, planes = x.dim(0) * blocks;
  int64_t spatial = 1;
  for (int d = 2; d < x.rank; ++d) spatial *= x.dim(d);
  const Isa isa = active_isa();
  const bool max = kind == kernels::PoolKind::max;
  parallel_ranges(c, planes, pool_grain(spatial * lanes), [&](int64_t begin, int64_t end, int) {
    if (x.dtype != DType::kFloat) {
      dispatch(x.dtype, FloatTypes{}, [&]<typename T>() {
        if (max) return kernels::global_max_pool<T>(x.as<T>(), c.out_as<T>(0), spatial, begin, end);
        kernels::global_average_pool<T>(x.as<T>(), c.out_as<T>(0), spatial, begin, end);
      });
      return;
    }
    float* y = c.out_as<float>(0);
    if (lanes == 1) return kernels::global_pool_f32(isa, kind, 1, x.as<float>(), y, spatial, begin, end);
    for (int64_t p = begin; p < end; ++p) {
      float row[16];
      kernels::global_pool_f32(isa, kind, lanes, x.as<float>() + p * spatial * lanes, row, spatial, 0, 1);
      const int64_t first = p % blocks * lanes;
      std::copy(row, row + std::min(lanes, channels - first), y + p / blocks * channels + first);
    }
  });
  return absl::OkStatus();
}

}  // namespace

struct GlobalAveragePool {
  static constexpr OpName name{"GlobalAveragePool"};
  static constexpr auto attrs = std::tuple{};
  static constexpr Traits traits{.in = {kFloats}};

  Status infer(InferCtx& c) const { return infer_global(c); }
  StatusOr<KernelFacts> choose(const ChooseCtx& c) const { return choose_global(name, traits, c); }
  Status run(RunCtx& c) const { return run_global(c, kernels::PoolKind::average); }
  bool accepts(LayoutQuery& q) const { return pool_accepts(q, true); }
};
DEFINE_OP(GlobalAveragePool)

struct GlobalMaxPool {
  static constexpr OpName name{"GlobalMaxPool"};
  static constexpr auto attrs = std::tuple{};
  static constexpr Traits traits{.in = {kFloats}};

  Status infer(InferCtx& c) const { return infer_global(c); }
  StatusOr<KernelFacts> choose(const ChooseCtx& c) const { return choose_global(name, traits, c); }
  Status run(RunCtx& c) const { return run_global(c, kernels::PoolKind::max); }
  bool accepts(LayoutQuery& q) const { return pool_accepts(q, true); }
};
DEFINE_OP(GlobalMaxPool)

}  // namespace forethought
