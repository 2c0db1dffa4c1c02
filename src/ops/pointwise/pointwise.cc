// Instances of pointwise operators, and their shape rules.
#include "ops/pointwise/pointwise.h"

#include <cstring>

#include "base/checked.h"
#include "kernel_api/instance_cache.h"

namespace forethought {
namespace {
using kernels::Broadcast;
using kernels::Program;

// An operand or the output: its shape and how it lies in memory.
struct Extent {
  std::span<const int64_t> dims;
  Layout layout;
  bool packed = false;               // a vector of channels in the output's layout (pack_channels)
  std::span<const int64_t> strides;  // of a strided view; empty: none
};

int64_t product(std::span<const int64_t> dims) { return element_count(dims).value_or(0); }

// The dims of a tensor as it lies in memory, from N, C and spatial dims.
Dims memory_dims(Layout layout, std::span<const int64_t> dims) {
  if (layout.is_plain() || dims.size() < 2) return Dims(dims.begin(), dims.end());
  Dims m{dims[0]};
  if (layout.is_blocked()) m.push_back((dims[1] + layout.block - 1) / layout.block);
  m.insert(m.end(), dims.begin() + 2, dims.end());
  m.push_back(layout.is_blocked() ? layout.block : dims[1]);
  return m;
}

StatusOr<Broadcast> map_operands(const Extent& out, std::span<const Extent> operands) {
  absl::InlinedVector<std::span<const int64_t>, 4> shapes;
  std::optional<Broadcast> shape;
  if (out.layout.is_plain()) {
    absl::InlinedVector<std::span<const int64_t>, 4> strides;
    for (const Extent& e : operands) {
      shapes.push_back(e.layout.is_plain() ? e.dims : std::span<const int64_t>());
      strides.push_back(e.strides);
    }
    shape = Broadcast::from_shapes(out.dims, shapes, strides);
  } else {
    absl::InlinedVector<Dims, 4> dims;
    const Dims target = memory_dims(out.layout, out.dims);
    for (const Extent& e : operands) {
      if (e.packed || (e.layout.is_plain() && product(e.dims) != 1)) {
        // One element for each channel.
        Dims channels(target.size(), 1);
        channels.back() = target.back();
        if (out.layout.is_blocked()) channels[1] = target[1];
        dims.push_back(std::move(channels));
      } else if (e.layout == out.layout) {
        dims.push_back(memory_dims(e.layout, e.dims));
      } else {
        dims.push_back({});
      }
    }
    shapes.assign(dims.begin(), dims.end());
    shape = Broadcast::from_shapes(target, shapes);
  }
  if (shape) return *std::move(shape);
  std::string text = absl::StrCat("operands do not broadcast to ", to_string(out.dims), ":");
  for (const Extent& e : operands) absl::StrAppend(&text, " ", to_string(e.dims));
  return invalid(text);
}

// How the sources of a program lie to its output; nothing where sizes are known at run only.
std::optional<StatusOr<Broadcast>> shape_for(std::span<const Source> sources, const ChooseCtx& ctx) {
  if (!ctx.outputs[0].known) return std::nullopt;
  absl::InlinedVector<Extent, 4> operands;
  for (const Source& s : sources) {
    const Operand* o = s.input >= 0 ? &ctx.inputs[s.input] : nullptr;
    if (o && !o->known) return std::nullopt;
    operands.push_back(o ? Extent{o->dims, o->layout, o->packed != nullptr, o->strides} : Extent{});
  }
  return map_operands({ctx.outputs[0].dims, ctx.outputs[0].layout, false, {}}, operands);
}

// A program over sources of any shape, which every node with such operands shares. Runs where sizes are known only
// then.
class PointwiseProgram final : public Runnable {
 public:
  PointwiseProgram(Program program, std::span<const Source> sources)
      : program_(std::move(program)), sources_(sources.begin(), sources.end()) {}

  Status run(RunCtx& c) const override {
    absl::InlinedVector<Extent, 4> operands;
    for (const Source& s : sources_)
      operands.push_back(
          s.input >= 0 ? Extent{c.in(s.input).dims(), c.in(s.input).layout, packed(c, s.input), c.in(s.input).strides()}
                       : Extent{});
    ASSIGN_OR_RETURN(const Broadcast shape, map_operands({c.out(0).dims(), c.out(0).layout, false, {}}, operands));
    run_over(c, shape);
    return absl::OkStatus();
  }

