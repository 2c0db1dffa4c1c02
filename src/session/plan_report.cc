#include "session/plan_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_join.h"
#include "session/plan_page_template.h"

namespace forethought {
namespace {

using Json = nlohmann::ordered_json;

bool reads_or_writes(const PlanStep& step, ValueNo value) {
  return std::ranges::find(step.reads, value) != step.reads.end() ||
         std::ranges::find(step.writes, value) != step.writes.end();
}

// The steps that a report names: all of them, one, or those that read or write a value.
bool shown(const PlanProblem& problem, size_t s, const ReportScope& scope) {
  if (scope.step != kNoId) return scope.step == static_cast<StepNo>(s);
  return scope.value == kNoId || reads_or_writes(problem.steps[s], scope.value);
}

// The problem with the names of its steps, which live in the program.
PlanProblem named_problem(const CompiledProgram& p) {
  PlanProblem problem = p.problem();
  for (size_t s = 0; s < problem.steps.size() && s < p.steps.size(); ++s) problem.steps[s].name = p.steps[s].name;
  return problem;
}

std::string kernel_text(const PreparedGraph& graph, const CompiledProgram& p, size_t s) {
  std::string text;
  if (const auto from = origin_of(graph, p, s); from.size() > 1)
    text += fmt::format("    stands for: {}\n", absl::StrJoin(from, ", "));
  if (!p.steps[s].runnable) return text + "    kernel: chosen at run, when the sizes of its inputs are known\n";
  const KernelFacts& f = *(*p.facts)[s];
  text += fmt::format("    kernel: {}{}\n", f.kernel, f.reason.empty() ? "" : ": " + f.reason);
  for (const Refusal& r : f.refused) text += fmt::format("    refused: {}: {}\n", r.kernel, r.reason);
  return text;
}

// What lies with gaps, or in another order, in the bytes of another value.
std::string strided_text(const CompiledProgram& p) {
  std::string text;
  for (const ProgramValue& v : p.values)
    if (!v.strides.empty())
      text += fmt::format("  {}: {}, steps of {} elements\n", v.name, to_string(v.dims), to_string(v.strides));
  return text.empty() ? text : "strided views\n" + text + "\n";
}

Json kernel_json(const PreparedGraph& graph, const CompiledProgram& p, size_t s) {
  Json k{{"step", s},
         {"name", p.steps[s].name},
         {"kernel", (*p.facts)[s]->kernel},
         {"reason", (*p.facts)[s]->reason},
         {"origin", origin_of(graph, p, s)},
         {"at_run", p.steps[s].runnable == nullptr}};
  for (const Refusal& r : (*p.facts)[s]->refused) k["refused"].push_back({{"kernel", r.kernel}, {"reason", r.reason}});
  return k;
}

Json as_json(const PreparedGraph& graph, const CompiledProgram& p, const ReportScope& scope) {
  const PlanProblem problem = named_problem(p);
  Json j = Json::parse(to_json(problem, p.plan, scope));
  j["copies"] = p.device_copies;
  j["copied_bytes"] = p.copied_bytes;
  j["waits"] = p.waits.waits;
  j["waits_implied"] = p.waits.edges - p.waits.waits;
  j["lane_devices"] = Json::array();
  for (const std::string& device : p.lane_device_names) j["lane_devices"].push_back(device);
  for (Json& value : j["values"]) {
    const auto v = value["id"].get<size_t>();
    const ProgramValue* facts = v < p.values.size() ? &p.values[v] : nullptr;  // scratch follows the graph's values
    value["dtype"] = facts && facts->dtype != DType::kUndefined ? Json(std::string(name(facts->dtype))) : Json();
    if (facts && !facts->strides.empty())
      value["strides"] = std::vector<int64_t>(facts->strides.begin(), facts->strides.end());
    value["dims"] = facts && facts->known ? Json(std::vector<int64_t>(facts->dims.begin(), facts->dims.end())) : Json();
  }
  j["lane_choice"] = {
      {"reason", p.host_lanes.reason}, {"expected_ns", p.host_lanes.ns}, {"expected_one_lane_ns", p.host_lanes.one_ns}};
  j["kernels"] = Json::array();
  for (size_t s = 0; s < p.steps.size(); ++s)
    if (shown(problem, s, scope)) j["kernels"].push_back(kernel_json(graph, p, s));
  j["bodies"] = Json::array();
  for (const auto& [key, body] : p.bodies) {
    const auto step = static_cast<size_t>(
        std::ranges::find(p.steps, static_cast<int32_t>(key.first), &ProgramStep::node) - p.steps.begin());
    const auto prepared = graph.bodies.find(key);
    if (step == p.steps.size() || prepared == graph.bodies.end() || !shown(problem, step, scope)) continue;
    j["bodies"].push_back({{"step", step},
                           {"body", key.second},
                           {"name", p.steps[step].name},
                           {"plan", as_json(*prepared->second, *body, {})}});
  }
  return j;
}

// Text inside an element of a page.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '<') {
      out += "&lt;";
    } else if (c == '&') {
      out += "&amp;";
    } else {
      out += c;
    }
  }
  return out;
}

