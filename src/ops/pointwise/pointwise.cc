// Instances of pointwise operators, and their shape rules.
#include "ops/pointwise/pointwise.h"

#include <cstring>

#include "kernel_api/instance_cache.h"

namespace forethought {
namespace {
using kernels::Broadcast;
using kernels::Program;

// An operand or the output: its shape and how it lies in memory.
struct Extent {
  std::span<const int64_t> dims;
  Layout layout;
};

// Tensors that are not plain are walked in memory order, padding included: operands have the output's shape or one
// element.
StatusOr<Broadcast> map_operands(const Extent& out, std::span<const Extent> operands) {
  absl::InlinedVector<std::span<const int64_t>, 4> shapes;
  int64_t stored = 0;
  std::span<const int64_t> out_dims = out.dims;
  if (!out.layout.is_plain()) {
    stored = storage_elements(out.layout, out.dims).value_or(0);
    out_dims = {&stored, 1};
  }
  for (const Extent& e : operands) {
    const bool as_output =
        e.layout == out.layout && std::equal(e.dims.begin(), e.dims.end(), out.dims.begin(), out.dims.end());
    if (out.layout.is_plain())
      shapes.push_back(e.dims);
    else if (as_output)
      shapes.push_back(out_dims);
    else
      shapes.push_back({});
  }
  auto shape = Broadcast::from_shapes(out_dims, shapes);
  if (shape) return *std::move(shape);
  std::string text = absl::StrCat("operands do not broadcast to ", to_string(out.dims), ":");
  for (const Extent& e : operands) absl::StrAppend(&text, " ", to_string(e.dims));
  return invalid(text);
}

class PointwiseInstance final : public Runnable {
 public:
  PointwiseInstance(Program program, std::span<const Source> sources, std::optional<Broadcast> shape)
      : program_(std::move(program)), sources_(sources.begin(), sources.end()), shape_(std::move(shape)) {}

  Status run(RunCtx& c) const override {
    absl::InlinedVector<const void*, 4> data(sources_.size());
    for (size_t i = 0; i < sources_.size(); ++i)
      data[i] = sources_[i].input >= 0 ? c.in(sources_[i].input).data : sources_[i].fixed;
    if (shape_) {
      run_over(c, *shape_, data.data());
    } else {
      absl::InlinedVector<Extent, 4> operands;
      for (const Source& s : sources_)
        operands.push_back(s.input >= 0 ? Extent{c.in(s.input).dims(), c.in(s.input).layout} : Extent{});
      ASSIGN_OR_RETURN(const Broadcast shape, map_operands({c.out(0).dims(), c.out(0).layout}, operands));
      run_over(c, shape, data.data());
    }
    if (c.out(0).layout.is_blocked()) clear_channel_padding(c.out(0));
    return absl::OkStatus();
  }

 private:
  void run_over(const RunCtx& c, const Broadcast& shape, const void* const* data) const {
    void* out = c.out(0).data;
    parallel_ranges(c, shape.size(), kPointwiseGrain,
                    [&](int64_t begin, int64_t end, int) { program_.run(shape, data, out, begin, end); });
  }

  Program program_;
  absl::InlinedVector<Source, 4> sources_;
  std::optional<Broadcast> shape_;  // empty: from the run's dims
};

InstanceKey key_of(const ChooseCtx& ctx, const OpName& name, std::initializer_list<double> params) {
  InstanceKey key(name.type);
  key.add(ctx.isa);
  for (double p : params) key.add(p);
  const auto add = [&](const Operand& o) {
    key.add(o.present).add(o.dtype).add(o.layout.kind).add(o.layout.block).add(o.known).add_dims(o.dims);
  };
  for (const Operand& o : ctx.inputs) add(o);
  add(ctx.outputs[0]);
  return key;
}

}  // namespace

StatusOr<KernelFacts> choose_pointwise(const ChooseCtx& ctx, const OpName& name, const Traits& traits,
                                       std::span<const Source> sources, std::initializer_list<double> params,
                                       BuildProgram build) {
  KernelFacts facts = default_facts(name, traits, ctx);
  facts.kernel.append(".").append(forethought::name(ctx.isa));
  const auto make = [&]() -> StatusOr<std::shared_ptr<const Runnable>> {
    Program program(ctx.isa);
    absl::InlinedVector<int, 4> values;
    absl::InlinedVector<Extent, 4> operands;
    bool known = ctx.outputs[0].known;
    for (const Source& s : sources) {
      values.push_back(program.add_input(s.input >= 0 ? ctx.inputs[s.input].dtype : s.dtype));
      known = known && (s.input < 0 || ctx.inputs[s.input].known);
      operands.push_back(s.input >= 0 ? Extent{ctx.inputs[s.input].dims, ctx.inputs[s.input].layout} : Extent{});
    }
    RETURN_IF_ERROR(program.finish(build(program, values), ctx.outputs[0].dtype));
    std::optional<Broadcast> shape;
    if (known) {
      ASSIGN_OR_RETURN(shape, map_operands({ctx.outputs[0].dims, ctx.outputs[0].layout}, operands));
    }
    return std::shared_ptr<const Runnable>(
        std::make_shared<PointwiseInstance>(std::move(program), sources, std::move(shape)));
  };
  ASSIGN_OR_RETURN(facts.instance, cached_instance(ctx.cache, key_of(ctx, name, params), make));
  return facts;
}

StatusOr<KernelFacts> choose_pointwise(const ChooseCtx& ctx, const OpName& name, const Traits& traits,
                                       std::initializer_list<double> params, BuildProgram build) {
  absl::InlinedVector<Source, 4> sources;
  for (size_t i = 0; i < ctx.inputs.size(); ++i) sources.push_back(from_input(static_cast<int>(i)));
  return choose_pointwise(ctx, name, traits, sources, params, build);
}

void clear_channel_padding(const Arg& out) {
  const int64_t block = out.layout.block, channels = out.dim(1), used = channels % block;
  if (used == 0) return;
  const int64_t width = bit_width(out.dtype) / 8, blocks = channels / block + 1;
  int64_t spatial = 1;
  for (int d = 2; d < out.rank; ++d) spatial *= out.dim(d);
  for (int64_t n = 0; n < out.dim(0); ++n) {
    char* last = out.as<char>() + (n * blocks + blocks - 1) * spatial * block * width;
    for (int64_t s = 0; s < spatial; ++s)
      std::memset(last + (s * block + used) * width, 0, static_cast<size_t>((block - used) * width));
  }
}

StatusOr<SymShape> broadcast_shapes(const InferCtx& c, int inputs) {
  SymShape shape = c.shape(0);
  for (int i = 1; i < inputs; ++i) {
    auto next = broadcast(shape, c.shape(i));
    if (!next) {
      return invalid(absl::StrCat("input ", i, " of shape ", to_string(c.shape(i)), " does not broadcast with ",
                                  to_string(shape), "; dims must be equal or 1, counted from the last"));
    }
    shape = *std::move(next);
  }
  return shape;
}

Status require_one_type(const InferCtx& c, int inputs) {
  DType first = DType::kUndefined;
  for (int i = 0; i < inputs; ++i) {
    const DType d = c.dtype(i);
    if (first == DType::kUndefined) first = d;
    if (d != DType::kUndefined && d != first)
      return invalid(absl::StrCat("input ", i, " is ", name(d), " and an input before it ", name(first),
                                  "; they must have one type"));
  }
  return absl::OkStatus();
}

}  // namespace forethought
