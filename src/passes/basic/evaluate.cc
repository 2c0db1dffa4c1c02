#include "passes/basic/evaluate.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/checked.h"
#include "graph/facts.h"
#include "graph/operator.h"
#include "kernel_api/kernel.h"

namespace forethought::passes {
namespace {

class FoldHost final : public RunHost {
 public:
  FoldHost(std::vector<Tensor>* outputs, std::vector<Arg>* args, int64_t limit)
      : outputs_(outputs), args_(args), limit_(limit) {}
  void parallel_for(int64_t blocks, FunctionRef<void(int64_t, int)> f) override {
    for (int64_t b = 0; b < blocks; ++b) f(b, 0);
  }
  int workers() const override { return 1; }
  StatusOr<void*> output(int slot, std::span<const int64_t> dims) override {
    Arg& a = (*args_)[slot];
    const auto bytes = storage_bytes(a.dtype, Layout(), dims);
    if (!bytes || *bytes > limit_) return exhausted("the result is larger than the budget");
    ASSIGN_OR_RETURN((*outputs_)[slot], make_tensor(a.dtype, dims));
    const Tensor& t = (*outputs_)[slot];
    a.data = t.data, a.dims_data = t.dims.data(), a.rank = static_cast<int32_t>(t.dims.size()),
    a.elements = t.elements();
    return t.data;
  }
  Status set_output(int slot, Value value) override {
    if (!value.is_tensor()) return unsupported("objects are not folded");
    (*outputs_)[slot] = value.tensor();
    return absl::OkStatus();
  }
  StatusOr<Tensor> make_escaping(DType, std::span<const int64_t>) override {
    return unsupported("objects are not folded");
  }
  StatusOr<Value> escape(int) override { return unsupported("objects are not folded"); }
  Status run_body(int, std::span<const BodyValue>, std::span<BodyValue>) override {
    return unsupported("bodies are not folded");
  }
  bool cancelled() const override { return false; }

 private:
  std::vector<Tensor>* outputs_;
  std::vector<Arg>* args_;
  int64_t limit_;
};

Arg arg_of(const Tensor& t) {
  Arg a;
  a.present = true;
  a.data = t.data, a.dims_data = t.dims.data(), a.rank = static_cast<int32_t>(t.dims.size());
  a.dtype = t.dtype, a.elements = t.elements();
  return a;
}

Operand operand_of(const Tensor& t) {
  Operand o;
  o.present = o.known = true;
  o.dtype = t.dtype, o.dims = t.dims;
  return o;
}

// At run every argument is aligned to its element; a constant in a file need not be.
StatusOr<Tensor> aligned(const Tensor& t) {
  if (t.dtype == DType::kString || reinterpret_cast<uintptr_t>(t.data) % 16 == 0) return t;
  ASSIGN_OR_RETURN(Tensor copy, make_tensor(t.dtype, t.dims));
  if (t.bytes() > 0) std::memcpy(copy.data, t.data, static_cast<size_t>(t.bytes()));
  return copy;
}

struct Packs {
  std::vector<Tensor> memory;
  std::vector<Packed> packed;
  std::vector<std::span<const std::byte>> bytes;
};

Status pack(const Kernel& kernel, Isa isa, std::span<const Tensor* const> constants, size_t outputs, Packs* packs) {
  const std::vector<Layout> in(constants.size()), out(outputs);
  ASSIGN_OR_RETURN(const std::vector<PackSpec> specs, kernel.prepare({isa, constants, in, out}));
  packs->memory.resize(constants.size());
  packs->packed.resize(constants.size());
  packs->bytes.resize(constants.size());
  for (const PackSpec& s : specs) {
    const int64_t dims[] = {static_cast<int64_t>(s.bytes)};
    ASSIGN_OR_RETURN(packs->memory[s.input], make_tensor(DType::kUint8, dims));
    const Tensor& memory = packs->memory[s.input];
    const std::span<std::byte> room(static_cast<std::byte*>(memory.data), s.bytes);
    RETURN_IF_ERROR(s.pack(*constants[s.input], room));
    packs->packed[s.input] = {room, s.format};
    packs->bytes[s.input] = room;
  }
  return absl::OkStatus();
}

}  // namespace

StatusOr<std::vector<Tensor>> evaluate(const Graph& graph, NodeId id, Isa isa, int64_t limit) {
  const GraphNode& n = graph.node(id);
  const Kernel& kernel = *n.impl->kernel();
  std::vector<Tensor> inputs(n.inputs.size());
  std::vector<const Tensor*> constants(n.inputs.size());
  std::vector<InferInput> infer_in(n.inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!n.inputs[i].valid()) continue;
    const GraphValue& v = graph.value(n.inputs[i]);
    ASSIGN_OR_RETURN(inputs[i], aligned(*v.constant));
    constants[i] = &inputs[i];
    infer_in[i] = {true, &v.type, &v.shape, &inputs[i], nullptr};
  }
  ASSIGN_OR_RETURN(const std::vector<InferOutput> inferred, infer_outputs(graph, id, infer_in));
  Packs packs;
  RETURN_IF_ERROR(pack(kernel, isa, constants, n.outputs.size(), &packs));

