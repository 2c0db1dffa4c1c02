#include "session/pipeline.h"

#include <algorithm>
#include <chrono>

#include "absl/strings/str_cat.h"
#include "base/cpu.h"
#include "base/log.h"
#include "graph/facts.h"
#include "onnx/import/import.h"
#include "ops/op.h"
#include "passes/passes.h"
#include "providers/cpu/cpu_provider.h"

namespace forethought {
namespace {

constexpr std::pair<Stage, const char*> kStages[] = {{Stage::import, "import"},     {Stage::infer, "infer"},
                                                     {Stage::basic, "basic"},       {Stage::partition, "partition"},
                                                     {Stage::extended, "extended"}, {Stage::layout, "layout"}};

// Times a stage and counts nodes around it.
class StageTimer {
 public:
  StageTimer(PipelineReport* report, Stage stage, const Graph* before)
      : report_(report), stage_(stage), nodes_(before ? static_cast<int64_t>(before->node_count_deep()) : 0) {}
  void done(const Graph& after, std::string note = "") {
    const std::chrono::duration<double, std::milli> ms = std::chrono::steady_clock::now() - start_;
    report_->stages.push_back(
        {stage_, ms.count(), nodes_, static_cast<int64_t>(after.node_count_deep()), std::move(note)});
  }

 private:
  PipelineReport* report_;
  Stage stage_;
  int64_t nodes_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

StatusOr<std::vector<std::unique_ptr<Provider>>> make_providers(const SessionOptions& options) {
  register_cpu_provider();
  std::vector<std::unique_ptr<Provider>> providers;
  bool cpu = false;
  for (const ProviderSpec& spec : options.providers) {
    auto made = ProviderRegistry::global().make(spec.name, spec.options);
    if (!made.ok()) {
      if (!options.allow_fallback) return made.status();
      log_warning("{}; falling back to the providers after it", std::string(made.status().message()));
      continue;
    }
    cpu = cpu || (*made)->name() == kCpuProvider;
    providers.push_back(std::move(*made));
  }
  if (!cpu) providers.push_back(make_cpu_provider());
  return providers;
}

void bind_dimensions(Graph& graph, const SessionOptions& options) {
  auto unused = options.free_dimensions;
  for (ValueId v : graph.inputs())
    for (Dim& d : graph.value(v).shape.dims)
      d = d.substitute([&](std::string_view n) -> std::optional<int64_t> {
        const auto it = options.free_dimensions.find(std::string(n));
        if (it == options.free_dimensions.end()) return std::nullopt;
        unused.erase(it->first);
        return it->second;
      });
  for (const auto& [name, number] : unused)
    log_warning("no input has a dim '{}' that could be {}: the number for it has no effect", name, number);
}

void describe_io(const Graph& graph, PipelineReport* report) {
  for (ValueId v : graph.inputs()) {
    const GraphValue& g = graph.value(v);
    report->inputs.push_back({g.name, g.type, g.shape, g.default_value.has_value()});
  }
  for (ValueId v : graph.outputs()) {
    const GraphValue& g = graph.value(v);
    SymShape shape = g.shape;
    if (g.declared && g.declared->has_rank) {
      if (!shape.has_rank) shape = *g.declared;
      for (size_t i = 0; i < shape.dims.size() && shape.rank() == g.declared->rank(); ++i)
        if (!shape.dims[i].is_known() && !g.declared->dims[i].is_unknown()) shape.dims[i] = g.declared->dims[i];
    }
    for (Dim& d : shape.dims)
      if (d.depends_on_data()) d = Dim::unknown();
    report->outputs.push_back({g.name, g.type, shape, false});
  }
}

Status passes(Graph& graph, PassStage pass, Stage stage, const SessionOptions& options, Journal& journal,
              PipelineReport* report) {
  StageTimer timer(report, stage, &graph);
  PassOptions p;
  p.library = &operator_library();
  p.isa = active_isa();
  p.fold_budget = options.fold_budget;
  p.disabled = options.disabled_rewrites;
  const int before = journal.applied_count();
  RETURN_IF_ERROR(with_context(run_passes(graph, pass, p, journal), absl::StrCat(name(stage), " passes")));
  timer.done(graph, absl::StrCat(journal.applied_count() - before, " rewrites"));
  return absl::OkStatus();
}

}  // namespace

bool NodeArg::takes(std::span<const int64_t> dims) const {
  return !shape.has_rank ||
         std::equal(shape.dims.begin(), shape.dims.end(), dims.begin(), dims.end(),
                    [](const Dim& declared, int64_t n) { return !declared.is_known() || declared.value() == n; });
}

const char* name(Stage stage) {
  for (const auto& [s, n] : kStages)
    if (s == stage) return n;
  return "?";
}

std::optional<Stage> stage_from_name(std::string_view wanted) {
  for (const auto& [s, n] : kStages)
    if (wanted == n) return s;
  return std::nullopt;
}

StatusOr<PipelineResult> run_pipeline(ModelSource source, const SessionOptions& options, Stage until) {
  PipelineResult r;
  {
    StageTimer timer(&r.report, Stage::import, nullptr);
    ImportOptions how;
    how.has_kernel = [](std::string_view domain, std::string_view type) {
      return operator_library().has(domain, type);
    };
    how.takes_types = [](const Graph& graph, const GraphNode& node) {
      return operator_library().supports(graph, node);
    };
    how.folder = options.external_data_folder;
    how.budget = source.budget;
    if (source.graph) {
      r.graph = std::move(source.graph);
    } else if (source.path.empty()) {
      ASSIGN_OR_RETURN(r.graph, import_model({source.bytes, source.owner}, how));
    } else {
      ASSIGN_OR_RETURN(r.graph, load_model(source.path, how));
    }
    r.report.info = r.graph->info;
    timer.done(*r.graph);
  }
  if (until == Stage::import) return r;
  Graph& graph = *r.graph;
  {
    StageTimer timer(&r.report, Stage::infer, &graph);
    bind_dimensions(graph, options);
    RETURN_IF_ERROR(bind_operators(graph, operator_library()));
    RETURN_IF_ERROR(infer_shapes(graph));
    describe_io(graph, &r.report);
    timer.done(graph);
  }
  if (until == Stage::infer) return r;
  Journal journal(options.rewrite_limit);
  if (options.optimization_level >= OptimizationLevel::basic)
    RETURN_IF_ERROR(passes(graph, PassStage::basic, Stage::basic, options, journal, &r.report));
  if (until > Stage::basic) {
    StageTimer timer(&r.report, Stage::partition, &graph);
    ASSIGN_OR_RETURN(r.providers, make_providers(options));
    ASSIGN_OR_RETURN(r.report.partition, partition(graph, r.providers, operator_library()));
    timer.done(graph, absl::StrCat(r.report.partition.copies, " copies"));
  }
  if (until > Stage::partition && options.optimization_level >= OptimizationLevel::extended)
    RETURN_IF_ERROR(passes(graph, PassStage::extended, Stage::extended, options, journal, &r.report));
  if (until > Stage::extended && options.optimization_level >= OptimizationLevel::all)
    RETURN_IF_ERROR(passes(graph, PassStage::layout, Stage::layout, options, journal, &r.report));
  r.report.journal = journal.entries();
  return r;
}

}  // namespace forethought