  std::span<const Source> sources() const { return sources_; }

  void run_over(const RunCtx& c, const Broadcast& shape) const {
    absl::InlinedVector<const void*, 4> data(sources_.size());
    for (size_t i = 0; i < sources_.size(); ++i) data[i] = address(c, sources_[i]);
    void* out = c.out(0).data;
    parallel_ranges(c, shape.size(), kPointwiseGrain,
                    [&](int64_t begin, int64_t end, int) { program_.run(shape, data.data(), out, begin, end); });
    if (c.out(0).layout.is_blocked()) clear_channel_padding(c.out(0));
  }

 private:
  static bool packed(const RunCtx& c, int input) {
    return static_cast<size_t>(input) < c.packed.size() && !c.packed[input].empty();
  }
  static const void* address(const RunCtx& c, const Source& s) {
    if (s.input < 0) return s.fixed;
    return packed(c, s.input) ? c.packed[s.input].data() : c.in(s.input).data;
  }

  Program program_;
  absl::InlinedVector<Source, 4> sources_;
};

// A program for operands of known shapes.
class PointwiseInstance final : public Runnable {
 public:
  PointwiseInstance(std::shared_ptr<const PointwiseProgram> program, uint32_t may_overwrite, uint32_t overwrites,
                    Broadcast shape)
      : program_(std::move(program)),
        may_overwrite_(may_overwrite),
        overwrites_(overwrites),
        shape_(std::move(shape)) {}

  Status run(RunCtx& c) const override {
    program_->run_over(c, shape_);
    return absl::OkStatus();
  }

  // Null where other inputs may be overwritten now, or something else is new.
  std::shared_ptr<const Runnable> refit(const ChooseCtx& ctx) const {
    if (overwritable(may_overwrite_, ctx) != overwrites_) return nullptr;
    std::optional<StatusOr<Broadcast>> shape = shape_for(program_->sources(), ctx);
    if (!shape || !shape->ok()) return nullptr;
    return std::make_shared<PointwiseInstance>(program_, may_overwrite_, overwrites_, *std::move(*shape));
  }

