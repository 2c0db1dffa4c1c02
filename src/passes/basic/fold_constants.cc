// fold_constants: a node whose inputs are constant becomes its result; so does one whose elements shape inference
// knows.
#include <algorithm>
#include <cstring>
#include <limits>

#include "graph/operator.h"
#include "passes/basic/evaluate.h"
#include "passes/engine/rule.h"

namespace forethought::passes {
namespace {

constexpr int64_t kSmall = 4096;  // bytes that are folded whatever the budget

// The elements that shape arithmetic knows, as the tensor that the node would make.
std::optional<Tensor> from_known(const GraphValue& v) {
  if (!v.known || v.known->is_float || !v.type.is_tensor()) return std::nullopt;
  const DType dtype = v.type.dtype();
  if (dtype != DType::kInt64 && dtype != DType::kInt32 && dtype != DType::kBool) return std::nullopt;
  const auto dims = v.shape.numbers();
  if (!dims || element_count(*dims) != static_cast<int64_t>(v.known->ints.size())) return std::nullopt;
  for (const Dim& d : v.known->ints) {
    if (!d.is_known()) return std::nullopt;
    if (dtype == DType::kInt32 && d.value() != static_cast<int32_t>(d.value())) return std::nullopt;
  }
  auto t = make_tensor(dtype, *dims);
  if (!t.ok()) return std::nullopt;
  for (size_t i = 0; i < v.known->ints.size(); ++i) {
    const int64_t e = v.known->ints[i].value();
    if (dtype == DType::kInt64) t->as<int64_t>()[i] = e;
    if (dtype == DType::kInt32) t->as<int32_t>()[i] = static_cast<int32_t>(e);
    if (dtype == DType::kBool) t->as<uint8_t>()[i] = e != 0;
  }
  return *std::move(t);
}

Outcome fold_known(const RuleCtx& c) {
  Rewrite r;
  bool some = false;
  const GraphNode& n = c.node();
  for (size_t i = 0; i < n.outputs.size(); ++i) {
    if (!n.outputs[i].valid()) continue;
    const GraphValue& v = c.graph.value(n.outputs[i]);
    if (v.uses.empty() && !v.is_output) continue;
    if (auto t = from_known(v)) {
      r.result(static_cast<int>(i), r.constant(*std::move(t)));
      some = true;
    }
  }
  if (!some) return no_match();
  r.partial().says("its elements follow from shapes");
  return r;
}

// The bytes of a constant that a view can share.
bool is_view(const GraphNode& n) {
  return n.op.is("Reshape") || n.op.is("Squeeze") || n.op.is("Unsqueeze") || n.op.is("Flatten") || n.op.is("Identity");
}

Outcome fold_to(Tensor t) {
  Rewrite r;
  r.result(0, r.constant(std::move(t)));
  return r;
}

Outcome fold_view(const RuleCtx& c) {
  const auto dims = c.out().shape.numbers();
  Tensor t = *c.constant(0);
  if (!dims || element_count(*dims) != t.elements()) return no_match();
  t.dims = *dims;  // the owner is shared, so the bytes live as long as any view of them
  return fold_to(std::move(t));
}

Outcome attempt(const RuleCtx& c) {
  const GraphNode& n = c.node();
  if (Outcome known = fold_known(c); known.index() != 0) return known;
  if (!n.bodies.empty() || n.captures > 0 || !n.impl->foldable()) return no_match();
  int64_t input_bytes = 0, total = 0;
  for (int i = 0; i < static_cast<int>(n.inputs.size()); ++i) {
    if (!n.inputs[i].valid()) continue;
    if (!c.constant(i)) return no_match();
    input_bytes += c.constant(i)->bytes();
  }
  if (is_view(n)) return fold_view(c);
  if (const AttributeValue* v = n.op.is("Constant") ? n.attributes.find("value") : nullptr)
    if (const Tensor* t = std::get_if<Tensor>(v)) return fold_to(*t);
  if (n.op.is("DequantizeLinear") && c.constant(0)->elements() > 1)
    return decline("a kernel may take the quantised weights as they are");
  const int64_t limit = std::max(c.fold_budget, kSmall) + (n.op.is("Constant") ? int64_t{1} << 40 : 0);
  auto outputs = evaluate(c.graph, c.root, c.options.isa, limit);
  if (!outputs.ok()) return decline(outputs.status().message());
  Rewrite r;
  for (size_t i = 0; i < outputs->size(); ++i) {
    if (!n.outputs[i].valid()) continue;
    total += (*outputs)[i].bytes();
    r.result(static_cast<int>(i), r.constant(std::move((*outputs)[i])));
  }
  if (total > kSmall && total > input_bytes) r.spends(total - input_bytes);
  return r;
}

}  // namespace

DEFINE_RULE(fold_constants, attempt)

}  // namespace forethought::passes
