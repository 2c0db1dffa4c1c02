#include "onnx/save/exporter.h"

#include <fmt/format.h>

#include <algorithm>

#include "graph/schema/schema.h"
#include "onnx/upgrade/rules.h"

namespace forethought {
namespace {

constexpr std::string_view kCoercion = "_coerce_2d";

NodeForm form_of(const GraphNode& n) {
  NodeForm form{
      .domain = n.op.domain, .type = n.op.type, .version = n.op.version, .name = n.name, .attributes = n.attributes};
  form.inputs.assign(n.inputs.begin(), n.inputs.begin() + n.formal_inputs());
  form.outputs.assign(n.outputs.begin(), n.outputs.end());
  return form;
}

bool has_coercion(const Graph& g) {
  for (uint32_t i = 0; i < g.node_capacity(); ++i) {
    const GraphNode& n = g.node(NodeId{i});
    if (n.removed) continue;
    if (n.attributes.get_int(kCoercion, 0) != 0) return true;
    for (const auto& [name, body] : n.bodies) {
      if (has_coercion(*body)) return true;
    }
  }
  return false;
}

// Reorders and copies say how and where elements lie, never which they are: they belong to one session's choices.
bool is_placement(const OpId& op) {
  return op.domain == kInternalDomain && (op.type == "Reorder" || op.type == "Copy");
}

bool has_placement(const Graph& g) {
  for (uint32_t i = 0; i < g.value_capacity(); ++i) {
    const GraphValue& v = g.value(ValueId{i});
    if (!v.removed && !v.layout.is_plain()) return true;
  }
  for (uint32_t i = 0; i < g.node_capacity(); ++i) {
    const GraphNode& n = g.node(NodeId{i});
    if (!n.removed && is_placement(n.op)) return true;
    for (const auto& [name, body] : n.bodies) {
      if (has_placement(*body)) return true;
    }
  }
  return false;
}

void remove_placement(Graph& g) {
  const size_t nodes = g.node_capacity();
  for (uint32_t i = 0; i < nodes; ++i) {
    const NodeId id{i};
    if (g.node(id).removed) continue;
    for (auto& [name, body] : g.node(id).bodies) remove_placement(*body);
    if (!is_placement(g.node(id).op)) continue;
    g.replace_uses(g.node(id).outputs[0], g.node(id).inputs[0]);
    g.remove_node(id);
  }
  for (uint32_t i = 0; i < g.value_capacity(); ++i) {
    g.value(ValueId{i}).layout = Layout::plain();
    g.value(ValueId{i}).device = Device();
  }
}

void spell_out(Graph& g) {
  const size_t nodes = g.node_capacity();
  for (uint32_t i = 0; i < nodes; ++i) {
    const NodeId id{i};
    if (g.node(id).removed) continue;
    for (auto& [name, body] : g.node(id).bodies) spell_out(*body);
    if (g.node(id).attributes.get_int(kCoercion, 0) == 0) continue;
    NodeForm form = form_of(g.node(id));
    g.set_output(id, 0, ValueId{});
    Rewriter r(g, form.name.empty() ? form.type : form.name, [](ValueId) { return DType::kUndefined; });
    spell_out_coercion(r, form);
    g.set_input(id, 0, form.inputs[0]);
    g.set_output(id, 0, form.outputs[0]);
    g.node(id).attributes = form.attributes;
  }
}

int first_ir_with(DType dtype) {
  switch (dtype) {
    case DType::kFloat8E4M3FN:
    case DType::kFloat8E4M3FNUZ:
    case DType::kFloat8E5M2:
    case DType::kFloat8E5M2FNUZ:
      return 9;
    case DType::kUint4:
    case DType::kInt4:
      return 10;
    case DType::kFloat4E2M1:
      return 11;
    case DType::kFloat8E8M0:
      return 12;
    case DType::kUint2:
    case DType::kInt2:
      return 13;
    default:
      return 4;
  }
}

}  // namespace

StatusOr<wire::Model> Exporter::model() {
  RETURN_IF_ERROR(choose_opsets());
  wire::Model m;
  const ModelInfo& info = graph_->info;
  m.has_graph = true;
  m.model_version = info.model_version;
  m.producer_name = info.producer_name;
  m.producer_version = info.producer_version;
  m.domain = info.domain;
  m.doc = info.doc_string;
  for (const auto& [key, value] : info.metadata) m.metadata.push_back({key, value});
  for (const auto& [domain, version] : opsets_) m.opsets.push_back({domain, version});
  Scope scope{.graph = graph_};
  ASSIGN_OR_RETURN(m.graph, graph(scope, graph_->inputs().size()));
  m.graph.name = info.graph_name.empty() ? std::string_view("graph") : info.graph_name;
  m.ir_version = std::max<int64_t>(info.ir_version, newest_ir_);
  return m;
}

int Exporter::opset(std::string_view domain) const {
  const auto it = opsets_.find(domain);
  return it == opsets_.end() ? 0 : it->second;
}

Graph& Exporter::rewritable() {
  if (!rewritten_) rewritten_ = graph_->clone();
  graph_ = rewritten_.get();
  return *rewritten_;
}

Status Exporter::choose_opsets() {
  for (const OpsetImport& o : graph_->info.opsets) opsets_[o.domain] = o.version;
  if (opset("") == 0) opsets_[""] = newest_opset("");
  if (has_placement(*graph_)) remove_placement(rewritable());
  RETURN_IF_ERROR(raise_opsets(*graph_));
  if (opset("") >= 13 && has_coercion(*graph_)) {
    spell_out(rewritable());
    RETURN_IF_ERROR(raise_opsets(*graph_));
  }
  return absl::OkStatus();
}

Status Exporter::raise_opsets(const Graph& g) {
  for (uint32_t i = 0; i < g.node_capacity(); ++i) {
    const GraphNode& n = g.node(NodeId{i});
    if (n.removed) continue;
    for (const auto& [name, body] : n.bodies) RETURN_IF_ERROR(raise_opsets(*body));
    int& version = opsets_.try_emplace(n.op.domain, 1).first->second;
    if (n.attributes.get_int(kCoercion, 0) != 0) continue;  // any opset below 13, or spelled out
    NodeForm form = form_of(n);
    const int needed = downgrade(g, form, version);
    if (needed == 0) {
      return unsupported(fmt::format("node '{}' ({}) cannot be written: no version of the operator can say it", n.name,
                                     to_string(n.op)));
    }
    version = needed;
  }
  return absl::OkStatus();
}

std::string_view Exporter::keep(std::string text) { return texts_.emplace_back(std::move(text)); }

std::string_view Exporter::fresh(std::string_view wanted, Names& used) {
  if (used.taken.insert(wanted).second) return wanted;
  for (int& k = used.suffixes[wanted];;) {
    const std::string_view name = keep(fmt::format("{}_{}", wanted, ++k));
    if (used.taken.insert(name).second) return name;
  }
}

// Inner graphs may not hide names of outer ones, so names are given once in the whole model.
std::string_view Exporter::name_of(Scope& scope, ValueId id) {
  if (!id.valid()) return {};
  std::string_view& name = scope.names[id.index];
  if (name.empty()) name = fresh(scope.graph->value(id).name, used_names_);
  return name;
}

std::string_view Exporter::read_name(Scope& scope, ValueId id) {
  const std::string_view name = name_of(scope, id);
  if (!name.empty()) scope.read.insert(name);
  return name;
}

// A constant that an outer graph holds too (the same bytes) is read from there.
void Exporter::name_constants(Scope& scope) {
  for (uint32_t i = 0; i < scope.graph->value_capacity(); ++i) {
    const ValueId id{i};
    const GraphValue& v = scope.graph->value(id);
    if (v.removed || !v.constant) continue;
    const ConstantKey key(v.constant->data, fmt::format("{}{}", name(v.constant->dtype), to_string(v.constant->dims)));
    Scope* holder = v.is_output || v.constant->elements() == 0 ? nullptr : scope.outer;
    while (holder && !holder->constants.contains(key)) holder = holder->outer;
    if (holder) {
      scope.names[i] = holder->constants.find(key)->second;
      holder->read.insert(scope.names[i]);
    } else {
      scope.own.push_back(id);
      scope.constants.emplace(key, name_of(scope, id));
    }
  }
}

StatusOr<wire::Graph> Exporter::graph(Scope& scope, size_t formals) {
  const Graph& g = *scope.graph;
  scope.names.resize(g.value_capacity());
  wire::Graph out;
  out.name = g.name.empty() ? std::string_view("body") : g.name;
  for (size_t i = 0; i < formals; ++i) name_of(scope, g.inputs()[i]);
  for (const ValueId v : g.outputs()) name_of(scope, v);
  name_constants(scope);
  for (uint32_t i = 0; i < g.value_capacity(); ++i) {
    if (!g.value(ValueId{i}).removed) name_of(scope, ValueId{i});
  }
  for (size_t i = 0; i < formals; ++i) out.inputs.push_back(value_info(scope, g.inputs()[i]));
  for (const NodeId id : g.order()) {
    ASSIGN_OR_RETURN(out.nodes.emplace_back(), node(scope, id));
  }
  for (const ValueId v : g.outputs()) {
    const bool outer = scope.outer && g.value(v).is_input;
    if (outer) {
      // A body may not return an input or an outer value as it is.
      const std::string_view source = read_name(scope, v), result = fresh(source, used_names_);
      out.nodes.push_back({.op_type = "Identity", .inputs = {source}, .outputs = {result}});
      out.outputs.push_back(value_info(scope, v));
      out.outputs.back().name = result;
      continue;
    }
    read_name(scope, v);
    out.outputs.push_back(value_info(scope, v));
  }
  for (const ValueId v : scope.own) {
    if (!scope.read.contains(name_of(scope, v))) continue;
    ASSIGN_OR_RETURN(out.initializers.emplace_back(), tensor(name_of(scope, v), *g.value(v).constant));
  }
  for (const ValueId v : g.inputs()) {
    if (!g.value(v).default_value) continue;
    ASSIGN_OR_RETURN(out.initializers.emplace_back(), tensor(name_of(scope, v), *g.value(v).default_value));
  }
  for (uint32_t i = 0; i < g.value_capacity(); ++i) {
    const GraphValue& v = g.value(ValueId{i});
    if (v.removed) continue;
    if (v.producer.valid() && !v.is_output && v.type.is_tensor() && v.shape.has_rank) {
      out.value_infos.push_back(value_info(scope, ValueId{i}));
    }
  }
  return out;
}

StatusOr<wire::Node> Exporter::node(Scope& scope, NodeId id) {
  const GraphNode& n = scope.graph->node(id);
  NodeForm form = form_of(n);
  const int written = downgrade(*scope.graph, form, opset(n.op.domain));
  if (written != opset(n.op.domain)) {
    return internal(
        fmt::format("node '{}' ({}) cannot be written in opset {}", n.name, to_string(n.op), opset(n.op.domain)));
  }
  // Node names are unique in files that other tools take, and may be empty.
  wire::Node out{.name = n.name.empty() ? std::string_view() : fresh(n.name, used_node_names_),
                 .op_type = form.type == n.op.type ? std::string_view(n.op.type) : keep(form.type),
                 .domain = n.op.domain};
  for (const ValueId v : form.inputs) out.inputs.push_back(read_name(scope, v));
  for (const ValueId v : form.outputs) out.outputs.push_back(name_of(scope, v));
  for (const auto& [name, value] : form.attributes) {
    auto a = attribute(keep(name), value);
    if (!a.ok()) return with_context(a.status(), fmt::format("node '{}'", n.name));
    out.attributes.push_back(std::move(*a));
  }
  for (const auto& [name, body] : n.bodies) {
    Scope inner{.graph = body.get(), .outer = &scope};
    inner.names.resize(body->value_capacity());
    const size_t formals = body->inputs().size() - static_cast<size_t>(n.captures);
    for (int k = 0; k < n.captures; ++k) {
      const ValueId outer = n.inputs[static_cast<size_t>(n.formal_inputs() + k)];
      inner.names[body->inputs()[formals + static_cast<size_t>(k)].index] = read_name(scope, outer);
    }
    wire::Attribute a{.name = name, .type = static_cast<int32_t>(AttrType::kGraph)};
    ASSIGN_OR_RETURN(a.graphs.emplace_back(), graph(inner, formals));
    out.attributes.push_back(std::move(a));
  }
  return out;
}

StatusOr<wire::Tensor> Exporter::tensor(std::string_view name, const Tensor& t) {
  if (!t.layout.is_plain())
    return unsupported(fmt::format("the constant '{}' has layout {}", name, to_string(t.layout)));
  wire::Tensor out{.name = name, .dims = {t.dims.begin(), t.dims.end()}, .data_type = static_cast<int32_t>(t.dtype)};
  newest_ir_ = std::max(newest_ir_, first_ir_with(t.dtype));
  if (t.dtype == DType::kString) {
    for (const std::string& s : t.strings()) out.strings.push_back(s);
    return out;
  }
  const std::string_view bytes(static_cast<const char*>(t.data), static_cast<size_t>(t.bytes()));
  if (sink_ && !name.empty()) {
    ASSIGN_OR_RETURN(auto entries, sink_->put(bytes));
    for (auto& [key, value] : entries) out.external_data.push_back({keep(std::move(key)), keep(std::move(value))});
    out.external = !entries.empty();
  }
  out.has_raw = !out.external;
  if (out.has_raw) out.raw = bytes;
  return out;
}

StatusOr<wire::Attribute> Exporter::attribute(std::string_view name, const AttributeValue& value) {
  wire::Attribute a{.name = name};
  const auto kind = [&](AttrType t) { a.type = static_cast<int32_t>(t); };
  if (const auto* i = std::get_if<int64_t>(&value)) {
    kind(AttrType::kInt);
    a.i = *i;
  } else if (const auto* f = std::get_if<float>(&value)) {
    kind(AttrType::kFloat);
    a.f = *f;
  } else if (const auto* s = std::get_if<std::string>(&value)) {
    kind(AttrType::kString);
    a.s = keep(*s);
  } else if (const auto* is = std::get_if<std::vector<int64_t>>(&value)) {
    kind(AttrType::kInts);
    a.ints = *is;
  } else if (const auto* fs = std::get_if<std::vector<float>>(&value)) {
    kind(AttrType::kFloats);
    a.floats = *fs;
  } else if (const auto* ss = std::get_if<std::vector<std::string>>(&value)) {
    kind(AttrType::kStrings);
    for (const std::string& text : *ss) a.strings.push_back(keep(text));
  } else if (const auto* t = std::get_if<Tensor>(&value)) {
    kind(AttrType::kTensor);
    ASSIGN_OR_RETURN(a.tensors.emplace_back(), tensor({}, *t));
  } else if (const auto* ts = std::get_if<std::vector<Tensor>>(&value)) {
    kind(AttrType::kTensors);
    for (const Tensor& each : *ts) {
      ASSIGN_OR_RETURN(a.tensors.emplace_back(), tensor({}, each));
    }
  } else if (const auto* type_value = std::get_if<ValueType>(&value)) {
    kind(AttrType::kTypeProto);
    a.types.push_back(type(*type_value, nullptr));
  } else if (const auto* sparse = std::get_if<std::shared_ptr<const SparseTensor>>(&value)) {
    kind(AttrType::kSparseTensor);
    wire::SparseTensor& out = a.sparse_tensors.emplace_back();
    ASSIGN_OR_RETURN(out.values, tensor({}, (*sparse)->values));
    ASSIGN_OR_RETURN(out.indices, tensor({}, (*sparse)->indices));
    out.dims.assign((*sparse)->dims.begin(), (*sparse)->dims.end());
  }
  return a;
}

wire::Type Exporter::type(const ValueType& t, const SymShape* shape) {
  wire::Type out;
  switch (t.kind()) {
    case ValueType::Kind::unknown:
      return out;
    case ValueType::Kind::tensor:
      out.kind = wire::Type::Kind::kTensor;
      break;
    case ValueType::Kind::sparse_tensor:
      out.kind = wire::Type::Kind::kSparseTensor;
      break;
    case ValueType::Kind::sequence:
      out.kind = wire::Type::Kind::kSequence;
      break;
    case ValueType::Kind::optional:
      out.kind = wire::Type::Kind::kOptional;
      break;
    case ValueType::Kind::map:
      out.kind = wire::Type::Kind::kMap;
      break;
  }
  out.elem_type = static_cast<int32_t>(t.dtype());
  newest_ir_ = std::max(newest_ir_, first_ir_with(t.dtype()));
  if (t.inner()) out.element = std::make_unique<wire::Type>(type(*t.inner(), nullptr));
  if (!shape || !shape->has_rank) return out;
  out.has_shape = true;
  for (const Dim& d : shape->dims) {
    if (d.is_known()) {
      out.dims.push_back({wire::Dim::Kind::kValue, d.value(), {}});
    } else if (d.is_symbolic() && !d.depends_on_data()) {
      out.dims.push_back({wire::Dim::Kind::kParam, 0, keep(to_string(d))});
    } else {
      out.dims.emplace_back();
    }
  }
  return out;
}

wire::ValueInfo Exporter::value_info(Scope& scope, ValueId id) {
  const GraphValue& v = scope.graph->value(id);
  const SymShape* shape = v.shape.has_rank ? &v.shape : v.declared ? &*v.declared : nullptr;
  return {.name = name_of(scope, id), .type = type(v.type, shape)};
}

}  // namespace forethought