 private:
  std::shared_ptr<const PointwiseProgram> program_;
  uint32_t may_overwrite_, overwrites_;  // a bit an input: by the operator, and by it and the shapes
  Broadcast shape_;
};

InstanceKey key_of(const ChooseCtx& ctx, const OpName& name, std::initializer_list<double> params) {
  InstanceKey key(name.type);
  key.add(ctx.isa);
  for (double p : params) key.add(p);
  const auto add = [&](const Operand& o) {
    key.add(o.present).add(o.packed != nullptr).add(o.dtype).add(o.layout.kind).add(o.layout.block);
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
    for (const Source& s : sources)
      values.push_back(program.add_input(s.input >= 0 ? ctx.inputs[s.input].dtype : s.dtype));
    RETURN_IF_ERROR(program.finish(build(program, values), ctx.outputs[0].dtype));
    return std::shared_ptr<const Runnable>(std::make_shared<PointwiseProgram>(std::move(program), sources));
  };
  ASSIGN_OR_RETURN(facts.instance,
                   cached_instance(ctx.cache, key_of(ctx, name, params), sizeof(PointwiseProgram), make));
  std::optional<StatusOr<Broadcast>> shape = shape_for(sources, ctx);
  if (!shape) return facts;
  RETURN_IF_ERROR(shape->status());
  facts.instance = std::make_shared<PointwiseInstance>(
      std::static_pointer_cast<const PointwiseProgram>(std::move(facts.instance)), traits.may_overwrite,
      overwritable(traits.may_overwrite, ctx), *std::move(*shape));
  return facts;
}

Refit refit_pointwise(const ChooseCtx& ctx, const Runnable& earlier) {
  const auto* instance = instance_cast<PointwiseInstance>(earlier);
  return instance ? Refit::with(instance->refit(ctx)) : Refit();
}

StatusOr<KernelFacts> choose_pointwise(const ChooseCtx& ctx, const OpName& name, const Traits& traits,
                                       std::initializer_list<double> params, BuildProgram build) {
  absl::InlinedVector<Source, 4> sources;
  for (size_t i = 0; i < ctx.inputs.size(); ++i) sources.push_back(from_input(static_cast<int>(i)));
  return choose_pointwise(ctx, name, traits, sources, params, build);
}

namespace {
// Whether a shape, counted from the last dim, is one element for each of the channels of `out`.
bool is_channel_vector(const SymShape& shape, const SymShape& out) {
  if (!shape.has_rank || !out.has_rank || shape.rank() > out.rank() || out.rank() < 2) return false;
  const int lead = out.rank() - shape.rank();
  if (lead > 1) return false;  // reaches no channels
  for (int d = 0; d < shape.rank(); ++d)
    if (d + lead == 1 ? !shape.dims[d].same(out.dims[1]) : !(shape.dims[d] == 1)) return false;
  return true;
}

bool has_channels_of(const SymShape& shape, const SymShape& out) {
  if (!shape.has_rank || !out.has_rank || shape.rank() != out.rank() || out.rank() < 2) return false;
  for (int d = 0; d < out.rank(); ++d)
    if (!shape.dims[d].same(out.dims[d]) && (d == 1 || !(shape.dims[d] == 1))) return false;
  return true;
}
// The longest of the inputs' dims, counted from the last, if data decide one of them; else unknown.
Dim longest(const InferCtx& c, int inputs, int from_last) {
  Dim most = 0;
  bool data = false;
  for (int i = 0; i < inputs; ++i) {
    const SymShape& s = c.shape(i);
    if (s.rank() < from_last) continue;
    const Dim& d = s.dims[static_cast<size_t>(s.rank() - from_last)];
    data |= d.depends_on_data();
    most = max(most, d);
  }
  return data ? most : Dim::unknown();
}

}  // namespace

bool accepts_broadcast(LayoutQuery& q) {
  Layout common;
  for (const Layout& l : q.inputs)
    if (!l.is_plain()) common = l;
  const SymShape& out = *q.output_shapes[0];
  for (size_t i = 0; i < q.inputs.size(); ++i) {
    if (!q.input_types[i]) continue;  // absent
    if (q.input_types[i]->dtype() == DType::kString) return false;
    const SymShape& shape = *q.input_shapes[i];
    if (q.inputs[i].is_plain() && !common.is_plain()) {
      if (shape.elements() == 1) continue;
      if (!q.constants[i] || !is_channel_vector(shape, out)) return false;
    } else if (q.inputs[i] != common || (!common.is_plain() && !has_channels_of(shape, out))) {
      return false;
    }
  }
  q.outputs[0] = common;
  return true;
}

StatusOr<std::vector<PackSpec>> pack_channels(const PrepareCtx& ctx) {
  std::vector<PackSpec> specs;
  const Layout layout = ctx.output_layouts[0];
  if (!layout.is_blocked()) return specs;
  for (size_t i = 0; i < ctx.constants.size(); ++i) {
    const Tensor* t = ctx.constants[i];
    if (t == nullptr || !ctx.input_layouts[i].is_plain() || t->elements() == 1 || t->dtype == DType::kString) continue;
    const size_t bytes = static_cast<size_t>(t->bytes()), width = static_cast<size_t>(bit_width(t->dtype) / 8);
    PackSpec s;
    s.input = static_cast<int>(i);
    s.format = absl::StrCat("channels.", to_string(layout), ".", width);
    s.bytes = round_up(static_cast<size_t>(t->elements()), layout.block) * width;
    s.pack = [bytes](const Tensor& constant, std::span<std::byte> packed) {
      std::memcpy(packed.data(), constant.data, bytes);
      std::memset(packed.data() + bytes, 0, packed.size() - bytes);
      return absl::OkStatus();
    };
    s.needed = true;  // the last block reads beyond the constant
    specs.push_back(std::move(s));
  }
  return specs;
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
    auto next = c.broadcast(shape, c.shape(i));
    if (!next) {
      return invalid(absl::StrCat("input ", i, " of shape ", to_string(c.shape(i)), " does not broadcast with ",
                                  to_string(shape), "; dims must be equal or 1, counted from the last"));
    }
    shape = *std::move(next);
  }
  for (int d = 0; d < shape.rank(); ++d)
    if (shape.dims[d].is_unknown()) shape.dims[d] = c.data_dim(0, d, longest(c, inputs, shape.rank() - d));
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
