// Steps that only the run can choose for: their shapes, kernels and instances from the inputs that have come.
#include "absl/strings/str_cat.h"
#include "base/cpu.h"
#include "graph/operator.h"
#include "session/source.h"

namespace forethought {

StatusOr<ResolvedStep> GraphSource::resolve(int32_t node, std::span<const Arg> inputs, std::span<const Arg> outputs) {
  const NodeId id{static_cast<uint32_t>(node)};
  const Graph& g = *graph_.view;
  const GraphNode& n = g.node(id);
  const PreparedNode& prepared = graph_.nodes[id.index];
  std::vector<Tensor> tensors(inputs.size());
  std::vector<ValueType> types(inputs.size());
  std::vector<SymShape> shapes(inputs.size());
  std::vector<InferInput> infer_in(inputs.size());
  std::vector<Operand> in(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].present) continue;
    in[i].present = infer_in[i].present = true;
    if (inputs[i].object) {
      const Value& object = *inputs[i].object;
      types[i] = object.sequence() ? ValueType::sequence(object.sequence()->element) : g.value(n.inputs[i]).type;
    } else {
      tensors[i] = g.is_constant(n.inputs[i]) ? *g.value(n.inputs[i]).constant : inputs[i].tensor();
      types[i] = ValueType::tensor(tensors[i].dtype);
      shapes[i] = SymShape::of(tensors[i].dims);
      in[i].strides = inputs[i].strides();
      if (in[i].strides.empty()) infer_in[i].contents = &tensors[i];
      in[i].dtype = tensors[i].dtype;
      in[i].dims = tensors[i].dims;
      in[i].layout = tensors[i].layout;
      in[i].known = true;
      if (g.is_constant(n.inputs[i]) && has_bit(prepared.kernel->contents(), i)) in[i].constant = &tensors[i];
      if (prepared.is_packed(i)) in[i].packed = &prepared.packed[i];
    }
    infer_in[i].type = &types[i];
    infer_in[i].shape = &shapes[i];
  }
  ASSIGN_OR_RETURN(const std::vector<InferOutput> inferred, infer_outputs(g, id, infer_in));
  ResolvedStep r;
  std::vector<Operand> out(outputs.size());
  r.output_dims.resize(outputs.size());
  r.output_known.resize(outputs.size());
  r.output_dtypes.resize(outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    out[i].present = outputs[i].present;
    if (!outputs[i].present || !inferred[i].type.is_tensor()) continue;
    r.output_dtypes[i] = out[i].dtype = inferred[i].type.dtype();
    out[i].layout = n.outputs[i].valid() ? g.value(n.outputs[i]).layout : Layout();
    if (const auto numbers = inferred[i].shape.numbers()) {
      r.output_dims[i] = *numbers;
      r.output_known[i] = true;
      out[i].dims = r.output_dims[i];
      out[i].known = true;
    }
  }
  ASSIGN_OR_RETURN(r.facts, prepared.kernel->choose({active_isa(), in, out, shared_.instances}));
  for (size_t i = 0; i < outputs.size(); ++i) {
    const bool sized = has_bit(r.facts.sized_at_run, i);
    if (sized) r.output_known[i] = false;
    if (out[i].present && out[i].dtype != DType::kUndefined && !out[i].known && !sized)
      return internal(absl::StrCat("the shape of output ", i, " is not known even at run"));
  }
  r.runnable = r.facts.instance ? r.facts.instance.get() : static_cast<const Runnable*>(prepared.kernel);
  return r;
}

}  // namespace forethought
