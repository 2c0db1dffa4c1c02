#include "onnx/import/types.h"

#include "graph/schema/schema.h"

namespace forethought {
namespace {

// The one type that a constraint allows, if it is one.
std::optional<ValueType> only_type(const AllowedTypes& a) {
  if (a.map || a.sequence_of_maps || a.optional_tensor || a.optional_sequence) return std::nullopt;
  const uint32_t mask = a.tensor ? a.tensor : a.sequence;
  if ((a.tensor && a.sequence) || mask == 0 || (mask & (mask - 1)) != 0) return std::nullopt;
  const ValueType element = ValueType::tensor(static_cast<DType>(__builtin_ctz(mask)));
  return a.tensor ? element : ValueType::sequence(element);
}

const ValueType* input_type(const Graph& g, const GraphNode& n, int slot) {
  if (slot >= n.formal_inputs() || !n.inputs[slot].valid()) return nullptr;
  const ValueType& t = g.value(n.inputs[slot]).type;
  return t.is_unknown() ? nullptr : &t;
}

std::optional<ValueType> tensor_type(int64_t number) {
  if (!is_valid_dtype(number)) return std::nullopt;
  return ValueType::tensor(static_cast<DType>(number));
}

std::optional<ValueType> type_of_number(const GraphNode& n, std::string_view attribute, int64_t fallback) {
  return tensor_type(n.attributes.get_int(attribute, fallback));
}

// Outputs of If are its branches' outputs; of Loop and Scan, the body's after `skip` (Loop's condition).
std::optional<ValueType> body_output(const GraphNode& n, int slot, int skip) {
  if (n.bodies.empty()) return std::nullopt;
  for (const auto& [name, body] : n.bodies) {
    const auto i = static_cast<size_t>(slot + skip);
    if (i >= body->outputs().size()) continue;
    const ValueType& t = body->value(body->outputs()[i]).type;
    if (!t.is_unknown()) return t;
  }
  return std::nullopt;
}

// Operators whose output type an attribute, a body or the inside of a sequence decides.
std::optional<ValueType> special(const Graph& g, const GraphNode& n, int slot) {
  const auto first = [&] { return input_type(g, n, 0); };
  const std::string& op = n.op.type;
  if (op == "Cast") return type_of_number(n, "to", 0);
  if (op == "ConstantOfShape") {
    const AttributeValue* v = n.attributes.find("value");
    const Tensor* t = v ? std::get_if<Tensor>(v) : nullptr;
    return ValueType::tensor(t ? t->dtype : DType::kFloat);
  }
  if (op == "If") return body_output(n, slot, 0);
  if (op == "Loop") return body_output(n, slot, 1);
  if (op == "Scan") return body_output(n, slot, 0);
  if (op == "RandomNormal" || op == "RandomUniform") return type_of_number(n, "dtype", 1);
  if (op == "SequenceEmpty") {
    const auto element = type_of_number(n, "dtype", 1);
    return element ? std::optional(ValueType::sequence(*element)) : std::nullopt;
  }
  if (op == "SequenceConstruct") return first() ? std::optional(ValueType::sequence(*first())) : std::nullopt;
  if (op == "SequenceAt" || op == "ConcatFromSequence") {
    return first() && first()->inner() ? std::optional(*first()->inner()) : std::nullopt;
  }
  if (op == "OptionalGetElement") {
    if (!first()) return std::nullopt;
    return first()->kind() == ValueType::Kind::optional ? *first()->inner() : *first();
  }
  if (op == "Optional") {
    if (first()) return ValueType::optional(*first());
    const AttributeValue* type = n.attributes.find("type");
    const ValueType* of = type ? std::get_if<ValueType>(type) : nullptr;
    return of ? std::optional(ValueType::optional(*of)) : std::nullopt;
  }
  if (op == "SplitToSequence") return first() ? std::optional(ValueType::sequence(*first())) : std::nullopt;
  if (op == "SequenceMap") {
    const auto element = body_output(n, slot, 0);
    return element ? std::optional(ValueType::sequence(*element)) : std::nullopt;
  }
  if (op == "QuantizeLinear" && slot == 0) {
    if (const ValueType* zero_point = input_type(g, n, 2)) return *zero_point;
    if (const int64_t to = n.attributes.get_int("output_dtype", 0)) return tensor_type(to);
    return n.inputs.size() < 3 || !n.inputs[2].valid() ? tensor_type(2) : std::nullopt;
  }
  if (op == "DequantizeLinear" && slot == 0) {
    if (const int64_t to = n.attributes.get_int("output_dtype", 0)) return tensor_type(to);
    const ValueType* scale = input_type(g, n, 1);
    return scale ? std::optional(*scale) : std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

void derive_output_types(Graph& g, NodeId id) {
  const GraphNode& n = g.node(id);
  const OpSchema* schema = find_schema(n.op.domain, n.op.type, n.op.version);
  for (size_t i = 0; i < n.outputs.size(); ++i) {
    if (!n.outputs[i].valid()) continue;
    std::optional<ValueType> type = n.op.domain.empty() ? special(g, n, static_cast<int>(i)) : std::nullopt;
    const FormalParam* formal = schema ? schema->output(static_cast<int>(i)) : nullptr;
    if (!type && formal) type = only_type(*formal->allowed);
    // A variadic formal that is not homogeneous says nothing about its siblings.
    const bool heterogeneous = formal && formal->kind == FormalKind::kVariadic && !formal->homogeneous;
    for (int in = 0; !type && formal && !heterogeneous && in < n.formal_inputs(); ++in) {
      const FormalParam* other = schema->input(in);
      if (!other || other->type != formal->type || (other->kind == FormalKind::kVariadic && !other->homogeneous))
        continue;
      if (const ValueType* t = input_type(g, n, in)) type = *t;
    }
    if (type) g.value(n.outputs[i]).type = *type;
  }
}

}  // namespace forethought
