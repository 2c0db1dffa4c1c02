// What the pointwise operators share: a program of tile functions as the instance of a node, and broadcasting shape
// rules.
#pragma once

#include <initializer_list>
#include <span>

#include "base/function_ref.h"
#include "kernels/pointwise/program.h"
#include "ops/op.h"

namespace forethought {

// Where an operand of a program comes from: an input of the node, or one fixed element that lives as long as the
// process.
struct Source {
  int input = -1;
  const void* fixed = nullptr;
  DType dtype = DType::kUndefined;  // of the fixed element
};
constexpr Source from_input(int i) { return {i, nullptr, DType::kUndefined}; }

// Makes the steps of a program over the values that stand for its sources; returns the value that is the result.
using BuildProgram = FunctionRef<int(kernels::Program&, std::span<const int> values)>;

// default_facts() with an instance that runs the program over the broadcast operands, in blocks of fixed size. `params`
// tells instances apart that differ in attributes. Sizes that are not known yet are taken from the run. All tensors
// plain, or all operands in the output's layout with its shape or of a single element. Inputs may be strided views.
StatusOr<KernelFacts> choose_pointwise(const ChooseCtx& ctx, const OpName& name, const Traits& traits,
                                       std::span<const Source> sources, std::initializer_list<double> params,
                                       BuildProgram build);
// The same with every input as it comes.
StatusOr<KernelFacts> choose_pointwise(const ChooseCtx& ctx, const OpName& name, const Traits& traits,
                                       std::initializer_list<double> params, BuildProgram build);

// For what choose_pointwise() chose.
Refit refit_pointwise(const ChooseCtx& ctx, const Runnable& earlier);

// Elements of output that one block of a pointwise operator computes.
constexpr int64_t kPointwiseGrain = 32768;

// The layouts of an operator that broadcasts: all plain; or one other layout for every operand of the output's rank
// that has its channels (other dims may be 1); operands of one element stay plain, and so do constants with one element
// for each channel, which pack_channels() brings into blocked form.
bool accepts_broadcast(LayoutQuery& q);
StatusOr<std::vector<PackSpec>> pack_channels(const PrepareCtx& ctx);
struct BroadcastLayouts {
  Refit refit(const ChooseCtx& ctx, const Runnable& earlier) const { return refit_pointwise(ctx, earlier); }
  bool accepts(LayoutQuery& q) const { return accepts_broadcast(q); }
  StatusOr<std::vector<PackSpec>> prepare(const PrepareCtx& ctx) const { return pack_channels(ctx); }
};

// Zeroes the channels beyond C of a blocked tensor, as its layout demands.
void clear_channel_padding(const Arg& out);

// The shape to which inputs [0, inputs) broadcast; an error names the two that do not.
StatusOr<SymShape> broadcast_shapes(const InferCtx& c, int inputs);
// Error unless inputs [0, inputs) that are there have one element type.
Status require_one_type(const InferCtx& c, int inputs);

constexpr Traits unary_traits(TypeSet types) {
  return {.in = {types}, .may_overwrite = 1, .elementwise = true, .strided = 1};
}
constexpr Traits binary_traits(TypeSet types) {
  return {
      .min_inputs = 2, .max_inputs = 2, .in = {types, types}, .may_overwrite = 3, .elementwise = true, .strided = 3};
}

// An operator of one input that keeps shape and type. S has name and traits, and params() where it has attributes.
template <typename S, kernels::PointwiseOp kOp>
struct Unary {
  static constexpr auto attrs = std::tuple{};
  kernels::TileParams params() const { return {}; }

  Status infer(InferCtx& c) const {
    c.set(0, c.dtype(0), c.shape(0));
    c.by_formula();
    return absl::OkStatus();
  }
  StatusOr<KernelFacts> choose(const ChooseCtx& ctx) const {
    const kernels::TileParams p = static_cast<const S*>(this)->params();
    return choose_pointwise(
        ctx, S::name, S::traits, {p.alpha, p.beta},
        [&](kernels::Program& program, std::span<const int> v) { return program.apply(kOp, {v[0]}, p); });
  }
  Refit refit(const ChooseCtx& ctx, const Runnable& earlier) const { return refit_pointwise(ctx, earlier); }
};

}  // namespace forethought
