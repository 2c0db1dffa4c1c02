#include "ops/op.h"

#include <algorithm>

#include "graph/schema/schema.h"

namespace forethought {

#define OP(S) const OpDef& op_def_##S();
#include "ops/operators.inc"
#undef OP

std::span<const OpDef* const> op_defs() {
  static const auto* defs = new std::vector<const OpDef*>{
#define OP(S) &op_def_##S(),
#include "ops/operators.inc"
#undef OP
  };
  return *defs;
}

const OpDef* find_op(std::string_view domain, std::string_view type) {
  using Key = std::pair<std::string_view, std::string_view>;
  static const auto* index = [] {
    auto* m = new std::map<Key, const OpDef*>;
    for (const OpDef* d : op_defs()) m->emplace(Key{d->name.domain, d->name.type}, d);
    return m;
  }();
  const auto it = index->find({domain, type});
  return it == index->end() ? nullptr : it->second;
}

namespace {

template <typename T>
Status take(const AttributeValue& v, T* out, const char* expected) {
  if (const T* x = std::get_if<T>(&v)) {
    *out = *x;
    return absl::OkStatus();
  }
  return invalid(absl::StrCat("is of kind ", kind_name(v), ", not ", expected));
}

}  // namespace

Status read_attribute(const AttributeValue& v, int64_t* out) { return take(v, out, "int"); }
Status read_attribute(const AttributeValue& v, float* out) { return take(v, out, "float"); }
Status read_attribute(const AttributeValue& v, std::string* out) { return take(v, out, "string"); }
Status read_attribute(const AttributeValue& v, Tensor* out) { return take(v, out, "tensor"); }
Status read_attribute(const AttributeValue& v, ValueType* out) { return take(v, out, "type"); }
Status read_attribute(const AttributeValue& v, std::vector<int64_t>* out) { return take(v, out, "ints"); }
Status read_attribute(const AttributeValue& v, std::vector<float>* out) { return take(v, out, "floats"); }
Status read_attribute(const AttributeValue& v, std::vector<std::string>* out) { return take(v, out, "strings"); }
Status read_attribute(const AttributeValue& v, bool* out) {
  int64_t i = 0;
  RETURN_IF_ERROR(take(v, &i, "int"));
  *out = i != 0;
  return absl::OkStatus();
}
Status read_attribute(const AttributeValue& v, DType* out) {
  int64_t i = 0;
  RETURN_IF_ERROR(take(v, &i, "int"));
  if (!is_valid_dtype(i)) return invalid(absl::StrCat(i, " is no element type"));
  *out = static_cast<DType>(i);
  return absl::OkStatus();
}

Status check_node(const OpDef& def, const GraphNode& node) {
  const Traits& t = def.traits;
  const int inputs = node.formal_inputs(), outputs = static_cast<int>(node.outputs.size());
  if (inputs < t.min_inputs || inputs > t.max_inputs)
    return invalid(absl::StrCat("has ", inputs, " inputs; ", t.min_inputs, " to ", t.max_inputs, " are allowed"));
  if (outputs < t.min_outputs || outputs > t.max_outputs)
    return invalid(absl::StrCat("has ", outputs, " outputs; ", t.min_outputs, " to ", t.max_outputs, " are allowed"));
  for (int i = 0; i < t.min_inputs; ++i)
    if (!node.inputs[i].valid()) return invalid(absl::StrCat("input ", i, " is required but skipped"));
  for (const auto& [name, value] : node.attributes)
    if (std::find(def.attributes.begin(), def.attributes.end(), name) == def.attributes.end())
      return invalid(absl::StrCat("has no attribute '", name, "'"));
  return absl::OkStatus();
}

namespace {

TypeSet allowed_types(const Traits& t, int input) {
  TypeSet last;
  for (size_t i = 0; i < t.in.size(); ++i) {
    if (t.in[i].mask) last = t.in[i];
    if (static_cast<int>(i) == input) return t.in[i].mask || t.max_inputs < kVariadic ? t.in[i] : last;
  }
  return t.max_inputs >= kVariadic ? last : TypeSet();
}

class Library final : public OperatorLibrary {
 public:
  bool has(std::string_view domain, std::string_view type) const override { return find_op(domain, type) != nullptr; }

