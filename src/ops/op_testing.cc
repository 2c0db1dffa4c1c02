#include "ops/op_testing.h"

#include <cstring>

#include "base/checked.h"
#include "kernel_api/instance_cache.h"

namespace forethought {
namespace {

// Executes a step on the calling thread; blocks run backwards, so that an order nobody promised shows up.
class TestHost final : public RunHost {
 public:
  TestHost(int workers, std::vector<Value>* outputs, std::vector<Arg>* args, const OpCase& c)
      : workers_(workers), outputs_(outputs), args_(args), case_(c) {}
  void parallel_for(int64_t blocks, FunctionRef<void(int64_t, int)> f) override {
    for (int64_t b = blocks; b-- > 0;) f(b, static_cast<int>(b % workers_));
  }
  int workers() const override { return workers_; }
  StatusOr<void*> output(int slot, std::span<const int64_t> dims) override {
    ASSIGN_OR_RETURN(Tensor t, make_tensor((*args_)[slot].dtype, dims));
    (*outputs_)[slot] = t;
    Tensor& kept = (*outputs_)[slot].tensor();
    Arg& a = (*args_)[slot];
    a.data = kept.data;
    a.dims_data = kept.dims.data();
    a.rank = static_cast<int32_t>(kept.dims.size());
    a.elements = kept.elements();
    return kept.data;
  }
  Status set_output(int slot, Value value) override {
    (*outputs_)[slot] = std::move(value);
    return absl::OkStatus();
  }
  StatusOr<Tensor> make_escaping(DType dtype, std::span<const int64_t> dims) override {
    return make_tensor(dtype, dims);
  }
  StatusOr<Value> escape(int slot) override { return case_.inputs[slot]; }
  Status run_body(int, std::span<const BodyValue>, std::span<BodyValue>) override {
    return unsupported("run_case has no bodies; test control flow through a session");
  }
  bool cancelled() const override { return false; }

 private:
  int workers_;
  std::vector<Value>* outputs_;
  std::vector<Arg>* args_;
  const OpCase& case_;
};

Arg arg_of(Value& v) {
  Arg a;
  if (v.is_none()) return a;
  a.present = true;
  if (!v.is_tensor()) {
    a.object = &v;
    return a;
  }
  Tensor& t = v.tensor();
  a.data = t.data;
  a.dims_data = t.dims.data();
  a.rank = static_cast<int32_t>(t.dims.size());
  a.elements = t.elements();
  a.dtype = t.dtype;
  a.layout = t.layout;
  if (!t.strides.empty()) a.strides_data = t.strides.data();
  return a;
}

Operand operand_of(const Value& v, bool constant) {
  Operand o;
  o.present = !v.is_none();
  if (!v.is_tensor()) return o;
  const Tensor& t = v.tensor();
  o.dtype = t.dtype;
  o.dims = t.dims;
  o.layout = t.layout;
  o.strides = t.strides;
  o.known = true;
  if (constant) o.constant = &t;
  return o;
}

// Steps from one element to the next, from the last dim on; calls f(elements behind the first) for each.
template <typename F>
void for_each_place(std::span<const int64_t> dims, std::span<const int64_t> strides, int64_t at, F&& f) {
  if (dims.empty()) return f(at);
  for (int64_t i = 0; i < dims[0]; ++i) for_each_place(dims.subspan(1), strides.subspan(1), at + i * strides[0], f);
}

// Memory for a tensor that lies in these steps, all of it of other bytes than the tensor's will be.
StatusOr<Tensor> make_strided(const Tensor& like, std::span<const int64_t> strides) {
  int64_t low = 0, high = 0;
  for_each_place(like.dims, strides, 0, [&](int64_t at) { low = std::min(low, at), high = std::max(high, at); });
  const int64_t span[] = {high - low + 1};
  ASSIGN_OR_RETURN(Tensor t, make_tensor(like.dtype, span));
  std::memset(t.data, 0xA5, static_cast<size_t>(t.bytes()));
  t.data = static_cast<std::byte*>(t.data) - low * bit_width(like.dtype) / 8;
  t.dims = like.dims;
  t.strides.assign(strides.begin(), strides.end());
  return t;
}

ValueType type_of(const Value& v) {
  if (v.is_tensor()) return ValueType::tensor(v.tensor().dtype);
  if (v.sequence()) return ValueType::sequence(v.sequence()->element);
  return {};
}

class OutputNames final : public DataNames {
 public:
  std::string name(int out) const override { return absl::StrCat("out", out); }
  uint64_t id(int out) const override { return static_cast<uint64_t>(out); }
};

// Infers with the dims of each input replaced by symbols and without contents.
StatusOr<std::vector<InferOutput>> infer_symbolic(const Operator& op, const OpCase& c) {
  std::vector<ValueType> types;
  std::vector<SymShape> shapes;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    types.push_back(type_of(c.inputs[i]));
    SymShape s;
    if (c.inputs[i].is_tensor()) {
      s.has_rank = true;
      for (int64_t d : c.inputs[i].tensor().dims) s.dims.push_back(Dim::symbol(absl::StrCat("d", d)));
    }
    shapes.push_back(s);
  }
  std::vector<InferInput> in;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    const bool constant = has_bit(c.constants, i);
    in.push_back({!c.inputs[i].is_none(), &types[i], &shapes[i], constant ? &c.inputs[i].tensor() : nullptr, nullptr});
  }
  std::vector<InferOutput> out(c.outputs);
  for (auto& o : out) o.wanted = true;
  const OutputNames names;
  InferCtx ctx(in, out, nullptr, &names);
  RETURN_IF_ERROR(op.infer(ctx));
  return out;
}

