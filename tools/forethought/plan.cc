// forethought plan: lanes, steps and bytes, the chosen kernels and why; of everything, one value or one node.
#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "plan/report.h"
#include "tools/forethought/command.h"

namespace forethought {
namespace {

struct PlanArguments {
  ModelArguments model;
  std::string value, node;
  bool json = false;
};

void print_kernel(const CompiledProgram& p, size_t step) {
  const KernelFacts& f = p.facts[step];
  if (!p.steps[step].runnable) {
    fmt::print("    kernel: chosen at run, when the sizes of its inputs are known\n");
    return;
  }
  fmt::print("    kernel: {}{}\n", f.kernel, f.reason.empty() ? "" : ": " + f.reason);
  for (const Refusal& r : f.refused) fmt::print("    refused: {}: {}\n", r.kernel, r.reason);
}

nlohmann::json kernels_json(const CompiledProgram& p) {
  nlohmann::json all = nlohmann::json::array();
  for (size_t s = 0; s < p.steps.size(); ++s) {
    nlohmann::json k = {
        {"step", s}, {"name", p.steps[s].name}, {"kernel", p.facts[s].kernel}, {"reason", p.facts[s].reason}};
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
  if (!dims.ok()) return fail(dims.status(), kBadInput);
  auto compiled = (*session)->plan_for(*dims);
  if (!compiled.ok()) return fail(compiled.status(), kBadInput);
  const CompiledProgram& p = **compiled;
  ReportScope scope;
  if (!a.value.empty()) {
    for (size_t i = 0; i < p.values.size(); ++i)
      if (p.values[i].name == a.value) scope.value = static_cast<ValueNo>(i);
    if (scope.value == kNoId)
      return fail(not_found(absl::StrCat("the graph has no value '", a.value, "' after its passes")), kBadInput);
  }
  if (!a.node.empty()) {
    for (size_t s = 0; s < p.steps.size(); ++s)
      if (p.steps[s].name == a.node || p.steps[s].name.starts_with(a.node + " (")) scope.step = static_cast<StepNo>(s);
    if (scope.step == kNoId)
      return fail(not_found(absl::StrCat("the graph has no node '", a.node, "' after its passes")), kBadInput);
  }
  if (a.json) {
    nlohmann::json j = nlohmann::json::parse(to_json(p.problem, p.plan, scope));
    j["kernels"] = kernels_json(p);
    fmt::print("{}\n", j.dump(2));
    return kOk;
  }
  fmt::print("{}", to_text(p.problem, p.plan, scope));
  if (a.value.empty()) {
    fmt::print("\nkernels\n");
    for (size_t s = 0; s < p.steps.size(); ++s) {
      if (scope.step != kNoId && scope.step != static_cast<StepNo>(s)) continue;
      fmt::print("  {:>4} {}\n", s, p.steps[s].name);
      print_kernel(p, s);
    }
  }
  return kOk;
}

}  // namespace

void add_plan(CLI::App& app, int* code) {
  auto* a = new PlanArguments;
  CLI::App* c = app.add_subcommand("plan", "Where every byte lies and why: steps, values, kernels");
  add_model_options(*c, &a->model);
  c->add_option("--value", a->value, "Only this value: place, life, alias root, who shares its bytes");
  c->add_option("--node", a->node, "Only this node: its values, its kernel and what was refused");
  c->add_flag("--json", a->json, "As JSON");
  c->callback([a, code] { *code = run(*a); });
}

}  // namespace forethought
