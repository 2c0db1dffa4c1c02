// forethought stages: the way from the file to the plan: times, node counts, claims, rewrites.
#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "graph/size_formulas.h"
#include "tools/forethought/command.h"

namespace forethought {
namespace {

struct StagesArguments {
  ModelArguments model;
  bool json = false, journal = false, claims = false;
};

// What is known when the shapes are.
struct Planned {
  int lanes = 0;  // of the host; 0: that is chosen when the shapes are known
  std::string lanes_reason;
  std::string offsets;  // where those of a new set of shapes come from
};

StatusOr<Planned> planned(const StagesArguments& a, const Session& session) {
  const auto dims = input_dims(a.model, session, Sizes::largest);
  if (!dims.ok() && a.model.shapes.empty()) {
    const char* const when = "when the shapes of the inputs are known: give --shape or --dim";
    return Planned{0, fmt::format("chosen {}", when), fmt::format("decided {}", when)};
  }
  if (!dims.ok()) return as_wrong_option(dims.status());
  ASSIGN_OR_RETURN(const auto program, session.plan_for(*dims));
  const std::string refused = PlanOrder::refusal(program->problem(), program->plan);
  return Planned{program->lanes, program->host_lanes.reason,
                 refused.empty() ? "one order for all sizes that compare alike, as far as it keeps to the lower bound"
                                 : fmt::format("packed for each set of shapes anew: {}", refused)};
}

// Where the sizes of a new set of shapes come from.
std::string sizes_of(const Session& session) {
  const SizeFormulas formulas(*session.prepared().view);
  const std::string refused = formulas.refusal();
  return refused.empty() ? fmt::format("{} formulas of the inputs' dims", formulas.size())
                         : fmt::format("the shape rules, for each set of shapes anew: {}", refused);
}

nlohmann::json as_json(const PipelineReport& r, const Planned& p, const std::string& sizes) {
  nlohmann::json j;
  j["sizes"] = sizes;
  j["offsets"] = p.offsets;
  j["lanes"] = {{"count", p.lanes}, {"reason", p.lanes_reason}};
  for (const StageRecord& s : r.stages)
    j["stages"].push_back({{"stage", name(s.stage)},
                           {"ms", s.ms},
                           {"nodes_before", s.nodes_before},
                           {"nodes_after", s.nodes_after},
                           {"note", s.note}});
  for (const NodePlacement& p : r.partition.placements)
    j["claims"].push_back(
        {{"node", p.node}, {"operator", p.op}, {"provider", p.provider}, {"reason", p.reason}, {"refused", p.refused}});
  for (const JournalEntry& e : r.journal)
    j["journal"].push_back(
        {{"number", e.number}, {"rule", e.rule}, {"place", e.place}, {"applied", e.applied}, {"reason", e.reason}});
  return j;
}

// How many nodes each provider runs in the end, bodies included.
void count_nodes(const Graph& graph, std::map<std::string, int>* nodes) {
  for (NodeId id : graph.order()) {
    ++(*nodes)[graph.node(id).provider];
    for (const auto& [attribute, body] : graph.node(id).bodies) count_nodes(*body, nodes);
  }
}

int run(const StagesArguments& a) {
  auto options = session_options(a.model);
  if (!options.ok()) return fail(options.status(), kUsage);
  auto loaded = load_session(a.model, *options);
  if (!loaded.ok()) return fail(loaded.status(), kBadInput);
  const Session& session = **loaded;
  const PipelineReport& r = session.report();
  const auto plan = planned(a, session);
  if (!plan.ok()) return fail(plan.status(), kBadInput);
  if (a.json) {
    fmt::print("{}\n",
               as_json(r, *plan, sizes_of(session)).dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
    return kOk;
  }
  fmt::print("{:<10} {:>9} {:>8} {:>8}\n", "stage", "ms", "before", "after");
  for (const StageRecord& s : r.stages)
    fmt::print("{:<10} {:>9.3f} {:>8} {:>8}  {}\n", name(s.stage), s.ms, s.nodes_before, s.nodes_after, s.note);
  std::map<std::string, int> claimed, runs, applied, declined;
  for (const NodePlacement& p : r.partition.placements) claimed[p.provider] += p.fused_nodes;
  count_nodes(*session.prepared().view, &runs);
  for (const auto& [provider, n] : claimed)
    fmt::print("{} claimed {} nodes and runs {} after all rewrites\n", provider, n, runs[provider]);
  fmt::print("lanes: {}\n",
             plan->lanes == 0 ? plan->lanes_reason : fmt::format("{} ({})", plan->lanes, plan->lanes_reason));
  fmt::print("sizes: {}\n", sizes_of(session));
  fmt::print("offsets: {}\n", plan->offsets);
  for (const JournalEntry& e : r.journal) ++(e.applied ? applied : declined)[e.rule];
  for (const auto& [rule, n] : applied) fmt::print("applied  {:>6}  {}\n", n, rule);
  for (const auto& [rule, n] : declined) fmt::print("declined {:>6}  {}\n", n, rule);
  if (a.claims)
    for (const NodePlacement& p : r.partition.placements) {
      fmt::print("{} ({}): {}: {}\n", p.node, p.op, p.provider, p.reason);
      for (const auto& [provider, reason] : p.refused) fmt::print("    not {}: {}\n", provider, reason);
    }
  if (a.journal)
    for (const JournalEntry& e : r.journal)
      fmt::print("{} {} @ {}: {}{}\n", e.applied ? fmt::format("#{}", e.number) : "-", e.rule, e.place,
                 e.applied ? "applied" : "declined", e.reason.empty() ? "" : ": " + e.reason);
  return kOk;
}

}  // namespace

void add_stages(CLI::App& app, int* code) {
  auto* a = new StagesArguments;
  CLI::App* c =
      app.add_subcommand("stages", "Each stage from file to plan: time, nodes, claims of the providers, rewrites");
  add_model_options(*c, &a->model);
  c->add_flag("--journal", a->journal, "Every attempt of a rewrite, with the reason of each that was declined");
  c->add_flag("--claims", a->claims, "Every node's provider, and why others did not take it");
  c->add_flag("--json", a->json, "All of it as JSON");
  c->footer(footer({"stages model.onnx", "stages model.onnx --journal --level basic", "stages model.onnx --claims"}));
  c->callback([a, code] { *code = run(*a); });
}

}  // namespace forethought
