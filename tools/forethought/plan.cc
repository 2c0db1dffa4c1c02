// forethought plan: lanes, steps and bytes, the chosen kernels and why; of everything, one value or one node.
#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "session/memory_report.h"
#include "session/plan_report.h"
#include "tools/forethought/command.h"

namespace forethought {
namespace {

struct PlanArguments {
  ModelArguments model;
  std::string value, node, html;
  bool json = false, memory = false;
};

// Names a value or a node, if the arguments do.
StatusOr<ReportScope> scope_of(const PlanArguments& a, const PreparedGraph& graph, const CompiledProgram& p) {
  ReportScope scope;
  std::vector<std::string> names;
  if (!a.value.empty()) {
    for (size_t i = 0; i < p.values.size(); ++i) {
      if (p.values[i].name == a.value) scope.value = static_cast<ValueNo>(i);
      names.emplace_back(p.values[i].name);
    }
    if (scope.value == kNoId)
      return not_found(
          absl::StrCat("the graph has no value '", a.value, "' after its passes", did_you_mean(a.value, names)));
  }
  if (!a.node.empty()) {
    scope.step = find_step(graph, p, a.node);
    for (size_t s = 0; s < p.steps.size(); ++s) {
      names.emplace_back(p.steps[s].name.substr(0, p.steps[s].name.rfind(" (")));
      for (const std::string& from : origin_of(graph, p, s)) names.push_back(from);
    }
    if (scope.step == kNoId)
      return not_found(
          absl::StrCat("the graph has no node '", a.node, "' after its passes", did_you_mean(a.node, names)));
  }
  return scope;
}

Status write_page(const PlanArguments& a, const PreparedGraph& graph, const CompiledProgram& p) {
  const std::string title = std::filesystem::path(a.model.path).filename().string();
  std::ofstream out(a.html, std::ios::binary);
  out << plan_page(title, plan_json(graph, p));
  out.close();
  return out ? absl::OkStatus() : invalid(absl::StrCat(a.html, " cannot be written"));
}

// With the least limit of the session as it is, and the least of all that hold weights in another way, if they may.
int print_memory(const PlanArguments& a, SessionOptions options, const Session& session, const CompiledProgram& p,
                 const std::vector<Dims>& dims) {
  const MemoryReport report = session.memory_report(p);
  if (a.json) {
    fmt::print("{}\n", memory_json(report, 2));
    return kOk;
  }
  fmt::print("{}", to_string(report, 10));
  const auto asked = options.config.find("session.weights");
  if (asked != options.config.end() && asked->second != "auto") return kOk;
  int64_t least = report.least;
  for (const char* way : {"packed", "streamed"}) {
    options.config["session.weights"] = way;
    options.memory_limit = 0;
    auto other = load_session(a.model, options);
    if (!other.ok()) return fail(other.status(), kBadInput);
    auto compiled = (*other)->plan_for(dims);
    if (!compiled.ok()) return fail(compiled.status(), kBadInput);
    least = std::min(least, (*other)->memory_report(**compiled).least);
  }
  fmt::print("least limit with weights streamed: {} bytes\n", least);
  return kOk;
}

int run(const PlanArguments& a) {
  auto options = session_options(a.model);
  if (!options.ok()) return fail(options.status(), kUsage);
  auto session = load_session(a.model, *options);
  if (!session.ok()) return fail(session.status(), kBadInput);
  auto dims = input_dims(a.model, **session, Sizes::largest);
  if (!dims.ok()) return fail(dims.status(), kUsage);
  auto compiled = (*session)->plan_for(*dims);
  if (!compiled.ok()) return fail(compiled.status(), kBadInput);
  const CompiledProgram& p = **compiled;
  const PreparedGraph& graph = (*session)->prepared();
  const auto scope = scope_of(a, graph, p);
  if (!scope.ok()) return fail(scope.status(), kUsage);
  if (!a.html.empty()) {
    if (Status s = write_page(a, graph, p); !s.ok()) return fail(s, kBadInput);
    fmt::print("{}: {} values, {} steps; open it in a browser\n", a.html, p.plan.values.size(), p.steps.size());
    return kOk;
  }
  if (a.memory) return print_memory(a, *options, **session, p, *dims);
  if (a.json) {
    fmt::print("{}\n", plan_json(graph, p, *scope, 2));
    return kOk;
  }
  fmt::print("{}", plan_text(graph, p, *scope));
  return kOk;
}

}  // namespace

void add_plan(CLI::App& app, int* code) {
  auto* a = new PlanArguments;
  CLI::App* c = app.add_subcommand("plan", "Where every byte lies and why: steps, values, kernels");
  add_model_options(*c, &a->model);
  CLI::Option* value =
      c->add_option("--value", a->value, "Only this value: place, life, alias root, who shares its bytes, who uses it");
  CLI::Option* node =
      c->add_option("--node", a->node, "Only this node: its values, its kernel and what was refused")->excludes(value);
  CLI::Option* json = c->add_flag("--json", a->json, "As JSON");
  CLI::Option* memory =
      c->add_flag("--memory", a->memory,
                  "What the session takes and keeps, the least memory limit that works, and the largest holders")
          ->excludes(value)
          ->excludes(node);
  c->add_option("--html", a->html, "Write one page that shows all of it, for a browser; it needs no network")
      ->excludes(value)
      ->excludes(node)
      ->excludes(memory)
      ->excludes(json);
  c->footer(footer({"plan model.onnx", "plan model.onnx --shape x=1,3,48,320 --node /conv1/Conv",
                    "plan model.onnx --value /conv1/Relu_output_0", "plan model.onnx --memory",
                    "plan model.onnx --html plan.html"}));
  c->callback([a, code] { *code = run(*a); });
}

}  // namespace forethought
