// What a caller can choose about a session and about a run.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "memory/budget.h"
#include "passes/passes.h"
#include "threading/cancel_flag.h"

namespace forethought {

class MemorySource;

enum class OptimizationLevel : int { disabled = 0, basic = 1, extended = 2, all = 99 };  // onnxruntime's numbers
// packed: one slab at planned offsets. exact: the same, and where the quick orders leave a gap at load, a complete
// search of a few seconds at most (Effort::exact). slots: buffers take whole slots, one after another, to compare with.
// off: a buffer of its own for each value.
enum class PlanMode { packed, exact, slots, off };
std::string_view name(PlanMode mode);
std::optional<PlanMode> plan_mode_from(std::string_view name);

struct ProviderSpec {
  std::string name;
  std::map<std::string, std::string> options;
};

constexpr int kMostLanes = 64, kMostThreads = 1024, kMostPlans = 1 << 20;

struct SessionOptions {
  OptimizationLevel optimization_level = OptimizationLevel::all;
  int intra_op_threads =
      0;          // 0: FORETHOUGHT_THREADS, else one for each core this process may use. At most kMostThreads
  int lanes = 0;  // for parallel branches; 0: where they are expected to be faster, see host_lanes.h;
                  // the knob FORETHOUGHT_LANES is the default. At most kMostLanes
  PlanMode plan = PlanMode::packed;     // which leaves it to the knob FORETHOUGHT_PLAN
  bool share = true;                    // views, in-place and windows; off: for comparison
  bool strided_views = true;            // values that are read where they lie in others, with gaps or in another order;
                                        // off: copied, also without `share` or a plan. FORETHOUGHT_STRIDED_VIEWS=0 too
  std::vector<ProviderSpec> providers;  // in order of priority; empty: the CPU alone. The CPU always takes the rest
  bool allow_fallback = false;          // a requested provider that cannot load is a warning instead of an error
  int64_t memory_limit = 0;             // bytes of everything the session maps or allocates, weights too; 0: none
  int64_t device_memory_limit = 0;      // the same on each device that has memory of its own; 0: none
  RetentionCaps retention;              // what its arenas keep between runs
  int idle_trim_ms = 0;                 // after so long without a run, all that is kept goes back; 0: never
  std::shared_ptr<MemorySource> execution_source, io_source;  // the caller's allocators of the arenas; null: the system
  int plan_cache_capacity = 32;                               // programs kept for shapes seen before; 1 to kMostPlans
  int64_t fold_budget = kDefaultFoldBudget;                   // bytes that constant folding may add to the model
  int rewrite_limit = -1;  // stop after so many applied rewrites (for bisection); -1: no limit
  std::vector<std::string> disabled_rewrites;
  std::map<std::string, int64_t> free_dimensions;  // symbolic dims bound to numbers, by name
  // Upper bounds of symbolic dims, by name. Where every dim of the inputs has a number or a bound, all smaller shapes
  // run in the memory of one plan; a larger one is an error. The model's metadata may say the same (session/bounds.h).
  std::map<std::string, int64_t> max_dimensions;
  std::string optimized_model_path;  // where to save the graph after the passes; empty: nowhere
  std::string external_data_folder;  // for models given as bytes
  bool validate_plans = false;       // always true in debug builds; also FORETHOUGHT_VALIDATE=1
  bool profiling = false;
  // onnxruntime's session config entries, kept and shown; those of weights_options.h mean something.
  std::map<std::string, std::string> config;
};

// An error that lies in the caller's options or the environment, not in the model: invalid(), and is_wrong_option().
Status wrong_option(std::string_view message);
Status as_wrong_option(Status status);  // marks what invalid() gave so; others stay as they are
bool is_wrong_option(const Status& status);

// What can be told without a model: ranges, names given twice, and the knobs of the environment (base/knobs.h).
Status check_options(const SessionOptions& options);
// An error if a path, which `what` names, has a NUL in it: the system would take it for a shorter one.
Status check_path(std::string_view what, std::string_view path);

class StepSink;

struct RunOptions {
  CancelFlag cancel;  // any thread may set it; the run ends within one step
  std::string tag;
  StepSink* sink = nullptr;  // hears of every step (exec/profile.h); null: one branch a step

  // Nothing asked for, nothing allocated: what a run without options takes.
  static const RunOptions& plain() {
    static const RunOptions options{CancelFlag::never(), {}, nullptr};
    return options;
  }
};

}  // namespace forethought
