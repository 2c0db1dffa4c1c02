// forethought plan: lanes, steps and bytes, the chosen kernels and why; of everything, one value or one node.
#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "plan/report.h"
#include "tools/forethought/command.h"

namespace forethought {
namespace {

struct PlanArguments {
  ModelArguments model;
  std::string value, node;
  bool json = false;
};

// The nodes of the file that a step stands for.
std::vector<std::string> origin(const Session& session, const CompiledProgram& p, size_t step) {
  const int32_t node = p.steps[step].node;
  const Graph& g = *session.prepared().view;
  if (node < 0 || static_cast<size_t>(node) >= g.node_capacity()) return {};
  return g.node(NodeId{static_cast<uint32_t>(node)}).origin;
}

// The step of a node, by its name or the name of a node of the file that it stands for.
StepNo find_step(const Session& session, const CompiledProgram& p, const std::string& name) {
  for (size_t s = 0; s < p.steps.size(); ++s)
    if (p.steps[s].name == name || p.steps[s].name.starts_with(name + " (")) return static_cast<StepNo>(s);
  for (size_t s = 0; s < p.steps.size(); ++s)
    for (const std::string& from : origin(session, p, s))
      if (from == name) return static_cast<StepNo>(s);
  return kNoId;
}

void print_kernel(const Session& session, const CompiledProgram& p, size_t step) {
  const KernelFacts& f = p.facts[step];
  if (const auto from = origin(session, p, step); from.size() > 1)
    fmt::print("    stands for: {}\n", absl::StrJoin(from, ", "));
  if (!p.steps[step].runnable) {
    fmt::print("    kernel: chosen at run, when the sizes of its inputs are known\n");
    return;
  }
  fmt::print("    kernel: {}{}\n", f.kernel, f.reason.empty() ? "" : ": " + f.reason);
  for (const Refusal& r : f.refused) fmt::print("    refused: {}: {}\n", r.kernel, r.reason);
}

// The steps that the report names: all of them, one, or those that read or write a value.
bool shown(const PlanProblem& problem, size_t s, const ReportScope& scope) {
  if (scope.step != kNoId) return scope.step == static_cast<StepNo>(s);
  if (scope.value == kNoId) return true;
  const auto has = [&](const std::vector<ValueNo>& list) {
    return std::find(list.begin(), list.end(), scope.value) != list.end();
  };
  return has(problem.steps[s].reads) || has(problem.steps[s].writes);
}

nlohmann::json kernels_json(const Session& session, const CompiledProgram& p, const ReportScope& scope) {
  nlohmann::json all = nlohmann::json::array();
  for (size_t s = 0; s < p.steps.size(); ++s) {
    if (!shown(p.problem, s, scope)) continue;
    nlohmann::json k = {
        {"step", s}, {"name", p.steps[s].name}, {"kernel", p.facts[s].kernel}, {"reason", p.facts[s].reason}};
    k["origin"] = origin(session, p, s);
    k["at_run"] = p.steps[s].runnable == nullptr;
    for (const Refusal& r : p.facts[s].refused) k["refused"].push_back({{"kernel", r.kernel}, {"reason", r.reason}});
    all.push_back(std::move(k));
  }
  return all;
}

int run(const PlanArguments& a) {
  auto options = session_options(a.model);
  if (!options.ok()) return fail(options.status(), kUsage);
  auto session = load_session(a.model, *options);
  if (!session.ok()) return fail(session.status(), kBadInput);
  auto dims = input_dims(a.model, (*session)->inputs());
  if (!dims.ok()) return fail(dims.status(), kUsage);
  auto compiled = (*session)->plan_for(*dims);
  if (!compiled.ok()) return fail(compiled.status(), kBadInput);
  const CompiledProgram& p = **compiled;
  ReportScope scope;
  if (!a.value.empty()) {
    for (size_t i = 0; i < p.values.size(); ++i)
      if (p.values[i].name == a.value) scope.value = static_cast<ValueNo>(i);
    std::vector<std::string> names;
    for (const ProgramValue& v : p.values) names.push_back(v.name);
    if (scope.value == kNoId)
      return fail(not_found(absl::StrCat("the graph has no value '", a.value, "' after its passes",
                                         did_you_mean(a.value, names))),
                  kUsage);
  }
  if (!a.node.empty()) {
    scope.step = find_step(**session, p, a.node);
    std::vector<std::string> names;
    for (size_t s = 0; s < p.steps.size(); ++s) {
      names.push_back(p.steps[s].name.substr(0, p.steps[s].name.rfind(" (")));
      for (const std::string& from : origin(**session, p, s)) names.push_back(from);
    }
    if (scope.step == kNoId)
      return fail(
          not_found(absl::StrCat("the graph has no node '", a.node, "' after its passes", did_you_mean(a.node, names))),
          kUsage);
  }
  PlanProblem problem = p.problem;
  for (size_t s = 0; s < problem.steps.size() && s < p.steps.size(); ++s) problem.steps[s].name = p.steps[s].name;
  if (a.json) {
    nlohmann::ordered_json j = nlohmann::ordered_json::parse(to_json(problem, p.plan, scope));
    j["kernels"] = kernels_json(**session, p, scope);
    fmt::print("{}\n", j.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
    return kOk;
  }
  fmt::print("{}", to_text(problem, p.plan, scope));
  fmt::print("\nkernels\n");
  for (size_t s = 0; s < p.steps.size(); ++s) {
    if (!shown(problem, s, scope)) continue;
    fmt::print("  {:>4} {}\n", s, p.steps[s].name);
    print_kernel(**session, p, s);
  }
  return kOk;
}

}  // namespace

void add_plan(CLI::App& app, int* code) {
  auto* a = new PlanArguments;
  CLI::App* c = app.add_subcommand("plan", "Where every byte lies and why: steps, values, kernels");
  add_model_options(*c, &a->model);
  CLI::Option* value =
      c->add_option("--value", a->value, "Only this value: place, life, alias root, who shares its bytes, who uses it");
  c->add_option("--node", a->node, "Only this node: its values, its kernel and what was refused")->excludes(value);
  c->add_flag("--json", a->json, "As JSON");
  c->footer(footer({"plan model.onnx", "plan model.onnx --shape x=1,3,48,320 --node /conv1/Conv",
                    "plan model.onnx --value /conv1/Relu_output_0", "plan model.onnx --json"}));
  c->callback([a, code] { *code = run(*a); });
}

}  // namespace forethought
