// From a file to a graph that is ready to be prepared, stage by stage; each stage can be looked at.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "partition/partition.h"
#include "passes/journal.h"
#include "session/options.h"

namespace forethought {

struct NodeArg {
  std::string name;
  ValueType type;
  SymShape shape;            // declared for inputs; inferred (with declared names where those say more) for outputs
  bool has_default = false;  // an input that may be left out

  // Whether these dims are of the declared shape: its rank and its numbers. Symbols take any size.
  bool takes(std::span<const int64_t> dims) const;
};

enum class Stage { import, infer, basic, partition, extended, layout };
const char* name(Stage stage);
std::optional<Stage> stage_from_name(std::string_view name);

struct StageRecord {
  Stage stage = Stage::import;
  double ms = 0;
  int64_t nodes_before = 0, nodes_after = 0;  // bodies included
  std::string note;
};

struct PipelineReport {
  std::vector<StageRecord> stages;
  std::vector<JournalEntry> journal;
  PartitionReport partition;
  ModelInfo info;
  int64_t file_bytes = 0;
  std::vector<NodeArg> inputs, outputs;
};

struct PipelineResult {
  std::unique_ptr<Graph> graph;
  std::vector<std::unique_ptr<Provider>> providers;
  PipelineReport report;
};

struct ModelSource {
  std::string path;                      // or empty
  std::string_view bytes;                // when there is no path
  BufferRef owner;                       // of the bytes; null: the caller keeps them
  std::unique_ptr<Graph> graph;          // already imported: operators in their newest forms
  std::shared_ptr<MemoryBudget> budget;  // of the files that are mapped; may be null
};

// Runs all stages up to and including `until`.
StatusOr<PipelineResult> run_pipeline(ModelSource source, const SessionOptions& options, Stage until = Stage::layout);

}  // namespace forethought