  std::vector<Operand> in(inputs.size()), out(n.outputs.size());
  std::vector<Dims> out_dims(out.size());
  for (size_t i = 0; i < in.size(); ++i) {
    if (!constants[i]) continue;
    in[i] = operand_of(inputs[i]);
    in[i].constant = constants[i];
    if (!packs.bytes[i].empty()) in[i].packed = &packs.packed[i];
  }
  int64_t bytes = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    if (!n.outputs[i].valid()) continue;
    if (!inferred[i].type.is_tensor()) return unsupported("objects are not folded");
    out[i].present = true;
    out[i].dtype = inferred[i].type.dtype();
    const auto numbers = inferred[i].shape.numbers();
    if (!numbers) continue;
    const auto size = storage_bytes(out[i].dtype, Layout(), *numbers);
    const auto sum = size ? checked_add(bytes, *size) : std::nullopt;
    if (!sum || *sum > limit)
      return exhausted(absl::StrCat("the result ", to_string(*numbers), " of ", name(out[i].dtype),
                                    " is larger than the ", limit, " bytes that folding may still add"));
    bytes = *sum;
    out_dims[i] = *numbers;
    out[i].dims = out_dims[i];
    out[i].known = true;
  }
  ASSIGN_OR_RETURN(const KernelFacts facts, kernel.choose({isa, in, out, nullptr}));
  const size_t shared = round_up(facts.scratch_shared, 64), each = round_up(facts.scratch_per_worker, 64);
  if (shared + each > (size_t{256} << 20)) return exhausted("it needs more than 256 MB of scratch");

  std::vector<Tensor> outputs(out.size());
  std::vector<Arg> in_args(in.size()), out_args(out.size());
  for (size_t i = 0; i < in.size(); ++i)
    if (constants[i]) in_args[i] = arg_of(inputs[i]);
  for (size_t i = 0; i < out.size(); ++i) {
    if (!out[i].present) continue;
    if (out[i].known && !has_bit(facts.sized_at_run, i)) {
      ASSIGN_OR_RETURN(outputs[i], make_tensor(out[i].dtype, out[i].dims));
      out_args[i] = arg_of(outputs[i]);
    } else {
      out_args[i].present = true;
      out_args[i].dtype = out[i].dtype;
    }
  }
  const int64_t scratch_dims[] = {static_cast<int64_t>(shared + each)};
  ASSIGN_OR_RETURN(const Tensor scratch, make_tensor(DType::kUint8, scratch_dims));
  FoldHost host(&outputs, &out_args, limit);
  RunCtx ctx;
  ctx.inputs = in_args;
  ctx.outputs = out_args;
  ctx.packed = packs.bytes;
  ctx.scratch_data = static_cast<std::byte*>(scratch.data);
  ctx.scratch_shared = shared;
  ctx.scratch_per_worker = each;
  ctx.host = &host;
  const Runnable& runnable = facts.instance ? *facts.instance : static_cast<const Runnable&>(kernel);
  RETURN_IF_ERROR(runnable.run(ctx));
  return outputs;
}

}  // namespace forethought::passes
