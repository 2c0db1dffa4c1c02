// Equal, Where and Not.
#include "kernels/pointwise/strings.h"
#include "ops/pointwise/pointwise.h"
#include "ops/pointwise/propagate.h"

namespace forethought {
namespace {

StatusOr<kernels::Broadcast> map_inputs(const RunCtx& c, int inputs) {
  absl::InlinedVector<std::span<const int64_t>, 3> shapes;
  for (int i = 0; i < inputs; ++i) shapes.push_back(c.in(i).dims());
  auto shape = kernels::Broadcast::from_shapes(c.out(0).dims(), shapes);
  if (!shape) return invalid(absl::StrCat("operands do not broadcast to ", to_string(c.out(0).dims())));
  return *std::move(shape);
}

Dim equal_dims(const Dim& a, const Dim& b) {
  if (a.is_known() && b.is_known()) return a.value() == b.value();
  return a.same(b) ? Dim(1) : Dim();
}
Dim inverted(const Dim& a, const Dim&) { return a.is_known() ? Dim(a.value() == 0) : Dim(); }

}  // namespace

struct Equal : BroadcastLayouts {
  static constexpr OpName name{"Equal"};
  static constexpr auto attrs = std::tuple{};
  static constexpr Traits traits{
      .min_inputs = 2, .max_inputs = 2, .in = {kPlain, kPlain}, .may_overwrite = 3, .elementwise = true, .strided = 3};

  Status infer(InferCtx& c) const {
    RETURN_IF_ERROR(require_one_type(c, 2));
    ASSIGN_OR_RETURN(SymShape shape, broadcast_shapes(c, 2));
    c.set(0, DType::kBool, std::move(shape));
    propagate(c, 2, DType::kBool, {&equal_dims, nullptr});
    c.by_formula();
    return absl::OkStatus();
  }
  StatusOr<KernelFacts> choose(const ChooseCtx& ctx) const {
    if (ctx.inputs[0].dtype == DType::kString) return default_facts(name, traits, ctx);
    return choose_pointwise(ctx, name, traits, {},
                            [](kernels::Program& p, std::span<const int> v) { return p.equal(v[0], v[1]); });
  }
  // Strings.
  Status run(RunCtx& c) const {
    ASSIGN_OR_RETURN(const kernels::Broadcast shape, map_inputs(c, 2));
    parallel_ranges(c, shape.size(), kPointwiseGrain / 16, [&](int64_t begin, int64_t end, int) {
      kernels::equal_strings(shape, c.in_as<std::string>(0), c.in_as<std::string>(1), c.out_as<uint8_t>(0), begin, end);
    });
    return absl::OkStatus();
  }
};
DEFINE_OP(Equal)

struct Where : BroadcastLayouts {
  static constexpr OpName name{"Where"};
  static constexpr auto attrs = std::tuple{};
  static constexpr Traits traits{.min_inputs = 3,
                                 .max_inputs = 3,
                                 .in = {DType::kBool, kPlain, kPlain},
                                 .may_overwrite = 7,
                                 .elementwise = true,
                                 .strided = 7};

  Status infer(InferCtx& c) const {
    if (c.dtype(1) != c.dtype(2) && c.dtype(1) != DType::kUndefined && c.dtype(2) != DType::kUndefined)
      return invalid(absl::StrCat("inputs 1 and 2 are ", forethought::name(c.dtype(1)), " and ",
                                  forethought::name(c.dtype(2)), "; they must have one type"));
    ASSIGN_OR_RETURN(SymShape shape, broadcast_shapes(c, 3));
    c.set(0, c.dtype(1), std::move(shape));
    propagate_where(c);
    c.by_formula();
    return absl::OkStatus();
  }
  StatusOr<KernelFacts> choose(const ChooseCtx& ctx) const {
    if (ctx.inputs[1].dtype == DType::kString) {
      KernelFacts facts = default_facts(name, traits, ctx);
      facts.kernel = "where.str";
      facts.overwrites.clear();
      return facts;
    }
    return choose_pointwise(ctx, name, traits, {},
                            [](kernels::Program& p, std::span<const int> v) { return p.where(v[0], v[1], v[2]); });
  }
  // Strings.
  Status run(RunCtx& c) const {
    ASSIGN_OR_RETURN(const kernels::Broadcast shape, map_inputs(c, 3));
    parallel_ranges(c, shape.size(), kPointwiseGrain / 16, [&](int64_t begin, int64_t end, int) {
      kernels::where_strings(shape, c.in_as<uint8_t>(0), c.in_as<std::string>(1), c.in_as<std::string>(2),
                             c.out_as<std::string>(0), begin, end);
    });
    return absl::OkStatus();
  }
};
DEFINE_OP(Where)

struct Not {
  static constexpr OpName name{"Not"};
  static constexpr auto attrs = std::tuple{};
  static constexpr Traits traits = unary_traits(DType::kBool);

  Status infer(InferCtx& c) const {
    c.set(0, DType::kBool, c.shape(0));
    propagate(c, 1, DType::kBool, {&inverted, nullptr});
    c.by_formula();
    return absl::OkStatus();
  }
  StatusOr<KernelFacts> choose(const ChooseCtx& ctx) const {
    return choose_pointwise(ctx, name, traits, {},
                            [](kernels::Program& p, std::span<const int> v) { return p.logical_not(v[0]); });
  }
  Refit refit(const ChooseCtx& ctx, const Runnable& earlier) const { return refit_pointwise(ctx, earlier); }
};
DEFINE_OP(Not)

}  // namespace forethought
