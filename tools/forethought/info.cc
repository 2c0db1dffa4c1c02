// forethought info: what a model file says about itself.
#include <fmt/core.h>

#include <filesystem>
#include <map>

#include "onnx/import/import.h"
#include "tools/forethought/command.h"

namespace forethought {
namespace {

void count_operators(const Graph& g, std::map<std::string, int>* counts) {
  for (NodeId id : g.order()) {
    ++(*counts)[to_string(g.node(id).op)];
    for (const auto& [attribute, body] : g.node(id).bodies) count_operators(*body, counts);
  }
}

void sum_constants(const Graph& g, int64_t* count, int64_t* bytes) {
  for (uint32_t i = 0; i < g.value_capacity(); ++i) {
    const GraphValue& v = g.value(ValueId{i});
    if (v.removed || !v.constant) continue;
    ++*count;
    *bytes += v.constant->bytes();
  }
  for (NodeId id : g.order())
    for (const auto& [attribute, body] : g.node(id).bodies) sum_constants(*body, count, bytes);
}

void print_args(const char* title, const std::vector<NodeArg>& args) {
  fmt::print("{}\n", title);
  for (const NodeArg& a : args)
    fmt::print("  {}: {}{}{}\n", a.name, to_string(a.type), a.type.is_tensor() ? " " + to_string(a.shape) : "",
               a.has_default ? " (has a default)" : "");
}

// The graph as the file has it, without asking whether its operators can be run.
StatusOr<PipelineResult> describe_only(const ModelArguments& a) {
  PipelineResult r;
  ASSIGN_OR_RETURN(r.graph, load_model(a.path));
  const Graph& g = *r.graph;
  r.report.info = g.info;
  for (ValueId v : g.inputs())
    r.report.inputs.push_back(
        {g.value(v).name, g.value(v).type, g.value(v).shape, g.value(v).default_value.has_value()});
  for (ValueId v : g.outputs()) r.report.outputs.push_back({g.value(v).name, g.value(v).type, g.value(v).shape});
  return r;
}

int run(const ModelArguments& a) {
  auto options = session_options(a);
  if (!options.ok()) return fail(options.status(), kUsage);
  auto loaded = load_to_stage(a, *options, Stage::infer);
  if (absl::IsUnimplemented(loaded.status())) {  // what cannot be run can be described all the same
    const std::string why(loaded.status().message());
    loaded = describe_only(a);
    if (loaded.ok()) fmt::print("This model cannot be run: {}\n\n", why);
  }
  if (!loaded.ok()) return fail(loaded.status(), kBadInput);
  const PipelineReport& r = loaded->report;
  std::error_code error;
  const auto size = std::filesystem::file_size(a.path, error);
  fmt::print("{}: {}, IR version {}\n", a.path, error ? "?" : bytes_text(static_cast<int64_t>(size)),
             r.info.ir_version);
  if (!r.info.producer_name.empty()) fmt::print("producer: {} {}\n", r.info.producer_name, r.info.producer_version);
  if (!r.info.graph_name.empty()) fmt::print("graph: {}\n", r.info.graph_name);
  for (const OpsetImport& o : r.info.opsets)
    fmt::print("opset: {} {}\n", o.domain.empty() ? "ai.onnx" : o.domain, o.version);
  print_args("inputs", r.inputs);
  print_args("outputs", r.outputs);
  int64_t count = 0, bytes = 0;
  sum_constants(*loaded->graph, &count, &bytes);
  fmt::print("constants: {}, {} ({} copied because they could not be used in place)\n", count, bytes_text(bytes),
             bytes_text(r.info.copied_bytes));
  std::map<std::string, int> counts;
  count_operators(*loaded->graph, &counts);
  fmt::print("operators ({} nodes, in their newest forms)\n", loaded->graph->node_count_deep());
  for (const auto& [op, n] : counts) fmt::print("  {:5}  {}\n", n, op);
  if (!r.info.metadata.empty()) fmt::print("metadata\n");
  for (const auto& [key, value] : r.info.metadata)
    fmt::print("  {}: {}\n", key,
               value.size() > 200 ? value.substr(0, 200) + fmt::format("… ({} bytes)", value.size()) : value);
  return kOk;
}

}  // namespace

void add_info(CLI::App& app, int* code) {
  auto* a = new ModelArguments;
  CLI::App* c = app.add_subcommand("info", "Inputs, outputs, opsets, operators, size and metadata of a model");
  add_model_options(*c, a);
  c->footer(footer({"info model.onnx"}));
  c->callback([a, code] { *code = run(*a); });
}

}  // namespace forethought
