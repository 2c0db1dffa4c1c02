// Cast among the numeric types, bool and strings; CastLike is the same with its target taken from another input.
#pragma once

#include <string>

#include "kernels/pointwise/strings.h"
#include "ops/pointwise/pointwise.h"
#include "ops/pointwise/propagate.h"

namespace forethought {

struct Cast {
  DType to = DType::kUndefined;
  int64_t saturate = 1;           // of float8 alone
  std::string round_mode = "up";  // of float8e8m0 alone
  static constexpr OpName name{"Cast"};
  static constexpr auto attrs =
      std::tuple{required("to", &Cast::to), attr("saturate", &Cast::saturate), attr("round_mode", &Cast::round_mode)};
  static constexpr Traits traits{.in = {kPlain}, .may_overwrite = 1, .elementwise = true, .strided = 1};

  Status init(const GraphNode&) const {
    if (kPlain.contains(to)) return absl::OkStatus();
    return unsupported(
        absl::StrCat("attribute 'to' is ", forethought::name(to), "; this build has ", to_string(kPlain)));
  }
  Status infer(InferCtx& c) const {
    c.set(0, to, c.shape(0));
    propagate_cast(c, to);
    c.by_formula();
    return absl::OkStatus();
  }
  StatusOr<KernelFacts> choose(const ChooseCtx& ctx) const {
    if (ctx.inputs[0].dtype == DType::kString || to == DType::kString) {
      KernelFacts facts = default_facts(name, traits, ctx);
      facts.overwrites.clear();
      return facts;
    }
    ASSIGN_OR_RETURN(KernelFacts facts,
                     choose_pointwise(ctx, name, traits, {},
                                      [&](kernels::Program& p, std::span<const int> v) { return p.cast(v[0], to); }));
    const bool as_it_lies = ctx.inputs[0].layout == ctx.outputs[0].layout && ctx.inputs[0].strides.empty();
    if (ctx.inputs[0].dtype == to && as_it_lies) facts.aliases.push_back({0, 0, 0});
    return facts;
  }
  Refit refit(const ChooseCtx& ctx, const Runnable& earlier) const { return refit_pointwise(ctx, earlier); }
  // Strings.
  Status run(RunCtx& c) const {
    const Arg& in = c.in(0);
    if (in.dtype != DType::kString)
      return kernels::cast_to_string(in.dtype, in.data, c.out_as<std::string>(0), 0, in.elements);
    if (to != DType::kString)
      return kernels::cast_from_string(to, c.in_as<std::string>(0), c.out(0).data, 0, in.elements);
    for (int64_t i = 0; i < in.elements; ++i) c.out_as<std::string>(0)[i] = c.in_as<std::string>(0)[i];
    return absl::OkStatus();
  }
  bool accepts(LayoutQuery& q) const {
    const bool text = to == DType::kString || (q.input_types[0] && q.input_types[0]->dtype() == DType::kString);
    return !text && accepts_elementwise(q);
  }
};

}  // namespace forethought
