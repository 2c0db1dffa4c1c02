#include "onnx/import/builder.h"

#include <fmt/format.h>

#include <algorithm>

#include "onnx/import/batched_scan.h"
#include "onnx/import/types.h"
#include "onnx/upgrade/rules.h"

namespace forethought {
namespace {

constexpr int64_t kFirstIr = 1, kLastIr = 14;

std::string_view domain_name(std::string_view domain) { return domain.empty() ? "ai.onnx" : domain; }

// Refuses tensors of a type that no version of the operator takes there: kernels are asked only once rewrites are done,
// and those may find that the node does nothing.
Status check_types(const Graph& graph, const NodeForm& form) {
  const auto versions = schema_versions(form.domain, form.type);
  for (size_t i = 0; i < form.inputs.size(); ++i) {
    if (!form.inputs[i].valid() || !graph.value(form.inputs[i]).type.is_tensor()) continue;
    const DType dtype = graph.value(form.inputs[i]).type.dtype();
    const FormalParam* last = nullptr;
    const bool taken = std::ranges::any_of(versions, [&](const OpSchema& s) {
      const FormalParam* formal = s.input(static_cast<int>(i));
      if (formal) last = formal;
      return formal && formal->allowed->allows_tensor(dtype);
    });
    if (last && !taken) {
      return invalid(fmt::format("input {} ({}) is {}, which ONNX does not allow there in any version of {}", i,
                                 last->name, name(dtype), form.type));
    }
  }
  return absl::OkStatus();
}

}  // namespace

StatusOr<std::unique_ptr<Graph>> Builder::build() {
  if (model_.ir_version < kFirstIr) return invalid("the file has no IR version; is it an ONNX model?");
  if (model_.ir_version > kLastIr) {
    return unsupported(
        fmt::format("IR version {} is newer than {}, the last one known here", model_.ir_version, kLastIr));
  }
  if (!model_.has_graph) return invalid("the model has no graph");
  RETURN_IF_ERROR(check_opsets());
  RETURN_IF_ERROR(index_functions());
  std::map<const wire::Function*, int64_t> counted;
  if (inlined_nodes(model_.graph.nodes, 0, counted) > options_.max_nodes) return too_many_nodes();
  auto graph = std::make_unique<Graph>();
  graph->name = model_.graph.name;
  const Frame frame{.opsets = &model_.opsets};
  Scope scope{.graph = graph.get(), .frame = &frame};
  for (const auto* list : {&model_.graph.value_infos, &model_.graph.outputs}) {
    for (const wire::ValueInfo& v : *list) scope.hints.emplace(v.name, &v.type);
  }
  RETURN_IF_ERROR(add_inputs(scope));
  RETURN_IF_ERROR(add_initializers(scope, model_.graph));
  RETURN_IF_ERROR(add_nodes(scope, model_.graph.nodes));
  RETURN_IF_ERROR(report_missing(*graph));
  RETURN_IF_ERROR(add_outputs(scope));

  ModelInfo& info = graph->info;
  info.ir_version = model_.ir_version;
  info.model_version = model_.model_version;
  info.producer_name = model_.producer_name;
  info.producer_version = model_.producer_version;
  info.domain = model_.domain;
  info.doc_string = model_.doc;
  info.graph_name = model_.graph.name;
  for (const wire::OpsetId& o : model_.opsets) {
    info.opsets.push_back({std::string(canonical_domain(o.domain)), static_cast<int>(o.version)});
  }
  if (model_.opsets.empty()) info.opsets.push_back({"", 1});
  for (const wire::StringEntry& e : model_.metadata) info.metadata.emplace_back(e.key, e.value);
  info.copied_bytes = converter_.copied_bytes();
  return graph;
}

Status Builder::check_opsets() const {
  if (model_.opsets.empty() && model_.ir_version >= 3)
    return invalid("the model does not say which operator sets it uses");
  for (const wire::OpsetId& o : model_.opsets) {
    const int newest = newest_opset(o.domain);
    if (o.version < 1 || o.version > (1 << 30)) {
      return invalid(fmt::format("opset {} of domain '{}' is impossible", o.version, domain_name(o.domain)));
    }
    if (newest > 0 && o.version > newest) {
      return unsupported(fmt::format("the model uses opset {} of '{}'; the newest known here is {}", o.version,
                                     domain_name(o.domain), newest));
    }
  }
  return absl::OkStatus();
}

Status Builder::index_functions() {
  for (const wire::Function& f : model_.functions) {
    const FunctionKey key(canonical_domain(f.domain), f.name, f.overload);
    if (!functions_.emplace(key, &f).second) {
      return invalid(fmt::format("the model defines the function '{}.{}' twice", f.domain, f.name));
    }
  }
  return absl::OkStatus();
}

Status Builder::add_inputs(Scope& scope) {
  std::unordered_map<std::string_view, const wire::Tensor*> defaults;
  for (const wire::Tensor& t : model_.graph.initializers) defaults.emplace(t.name, &t);
  for (size_t i = 0; i < model_.graph.inputs.size(); ++i) {
    const wire::ValueInfo& input = model_.graph.inputs[i];
    const std::string place = fmt::format("graph input {} '{}'", i, input.name);
    if (input.name.empty()) return invalid(fmt::format("{} has no name", place));
    const auto initial = defaults.find(input.name);
    // Before IR 4 every initializer had to be listed as an input; it is a constant all the same.
    if (initial != defaults.end() && model_.ir_version < 4) continue;
    auto declared = Converter::type(input.type);
    if (!declared.ok()) return with_context(declared.status(), place);
    if (declared->type.is_unknown()) return invalid(fmt::format("{} has no type", place));
    if (scope.names.contains(input.name)) return invalid(fmt::format("{}: the name occurs twice", place));
    const ValueId id = scope.graph->add_input(input.name, declared->type, declared->shape);
    scope.names.emplace(input.name, id);
    if (initial == defaults.end()) continue;
    auto value = converter_.tensor(*initial->second);
    if (!value.ok()) return with_context(value.status(), place);
    if (declared->type != ValueType::tensor(value->dtype)) {
      return invalid(fmt::format("{} is declared as {} but its default is of {}", place, to_string(declared->type),
                                 name(value->dtype)));
    }
    scope.graph->value(id).default_value = std::move(*value);
  }
  return absl::OkStatus();
}

Status Builder::add_initializers(Scope& scope, const wire::Graph& graph) {
  const auto add = [&](std::string_view name, auto&& contents) -> Status {
    if (name.empty()) return invalid("an initializer has no name");
    if (const auto it = scope.names.find(name); it != scope.names.end()) {
      const GraphValue& v = scope.graph->value(it->second);
      if (v.is_input && &graph == &model_.graph) return absl::OkStatus();  // the default of an input, taken with it
      return invalid(fmt::format("initializer '{}': the name occurs twice", name));
    }
    auto tensor = contents();
    if (!tensor.ok()) return with_context(tensor.status(), "initializer");
    scope.names.emplace(name, scope.graph->add_constant(name, std::move(*tensor)));
    return absl::OkStatus();
  };
  for (const wire::Tensor& t : graph.initializers) {
    RETURN_IF_ERROR(add(t.name, [&] { return converter_.tensor(t); }));
  }
  for (const wire::SparseTensor& t : graph.sparse_initializers) {
    RETURN_IF_ERROR(add(t.values.name, [&] { return converter_.densified(t); }));
  }
  return absl::OkStatus();
}

Status Builder::add_outputs(Scope& scope) {
  Graph& g = *scope.graph;
  if (model_.graph.outputs.empty()) return invalid("the graph has no outputs");
  for (size_t i = 0; i < model_.graph.outputs.size(); ++i) {
    const wire::ValueInfo& output = model_.graph.outputs[i];
    auto id = resolve(scope, output.name);
    if (!id.ok()) return with_context(id.status(), fmt::format("graph output {}", i));
    if (!id->valid()) return invalid(fmt::format("graph output {} has no name", i));
    // Names of the interface stay as the file has them; an inner value that took the name first gives way.
    if (g.value(*id).name != output.name) {
      if (const ValueId holder = g.find_value(output.name); holder.valid())
        g.rename(holder, std::string(output.name) + "_inner");
      g.rename(*id, output.name);
    }
    g.add_output(*id);
  }
  return absl::OkStatus();
}

StatusOr<int> Builder::opset_of(const Frame& frame, std::string_view domain) const {
  for (const Frame* f = &frame; f; f = f->caller) {
    for (const wire::OpsetId& o : *f->opsets) {
      if (canonical_domain(o.domain) == domain) return static_cast<int>(std::clamp<int64_t>(o.version, 1, 1 << 30));
    }
  }
  if (domain.empty() && model_.opsets.empty()) return 1;
  if (!is_known_domain(domain)) return 1;
  return invalid(
      fmt::format("the model uses operators of '{}' but does not import an opset of it", domain_name(domain)));
}

StatusOr<ValueId> Builder::resolve(const Scope& scope, std::string_view name) const {
  if (name.empty()) return ValueId{};
  const auto it = scope.names.find(name);
  if (it == scope.names.end()) return invalid(fmt::format("the value '{}' is read but nothing makes it", name));
  return it->second;
}

StatusOr<ValueId> Builder::define(Scope& scope, std::string_view name) {
  if (name.empty()) return ValueId{};
  if (scope.names.contains(name)) return invalid(fmt::format("the value '{}' is made twice", name));
  const auto preset = scope.presets.find(name);
  const ValueId id =
      preset != scope.presets.end()
          ? preset->second
          : scope.graph->add_value(scope.frame->prefix.empty() ? std::string(name)
                                                               : scope.frame->prefix + std::string(name));
  scope.names.emplace(name, id);
  if (const auto hint = scope.hints.find(name); hint != scope.hints.end()) {
    // A stale hint must not make a model fail, so one that cannot be read is none.
    if (auto declared = Converter::type(*hint->second); declared.ok()) {
      if (declared->type.is_tensor()) hinted_types_[{scope.graph, id.index}] = declared->type.dtype();
      scope.graph->value(id).declared = std::move(declared->shape);
    }
  }
  return id;
}

DType Builder::hinted(const Graph& graph, ValueId v) const {
  const auto it = hinted_types_.find({&graph, v.index});
  return it == hinted_types_.end() ? DType::kUndefined : it->second;
}

Status Builder::add_nodes(Scope& scope, const std::vector<wire::Node>& nodes) {
  auto order = orders_.find(&nodes);
  if (order == orders_.end()) {
    ASSIGN_OR_RETURN(auto fresh, topological_order(nodes, free_names_));
    order = orders_.emplace(&nodes, std::move(fresh)).first;
  }
  const std::vector<size_t> indices = order->second;
  for (const size_t i : indices) {
    Status s = add_node(scope, nodes[i]);
    if (!s.ok()) return with_context(std::move(s), describe(nodes[i], i));
  }
  return absl::OkStatus();
}

Status Builder::count_node() { return ++nodes_ > options_.max_nodes ? too_many_nodes() : absl::OkStatus(); }

Status Builder::too_many_nodes() const {
  return exhausted(fmt::format("the model grows beyond {} nodes once its functions are inlined", options_.max_nodes));
}

std::string Builder::origin(const Scope& scope, const wire::Node& node) const {
  return scope.frame->origin.empty() ? std::string(node.name) : scope.frame->origin;
}

Status Builder::add_node(Scope& scope, const wire::Node& node) {
  RETURN_IF_ERROR(count_node());
  NodeForm form{.domain = std::string(canonical_domain(node.domain)), .type = std::string(node.op_type)};
  if (form.type.empty()) return invalid("the node names no operator");
  form.name = scope.frame->prefix + std::string(node.name);
  for (const std::string_view name : node.inputs) {
    ASSIGN_OR_RETURN(form.inputs.emplace_back(), resolve(scope, name));
  }
  form.trim_inputs();
  ASSIGN_OR_RETURN(const int opset, opset_of(*scope.frame, form.domain));
  const OpSchema* schema = find_schema(form.domain, form.type, opset);
  ASSIGN_OR_RETURN(form.attributes, attributes(scope, node, schema));
  for (const std::string_view name : node.outputs) {
    ASSIGN_OR_RETURN(form.outputs.emplace_back(), define(scope, name));
  }
  const auto local = functions_.find(FunctionKey(form.domain, form.type, node.overload));
  const bool standard = form.domain.empty() && schema && has_kernel(form);
  if (local != functions_.end() && !standard) return call_function(scope, *local->second, form);
  return add_operator(scope, node, std::move(form), schema, opset);
}

StatusOr<Attributes> Builder::attributes(const Scope& scope, const wire::Node& node, const OpSchema* schema) {
  Attributes result;
  for (const wire::Attribute& a : node.attributes) {
    if (!a.ref_name.empty()) {
      const AttributeValue* value = scope.frame->bound ? scope.frame->bound->find(a.ref_name) : nullptr;
      if (!scope.frame->function)
        return invalid(fmt::format("attribute '{}' refers to '{}' outside of a function", a.name, a.ref_name));
      if (static_cast<AttrType>(a.type) == AttrType::kGraph) {
        return unsupported(fmt::format("attribute '{}' passes a graph through a function", a.name));
      }
      if (value) result.set(a.name, *value);
      continue;
    }
    if (static_cast<AttrType>(a.type) == AttrType::kGraph) continue;
    if (result.find(a.name)) return invalid(fmt::format("attribute '{}' occurs twice", a.name));
    const AttributeSchema* declared = schema ? schema->find_attribute(a.name) : nullptr;
    if (declared && declared->type != static_cast<AttrType>(a.type)) {
      return invalid(fmt::format("attribute '{}' must be {} but is {}", a.name, name(declared->type),
                                 name(static_cast<AttrType>(a.type))));
    }
    ASSIGN_OR_RETURN(AttributeValue value, converter_.attribute(a));
    result.set(a.name, std::move(value));
  }
  result.erase("consumed_inputs");
  if (!schema) return result;
  // The node's own version decides what is left out, where the newest one decides otherwise.
  const OpSchema& newest = schema_versions(schema->domain, schema->name).back();
  for (const AttributeSchema& a : schema->attributes) {
    const AttributeSchema* now = newest.find_attribute(a.name);
    if (!a.has_default || !now || now->type != a.type || result.find(a.name)) continue;
    if (a.type == AttrType::kInt && (!now->has_default || now->i != a.i)) result.set(a.name, a.i);
    if (a.type == AttrType::kFloat && (!now->has_default || now->f != a.f)) result.set(a.name, a.f);
    if (a.type == AttrType::kString && (!now->has_default || now->s != a.s)) result.set(a.name, std::string(a.s));
  }
  return result;
}

bool Builder::has_kernel(const NodeForm& form) const {
  return !options_.has_kernel || options_.has_kernel(form.domain, form.type);
}

Status Builder::add_operator(Scope& scope, const wire::Node& node, NodeForm form, const OpSchema* schema, int opset) {
  if (form.domain.empty() && form.type == "Constant") return add_constant(scope, node, form);
  if (schema) {
    const auto n_in = static_cast<int>(form.inputs.size()), n_out = static_cast<int>(form.outputs.size());
    if (n_in > schema->max_inputs)
      return invalid(fmt::format("{} inputs are given, at most {} allowed", n_in, schema->max_inputs));
    if (n_out > schema->max_outputs) {
      return invalid(fmt::format("{} outputs are asked for, at most {} allowed", n_out, schema->max_outputs));
    }
    if (n_in < schema->min_inputs)
      return invalid(fmt::format("{} inputs are given, at least {} needed", n_in, schema->min_inputs));
    RETURN_IF_ERROR(check_types(*scope.graph, form));
  } else if (const auto versions = schema_versions(form.domain, form.type); !versions.empty()) {
    return missing(scope, node, std::move(form),
                   fmt::format("exists from opset {} on; the model uses {}", versions.front().since_version, opset));
  } else if (!has_kernel(form) || (is_known_domain(form.domain) && !options_.has_kernel)) {
    const OpSchema* nearest = nearest_schema(form.domain, form.type);
    return missing(scope, node, std::move(form),
                   fmt::format("no such operator is known{}",
                               nearest ? fmt::format("; the nearest is {}{}{}", nearest->domain,
                                                     nearest->domain.empty() ? "" : ".", nearest->name)
                                       : ""));
  }
  form.version = schema ? schema->since_version : opset;
  const NodeForm original = form;
  const auto hint = [&](ValueId v) { return hinted(*scope.graph, v); };
  Rewriter rewriter(*scope.graph, form.name.empty() ? form.type : form.name, hint);
  RETURN_IF_ERROR(upgrade(rewriter, form));
  for (const NodeId id : rewriter.made()) scope.graph->node(id).origin = {origin(scope, node)};
  if (form.type.empty()) return absl::OkStatus();
  if (!has_kernel(form)) {
    const OpSchema* newest =
        schema_versions(form.domain, form.type).empty() ? nullptr : &schema_versions(form.domain, form.type).back();
    ASSIGN_OR_RETURN(const wire::Function* function, schema_body(newest, opset));
    const NodeForm* call = &form;
    if (!function && rewriter.made().empty()) {
      ASSIGN_OR_RETURN(function, schema_body(schema, opset));
      call = &original;
    }
    if (function) return call_function(scope, *function, *call);
    return missing(scope, node, std::move(form), "no kernel for it is here, and it is no function");
  }
  RETURN_IF_ERROR(place(scope, node, std::move(form)));
  for (const NodeId id : rewriter.made()) derive_output_types(*scope.graph, id);
  return absl::OkStatus();
}

Status Builder::place(Scope& scope, const wire::Node& node, NodeForm form) {
  Graph& g = *scope.graph;
  const NodeId id = g.add_node({std::move(form.domain), std::move(form.type), form.version}, form.name,
                               std::move(form.inputs), std::move(form.outputs), std::move(form.attributes));
  g.node(id).origin = {origin(scope, node)};
  RETURN_IF_ERROR(add_bodies(scope, node, id));
  if (g.node(id).op.is("Scan") && g.node(id).attributes.find("_batched")) return spell_out_batched_scan(g, id);
  derive_output_types(g, id);
  return absl::OkStatus();
}

Status Builder::add_constant(Scope& scope, const wire::Node& node, const NodeForm& form) {
  if (form.outputs.size() != 1 || !form.inputs.empty()) return invalid("a Constant has one output and no input");
  Graph& g = *scope.graph;
  Tensor tensor;
  int given = 0;
  for (const auto& [name, value] : form.attributes) {
    ++given;
    if (name == "value" && std::holds_alternative<Tensor>(value)) {
      tensor = std::get<Tensor>(value);
    } else if (name == "value_int" && std::holds_alternative<int64_t>(value)) {
      tensor = tensor_of<int64_t>({}, {std::get<int64_t>(value)});
    } else if (name == "value_float" && std::holds_alternative<float>(value)) {
      tensor = tensor_of<float>({}, {std::get<float>(value)});
    } else if (name == "value_string" && std::holds_alternative<std::string>(value)) {
      tensor = tensor_of<std::string>({}, {std::get<std::string>(value)});
    } else if (name == "value_ints" && std::holds_alternative<std::vector<int64_t>>(value)) {
      const auto& v = std::get<std::vector<int64_t>>(value);
      tensor = tensor_of<int64_t>({static_cast<int64_t>(v.size())}, v);
    } else if (name == "value_floats" && std::holds_alternative<std::vector<float>>(value)) {
      const auto& v = std::get<std::vector<float>>(value);
      tensor = tensor_of<float>({static_cast<int64_t>(v.size())}, v);
    } else if (name == "value_strings" && std::holds_alternative<std::vector<std::string>>(value)) {
      const auto& v = std::get<std::vector<std::string>>(value);
      tensor = tensor_of<std::string>({static_cast<int64_t>(v.size())}, v);
    } else if (name == "sparse_value") {
      for (const wire::Attribute& a : node.attributes) {
        if (a.name != name || a.sparse_tensors.empty()) continue;
        ASSIGN_OR_RETURN(tensor, converter_.densified(a.sparse_tensors[0]));
      }
    } else {
      return invalid(fmt::format("attribute '{}' is no value of a Constant", name));
    }
  }
  if (given != 1 || tensor.dtype == DType::kUndefined) return invalid("a Constant needs exactly one value");
  if (form.outputs[0].valid()) g.make_constant(form.outputs[0], std::move(tensor));
  return absl::OkStatus();
}

}  // namespace forethought
