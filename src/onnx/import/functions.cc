// Calls: local functions and schema bodies are copied into the graph that calls them.
#include <fmt/format.h>

#include "base/one_line.h"
#include "onnx/import/builder.h"
#include "onnx/import/types.h"

namespace forethought {
namespace {

constexpr int kMaxCallDepth = 100;
constexpr size_t kMaxPrefix = 200;  // names of calls are repeated for all that is inside

// Attribute defaults of an operator's schema as values.
void add_schema_defaults(const OpSchema& schema, Attributes& attributes) {
  for (const AttributeSchema& a : schema.attributes) {
    if (!a.has_default || attributes.find(a.name)) continue;
    switch (a.type) {
      case AttrType::kInt:
        attributes.set(a.name, a.i);
        break;
      case AttrType::kFloat:
        attributes.set(a.name, a.f);
        break;
      case AttrType::kString:
        attributes.set(a.name, std::string(a.s));
        break;
      case AttrType::kInts:
        attributes.set(a.name, std::vector<int64_t>(a.ints.begin(), a.ints.end()));
        break;
      case AttrType::kStrings:
        attributes.set(a.name, std::vector<std::string>(a.strings.begin(), a.strings.end()));
        break;
      default:
        break;
    }
  }
}

std::string operator_name(std::string_view domain, std::string_view type) {
  return fmt::format("{}{}{}", domain, domain.empty() ? "" : ".", type);
}

}  // namespace

StatusOr<const wire::Function*> Builder::schema_body(const OpSchema* schema, int opset) {
  if (!schema || schema->bodies.empty()) return nullptr;
  // A body keeps the opset that it is written for, so an older model may use a newer body of the same form.
  const FunctionBody* body = schema->body_for(opset);
  if (!body) body = &schema->bodies.front();
  auto& parsed = bodies_[body];
  if (!parsed) {
    ASSIGN_OR_RETURN(wire::Function function, wire::parse_function(body->bytes));
    parsed = std::make_unique<wire::Function>(std::move(function));
  }
  return parsed.get();
}

int64_t Builder::inlined_nodes(const std::vector<wire::Node>& nodes, int calls,
                               std::map<const wire::Function*, int64_t>& known) const {
  const int64_t enough = options_.max_nodes + 1;
  int64_t count = 0;
  for (const wire::Node& n : nodes) {
    ++count;
    for (const wire::Attribute& a : n.attributes)
      for (const wire::Graph& g : a.graphs) count += inlined_nodes(g.nodes, calls, known);
    const std::string_view domain = canonical_domain(n.domain);
    const auto local = functions_.find(FunctionKey(domain, n.op_type, n.overload));
    if (!domain.empty() && local != functions_.end() && calls < kMaxCallDepth) {
      // A function that is being counted calls itself: it counts as nothing here, and is an error when it is inlined.
      const auto [entry, fresh] = known.emplace(local->second, 0);
      if (fresh) entry->second = inlined_nodes(local->second->nodes, calls + 1, known);
      count += entry->second;
    }
    if (count >= enough) return enough;
  }
  return count;
}

Status Builder::call_function(Scope& scope, const wire::Function& function, const NodeForm& form) {
  int calls = 0;
  for (const Frame* f = scope.frame; f; f = f->caller, ++calls) {
    if (f->function == &function) return invalid(fmt::format("the function '{}' calls itself", function.name));
  }
  if (calls > kMaxCallDepth) return invalid(fmt::format("functions call each other more than {} deep", kMaxCallDepth));
  if (form.inputs.size() > function.inputs.size() || form.outputs.size() > function.outputs.size()) {
    return invalid(fmt::format("the function '{}' takes {} inputs and {} outputs; the call has {} and {}",
                               function.name, function.inputs.size(), function.outputs.size(), form.inputs.size(),
                               form.outputs.size()));
  }
  Attributes bound = form.attributes;
  for (const wire::Attribute& a : function.default_attributes) {
    if (bound.find(a.name)) continue;
    ASSIGN_OR_RETURN(AttributeValue value, converter_.attribute(a));
    bound.set(a.name, std::move(value));
  }
  if (const OpSchema* schema = find_schema(form.domain, form.type, form.version)) add_schema_defaults(*schema, bound);

  Frame frame{.opsets = &function.opsets, .function = &function, .bound = &bound, .caller = scope.frame};
  frame.origin = scope.frame->origin.empty() ? form.name.substr(0, kMaxPrefix) : scope.frame->origin;
  frame.prefix = (form.name.empty() ? form.type : form.name) + "/";
  if (frame.prefix.size() > kMaxPrefix) frame.prefix = fmt::format("{}_{}/", form.type.substr(0, kMaxPrefix), nodes_);
  Graph& g = *scope.graph;
  Scope inner{.graph = &g, .frame = &frame};
  for (const wire::ValueInfo& v : function.value_infos) inner.hints.emplace(v.name, &v.type);
  for (size_t i = 0; i < function.inputs.size(); ++i) {
    if (!inner.names.emplace(function.inputs[i], i < form.inputs.size() ? form.inputs[i] : ValueId{}).second) {
      return invalid(fmt::format("the function '{}' has two inputs named '{}'", function.name, function.inputs[i]));
    }
  }
  for (size_t i = 0; i < form.outputs.size(); ++i) {
    if (form.outputs[i].valid()) inner.presets.emplace(function.outputs[i], form.outputs[i]);
  }
  Status s = add_nodes(inner, function.nodes);
  if (!s.ok()) return with_context(std::move(s), fmt::format("function {}", function.name));

  // An output that no node of the function made is one of its inputs, or the same as another output.
  for (size_t i = 0; i < form.outputs.size(); ++i) {
    const ValueId out = form.outputs[i];
    if (!out.valid()) continue;
    ASSIGN_OR_RETURN(const ValueId made, resolve(inner, function.outputs[i]));
    if (made == out) continue;
    if (!made.valid())
      return invalid(fmt::format("output {} of function '{}' is an input that is not given", i, function.name));
    const OpSchema& identity = schema_versions("", "Identity").back();
    const NodeId id = g.add_node({"", "Identity", identity.since_version}, frame.prefix + "Identity", {made}, {out});
    g.node(id).origin = {frame.origin};
    derive_output_types(g, id);
  }
  return absl::OkStatus();
}

Status Builder::missing(Scope& scope, const wire::Node& node, NodeForm form, std::string why) {
  Missing& m = missing_[{operator_name(canonical_domain(node.domain), node.op_type), std::move(why)}];
  const std::string& caller = scope.frame->origin;
  if (m.count++ == 0) {
    const std::string_view name = !node.name.empty() || node.outputs.empty() ? node.name : node.outputs[0];
    m.first = caller.empty() ? std::string(name) : fmt::format("{} (inside a function)", caller);
  }
  for (const ValueId v : form.outputs) {
    const DType dtype = v.valid() ? hinted(*scope.graph, v) : DType::kUndefined;
    if (dtype != DType::kUndefined) scope.graph->value(v).type = ValueType::tensor(dtype);
  }
  form.version = std::max(form.version, 1);
  return place(scope, node, std::move(form));
}

void Builder::add_refused_types(const Graph& graph) {
  for (uint32_t i = 0; i < graph.node_capacity(); ++i) {
    const GraphNode& n = graph.node(NodeId{i});
    if (n.removed) continue;
    for (const auto& [attribute, body] : n.bodies) add_refused_types(*body);
    if (!options_.has_kernel || !options_.has_kernel(n.op.domain, n.op.type)) continue;
    const Status types = options_.takes_types(graph, n);
    if (types.ok()) continue;
    Missing& m = missing_[{operator_name(n.op.domain, n.op.type), std::string(types.message())}];
    if (m.count++ == 0) m.first = n.name;
  }
}

Status Builder::report_missing(const Graph& graph) {
  if (missing_.empty()) return absl::OkStatus();
  if (options_.takes_types) add_refused_types(graph);
  std::string text =
      fmt::format("{} operator{} of the model cannot be run here:", missing_.size(), missing_.size() > 1 ? "s" : "");
  for (const auto& [what, m] : missing_) {
    const auto& [op, why] = what;
    text += "\n  " +
            one_line(fmt::format("{} ({} node{}, first '{}'): {}", op, m.count, m.count > 1 ? "s" : "", m.first, why));
  }
  return Status(absl::StatusCode::kUnimplemented, text);
}

}  // namespace forethought
