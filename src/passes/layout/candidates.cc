#include "passes/layout/candidates.h"

#include <algorithm>

#include "kernel_api/facts.h"

namespace forethought::passes {
namespace {

// Guesses for what only a run tells: they decide about speed alone.
constexpr int64_t kBatch = 1, kExtent = 64, kSymbol = 256;

constexpr double kElementwise = 1;  // cost of running on one element more

bool is_conv(const GraphNode& n) {
  return n.op.is("Conv") || (n.op.domain == kInternalDomain && n.op.type == "FusedConv");
}

// Asks the operator about the inputs in `mask` blocked and the others plain.
bool ask(const Graph& graph, const GraphNode& n, uint32_t mask, uint8_t block, Form* form) {
  static const SymShape kNoShape;
  const size_t inputs = n.inputs.size(), outputs = n.outputs.size();
  absl::InlinedVector<const SymShape*, 6> in_shapes(inputs, nullptr), out_shapes(outputs, nullptr);
  absl::InlinedVector<const ValueType*, 6> in_types(inputs, nullptr);
  absl::InlinedVector<const Tensor*, 6> constants(inputs, nullptr);
  form->inputs.assign(inputs, Layout());
  form->outputs.assign(outputs, Layout());
  for (size_t i = 0; i < inputs; ++i) {
    if (!n.inputs[i].valid()) continue;
    const GraphValue& v = graph.value(n.inputs[i]);
    in_shapes[i] = &v.shape, in_types[i] = &v.type;
    if (v.constant) constants[i] = &*v.constant;
    if (has_bit(mask, i)) form->inputs[i] = Layout::blocked(block);
  }
  for (size_t i = 0; i < outputs; ++i)
    if (n.outputs[i].valid()) out_shapes[i] = &graph.value(n.outputs[i]).shape;
  LayoutQuery q;
  q.input_shapes = {in_shapes.data(), inputs};
  q.output_shapes = {out_shapes.data(), outputs};
  q.input_types = {in_types.data(), inputs};
  q.constants = {constants.data(), inputs};
  q.inputs = {form->inputs.data(), inputs};
  q.outputs = {form->outputs.data(), outputs};
  q.block = block;
  if (!n.impl->accepts(q)) return false;
  for (size_t i = 0; i < outputs; ++i) {
    if (!n.outputs[i].valid() || form->outputs[i].is_plain()) continue;
    if (form->outputs[i] != Layout::blocked(block) || !can_be_blocked(graph.value(n.outputs[i]))) return false;
  }
  form->blocked = true;
  return true;
}

// A convolution on plain images copies them to blocks inside, and its result back.
void add_conv_forms(const Graph& graph, const GraphNode& n, uint8_t block, std::vector<Form>* forms) {
  const uint32_t residual = n.inputs.size() > 3 && n.inputs[3].valid() ? 8u : 0u;
  if (residual && !can_be_blocked(graph.value(n.inputs[3]))) return;
  const double in = reorder_cost(graph.value(n.inputs[0]), block), out = reorder_cost(graph.value(n.outputs[0]), block);
  Form blocked, mixed;
  const bool takes_blocked = can_be_blocked(graph.value(n.inputs[0])) && ask(graph, n, 1u | residual, block, &blocked);
  const bool takes_plain = ask(graph, n, residual, block, &mixed);
  if (takes_plain) {
    mixed.cost = takes_blocked ? in : 0;
    forms->push_back(mixed);
  }
  if (takes_blocked) forms->push_back(blocked);
  (*forms)[0].cost = (takes_blocked ? in : 0) + (takes_plain || takes_blocked ? out : 0) + (residual ? out : 0);
}

double extra_elements(const Graph& graph, const GraphNode& n, uint8_t block) {
  double extra = 0;
  for (ValueId v : n.outputs)
    if (v.valid() && can_be_blocked(graph.value(v)))
      extra += elements_of(graph.value(v), block) - elements_of(graph.value(v));
  return extra * kElementwise;
}

}  // namespace

bool can_be_blocked(const GraphValue& v) {
  return v.type.is_tensor() && v.type.dtype() == DType::kFloat && v.shape.has_rank && v.shape.rank() >= 3 &&
         v.shape.dims[1].is_known() && v.shape.dims[1].value() > 0 && !v.constant;
}

double elements_of(const GraphValue& v, uint8_t block) {
  double n = 1;
  for (int d = 0; d < v.shape.rank(); ++d) {
    const Dim dim = v.shape.dims[d].substitute([](std::string_view) { return std::optional<int64_t>(kSymbol); });
    double size = static_cast<double>(dim.known().value_or(kExtent));
    if (d == 0 && !v.shape.dims[0].is_known()) size = kBatch;
    if (d == 1 && block > 1) size = static_cast<double>((static_cast<int64_t>(size) + block - 1) / block * block);
    n *= std::max(0.0, size);
  }
  return n;
}

double reorder_cost(const GraphValue& v, uint8_t block) { return elements_of(v) + elements_of(v, block); }

std::vector<Form> forms_of(const Graph& graph, NodeId id, uint8_t block) {
  const GraphNode& n = graph.node(id);
  std::vector<Form> forms(1);
  forms[0].inputs.assign(n.inputs.size(), Layout());
  forms[0].outputs.assign(n.outputs.size(), Layout());
  if (!n.impl || n.captures > 0 || n.outputs.empty() || n.inputs.empty() || n.inputs.size() > 32) return forms;
  if (is_conv(n)) {
    add_conv_forms(graph, n, block, &forms);
    return forms;
  }
  uint32_t all = 0;
  for (size_t i = 0; i < n.inputs.size(); ++i)
    if (n.inputs[i].valid() && can_be_blocked(graph.value(n.inputs[i]))) all |= 1u << i;
  const uint32_t first = all & 1u;
  for (uint32_t mask : {all, first}) {
    Form form;
    if (mask == 0 || (mask == first && forms.size() > 1 && all == first)) continue;
    if (!ask(graph, n, mask, block, &form)) continue;
    form.cost = extra_elements(graph, n, block);
    forms.push_back(std::move(form));
  }
  return forms;
}

}  // namespace forethought::passes