Status check_symbolic(const std::vector<InferOutput>& symbolic, const std::vector<Value>& outputs) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].is_tensor() || !symbolic[i].shape.has_rank) continue;
    const Dims& real = outputs[i].tensor().dims;
    const SymShape& s = symbolic[i].shape;
    bool ok = s.dims.size() == real.size();
    for (size_t d = 0; ok && d < real.size(); ++d) {
      const auto number = [](std::string_view n) -> std::optional<int64_t> {
        return n.size() > 1 && n[0] == 'd' ? std::optional<int64_t>(std::atoll(std::string(n.substr(1)).c_str()))
                                           : std::nullopt;
      };
      const Dim v = s.dims[d].substitute(number), most = upper_bound(s.dims[d]).substitute(number);
      ok = (!v.is_known() || v.value() == real[d]) && (!most.is_known() || most.value() >= real[d]);
    }
    if (!ok)
      return internal(
          absl::StrCat("inference on symbols says ", to_string(s), " for output ", i, ", the run ", to_string(real)));
  }
  return absl::OkStatus();
}

}  // namespace

StatusOr<Tensor> row_major(const Tensor& from) {
  ASSIGN_OR_RETURN(Tensor to, make_tensor(from.dtype, from.dims));
  const int64_t width = bit_width(from.dtype) / 8;
  auto* out = static_cast<std::byte*>(to.data);
  for_each_place(from.dims, from.strides, 0, [&](int64_t at) {
    std::memcpy(out, static_cast<const std::byte*>(from.data) + at * width, static_cast<size_t>(width));
    out += width;
  });
  return to;
}

StatusOr<Tensor> in_steps(const Tensor& from, std::span<const int64_t> strides) {
  ASSIGN_OR_RETURN(Tensor to, make_strided(from, strides));
  const int64_t width = bit_width(from.dtype) / 8;
  const auto* in = static_cast<const std::byte*>(from.data);
  for_each_place(from.dims, strides, 0, [&](int64_t at) {
    std::memcpy(static_cast<std::byte*>(to.data) + at * width, in, static_cast<size_t>(width));
    in += width;
  });
  return to;
}

Attributes attributes(std::vector<std::pair<std::string, AttributeValue>> items) {
  Attributes a;
  for (auto& [name, value] : items) a.set(name, std::move(value));
  return a;
}