  StatusOr<std::shared_ptr<const Operator>> bind(const GraphNode& node) const override {
    if (const OpDef* def = find_op(node.op.domain, node.op.type)) return def->bind(node);
    std::string text = absl::StrCat("there is no operator ", to_string(node.op), " here");
    const std::string_view near = nearest(node.op.type);
    if (!near.empty()) absl::StrAppend(&text, "; the nearest name is ", absl::string_view(near.data(), near.size()));
    return unsupported(text);
  }

  Status supports(const Graph& graph, const GraphNode& node) const override {
    const OpDef* def = find_op(node.op.domain, node.op.type);
    if (!def) return unsupported("there is no such operator here");
    for (int i = 0; i < node.formal_inputs(); ++i) {
      if (!node.inputs[i].valid()) continue;
      const ValueType& type = graph.value(node.inputs[i]).type;
      const TypeSet allowed = allowed_types(def->traits, i);
      if (!allowed.mask || type.is_unknown()) continue;
      if (!type.is_tensor() || !allowed.contains(type.dtype()))
        return unsupported(absl::StrCat("input ", i, " is ", to_string(type), "; this build has ", to_string(allowed)));
    }
    return absl::OkStatus();
  }

 private:
  static std::string_view nearest(std::string_view type) {
    std::vector<std::string_view> names;
    for (const OpDef* d : op_defs())
      if (d->name.domain != kInternalDomain) names.push_back(d->name.type);
    return nearest_name(type, names);
  }
};

}  // namespace

const OperatorLibrary& operator_library() {
  static const Library* library = new Library;
  return *library;
}

uint32_t overwritable(uint32_t mask, const ChooseCtx& ctx) {
  if (mask == 0 || ctx.outputs.empty() || !ctx.outputs[0].present || !ctx.outputs[0].known) return 0;
  const Operand& o = ctx.outputs[0];
  uint32_t found = 0;
  for (size_t i = 0; i < ctx.inputs.size() && i < 32; ++i) {
    const Operand& in = ctx.inputs[i];
    if (has_bit(mask, i) && in.present && in.known && in.strides.empty() && bit_width(in.dtype) == bit_width(o.dtype) &&
        in.layout == o.layout && std::ranges::equal(in.dims, o.dims))
      found |= 1u << i;
  }
  return found;
}

KernelFacts default_facts(const OpName& name, const Traits& traits, const ChooseCtx& ctx) {
  KernelFacts facts;
  const DType main = !ctx.inputs.empty() && ctx.inputs[0].present     ? ctx.inputs[0].dtype
                     : !ctx.outputs.empty() && ctx.outputs[0].present ? ctx.outputs[0].dtype
                                                                      : DType::kUndefined;
  facts.kernel.reserve(name.type.size() + 8);
  for (char c : name.type) facts.kernel.push_back(c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c);
  if (main != DType::kUndefined) facts.kernel.append(".").append(forethought::name(main));
  const uint32_t over = overwritable(traits.may_overwrite, ctx);
  for (size_t i = 0; i < ctx.inputs.size(); ++i)
    if (has_bit(over, i)) facts.overwrites.push_back({0, static_cast<int>(i)});
  return facts;
}

bool defaults_hold(const Traits& traits, const ChooseCtx& ctx, const KernelFacts& facts) {
  if (traits.may_overwrite == 0) return true;
  uint32_t before = 0;
  for (const Overwrite& o : facts.overwrites) before |= 1u << o.in;
  return overwritable(traits.may_overwrite, ctx) == before;
}

bool accepts_elementwise(LayoutQuery& q) {
  Layout common = Layout::plain();
  const SymShape& out = *q.output_shapes[0];
  for (size_t i = 0; i < q.inputs.size(); ++i) {
    if (!q.inputs[i].is_plain()) common = q.inputs[i];
  }
  for (size_t i = 0; i < q.inputs.size(); ++i) {
    if (!q.input_types[i]) continue;  // absent
    const bool single = q.input_shapes[i]->elements() == 1;
    if (single && q.inputs[i].is_plain()) continue;
    if (q.inputs[i] != common || !q.input_shapes[i]->same(out)) return false;
  }
  q.outputs[0] = common;
  return true;
}

}  // namespace forethought