// JSON inside a script element: no "<" can end it or open a comment.
std::string without_tags(std::string_view json) {
  std::string out;
  out.reserve(json.size());
  for (const char c : json) {
    if (c == '<') {
      out += "\\u003c";
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace

std::vector<std::string> origin_of(const PreparedGraph& graph, const CompiledProgram& p, size_t step) {
  const int32_t node = p.steps[step].node;
  if (node < 0 || static_cast<size_t>(node) >= graph.view->node_capacity()) return {};
  return graph.view->node(NodeId{static_cast<uint32_t>(node)}).origin;
}

StepNo find_step(const PreparedGraph& graph, const CompiledProgram& p, std::string_view name) {
  const std::string named = std::string(name) + " (";
  for (size_t s = 0; s < p.steps.size(); ++s)
    if (p.steps[s].name == name || p.steps[s].name.starts_with(named)) return static_cast<StepNo>(s);
  for (size_t s = 0; s < p.steps.size(); ++s)
    if (std::ranges::count(origin_of(graph, p, s), name) > 0) return static_cast<StepNo>(s);
  return kNoId;
}

std::string plan_text(const PreparedGraph& graph, const CompiledProgram& p, ReportScope scope) {
  const PlanProblem problem = named_problem(p);
  std::string text = to_text(problem, p.plan, scope);
  text += fmt::format("\nlanes: {} ({})\ncopies between devices: {}, {} bytes a run\nwaits between lanes: {}", p.lanes,
                      p.host_lanes.reason, p.device_copies, p.copied_bytes, p.waits.waits);
  if (p.waits.edges > p.waits.waits)
    text += fmt::format(" ({} more are implied by these and by the order within lanes)", p.waits.edges - p.waits.waits);
  text += "\n\n" + strided_text(p) + "kernels\n";
  for (size_t s = 0; s < p.steps.size(); ++s)
    if (shown(problem, s, scope)) text += fmt::format("  {:>4} {}\n", s, p.steps[s].name) + kernel_text(graph, p, s);
  return text;
}

std::string plan_json(const PreparedGraph& graph, const CompiledProgram& p, ReportScope scope, int indent) {
  return as_json(graph, p, scope).dump(indent, ' ', false, Json::error_handler_t::replace);
}

std::string plan_page(std::string_view title, std::string_view json) {
  std::string page(kPlanPageTemplate);
  const auto fill = [&page](std::string_view mark, std::string_view text) {
    const size_t at = page.find(mark);
    if (at != std::string::npos) page.replace(at, mark.size(), text);
  };
  fill("{{plan}}", without_tags(json));  // first: it is the last mark of the page, and its text is never searched
  fill("{{title}}", escaped(title));
  return page;
}

}  // namespace forethought