StatusOr<OpOutcome> run_case(const OpCase& c) {
  // A graph of one node, so that arity, attributes and types are checked as in a session.
  Graph graph;
  std::vector<ValueId> in_ids, out_ids;
  std::vector<ValueType> types;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    types.push_back(type_of(c.inputs[i]));
    in_ids.push_back(c.inputs[i].is_none() ? ValueId{} : graph.add_input(absl::StrCat("in", i), types.back(), {}));
  }
  for (int i = 0; i < c.outputs; ++i) out_ids.push_back(graph.add_value(absl::StrCat("out", i)));
  GraphNode& node = graph.node(graph.add_node({c.domain, c.op, 1}, c.op, in_ids, out_ids, c.attributes));
  ASSIGN_OR_RETURN(std::shared_ptr<const Operator> op, operator_library().bind(node));
  node.impl = op;
  RETURN_IF_ERROR(operator_library().supports(graph, node));

  std::vector<Value> inputs = c.inputs;
  std::vector<SymShape> shapes(inputs.size());
  std::vector<InferInput> infer_in;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].is_tensor()) {
      shapes[i] = SymShape::of(inputs[i].tensor().dims);
      if (i < c.input_layouts.size()) inputs[i].tensor().layout = c.input_layouts[i];
    }
    infer_in.push_back({!inputs[i].is_none(), &types[i], &shapes[i],
                        inputs[i].is_tensor() && inputs[i].tensor().strides.empty() ? &inputs[i].tensor() : nullptr,
                        nullptr});
  }
  std::vector<InferOutput> inferred(c.outputs);
  for (auto& o : inferred) o.wanted = true;
  InferCtx infer(infer_in, inferred);
  RETURN_IF_ERROR(op->infer(infer));
  ASSIGN_OR_RETURN(const std::vector<InferOutput> symbolic, infer_symbolic(*op, c));

  const Kernel& kernel = *op->kernel();
  const Isa isa = active_isa();
  std::vector<const Tensor*> constants;
  std::vector<Layout> in_layouts, out_layouts(c.outputs);
  for (size_t i = 0; i < inputs.size(); ++i) {
    constants.push_back(has_bit(c.constants, i) && inputs[i].is_tensor() ? &inputs[i].tensor() : nullptr);
    in_layouts.push_back(inputs[i].is_tensor() ? inputs[i].tensor().layout : Layout());
  }
  for (size_t i = 0; i < c.output_layouts.size(); ++i) out_layouts[i] = c.output_layouts[i];
  ASSIGN_OR_RETURN(const std::vector<PackSpec> specs, kernel.prepare({isa, constants, in_layouts, out_layouts}));
  std::vector<Tensor> packs(inputs.size());
  std::vector<Packed> packed(inputs.size());
  std::vector<std::span<const std::byte>> packed_bytes(inputs.size());
  for (const PackSpec& s : specs) {
    const int64_t bytes[] = {static_cast<int64_t>(s.bytes)};
    ASSIGN_OR_RETURN(packs[s.input], make_tensor(DType::kUint8, bytes));
    std::span<std::byte> room(static_cast<std::byte*>(packs[s.input].data), s.bytes);
    RETURN_IF_ERROR(s.pack(inputs[s.input].tensor(), room));
    packed[s.input] = {room, s.format};
    packed_bytes[s.input] = room;
  }

  std::vector<Operand> in_operands, out_operands;
  for (size_t i = 0; i < inputs.size(); ++i) {
    in_operands.push_back(operand_of(inputs[i], has_bit(c.constants, i)));
    if (!packed_bytes[i].empty()) in_operands.back().packed = &packed[i];
  }
  std::vector<Value> outputs(c.outputs);
  std::vector<Dims> out_dims(c.outputs);
  for (int i = 0; i < c.outputs; ++i) {
    Operand o;
    o.present = true;
    o.layout = out_layouts[i];
    o.may_stride = c.views;
    if (inferred[i].type.is_tensor()) {
      o.dtype = inferred[i].type.dtype();
      if (auto n = inferred[i].shape.numbers(); n && !c.sized_late) {
        o.known = true;
        out_dims[i].assign(n->begin(), n->end());
        o.dims = out_dims[i];
      }
    }
    out_operands.push_back(o);
  }
  InstanceCache cache;
  OpOutcome outcome;
  ASSIGN_OR_RETURN(outcome.facts, kernel.choose({isa, in_operands, out_operands, &cache}));
  const KernelFacts& facts = outcome.facts;

  for (int i = 0; i < c.outputs; ++i) {
    if (!out_operands[i].known) continue;
    const auto room = storage_elements(out_layouts[i], out_dims[i]);
    if (!room) return invalid("the output has no representable size");
    const int64_t flat[] = {*room};
    ASSIGN_OR_RETURN(Tensor t, make_tensor(out_operands[i].dtype, flat));
    if (out_operands[i].dtype != DType::kString) std::memset(t.data, 0xA5, static_cast<size_t>(t.bytes()));
    t.dims.assign(out_dims[i].begin(), out_dims[i].end());
    t.layout = out_layouts[i];
    outputs[i] = std::move(t);
  }
  for (const Alias& a : facts.aliases) {
    if (!a.strided) continue;
    Tensor& t = outputs[a.out].tensor();
    ASSIGN_OR_RETURN(t, make_strided(t, facts.instance->strides(a.out)));
  }
  if (c.share) {
    for (const Alias& a : facts.aliases) {
      outputs[a.out].tensor().data = static_cast<std::byte*>(inputs[a.in].tensor().data) + a.byte_offset;
      outputs[a.out].tensor().owner = inputs[a.in].tensor().owner;
    }
    for (const Window& w : facts.windows) {
      Tensor& from = inputs[w.in].tensor();
      std::byte* inside = static_cast<std::byte*>(outputs[w.out].tensor().data) + w.byte_offset;
      std::memcpy(inside, from.data, static_cast<size_t>(from.bytes()));
      from.data = inside;
    }
    if (!facts.overwrites.empty()) {
      const Overwrite w = facts.overwrites.front();
      const Tensor& from = inputs[w.in].tensor();
      std::memcpy(outputs[w.out].tensor().data, from.data, static_cast<size_t>(from.bytes()));
      inputs[w.in].tensor().data = outputs[w.out].tensor().data;
    }
  }
  std::vector<Arg> in_args, out_args;
  for (Value& v : inputs) in_args.push_back(arg_of(v));
  for (const PackSpec& s : specs)
    if (!s.keeps_original) in_args[s.input].data = nullptr;  // as in a session, which keeps the packed form alone
  for (int i = 0; i < c.outputs; ++i) {
    Arg a = arg_of(outputs[i]);
    a.present = true;
    a.dtype = out_operands[i].dtype;
    a.layout = out_layouts[i];
    if (!outputs[i].is_tensor()) a.object = &outputs[i];
    out_args.push_back(a);
  }
  const size_t shared = round_up(facts.scratch_shared, 64), each = round_up(facts.scratch_per_worker, 64);
  const int64_t scratch_bytes[] = {static_cast<int64_t>(shared + each * c.workers)};
  ASSIGN_OR_RETURN(Tensor scratch, make_tensor(DType::kUint8, scratch_bytes));
  TestHost host(c.workers, &outputs, &out_args, c);
  RunCtx ctx;
  ctx.inputs = in_args;
  ctx.outputs = out_args;
  ctx.packed = packed_bytes;
  ctx.scratch_data = static_cast<std::byte*>(scratch.data);
  ctx.scratch_shared = shared;
  ctx.scratch_per_worker = each;
  ctx.host = &host;
  const Runnable& runnable = facts.instance ? *facts.instance : static_cast<const Runnable&>(kernel);
  RETURN_IF_ERROR(runnable.run(ctx));
  RETURN_IF_ERROR(check_symbolic(symbolic, outputs));
  for (Value& v : outputs) {
    if (!v.is_tensor() || v.tensor().strides.empty()) continue;
    ASSIGN_OR_RETURN(v, row_major(v.tensor()));
  }
  outcome.outputs = std::move(outputs);
  return outcome;
}

}  // namespace forethought
