// Programs of one prepared graph for the shapes that come: a bounded cache with exact keys, one for each body too.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/once.h"
#include "graph/size_formulas.h"
#include "session/compile.h"
#include "session/options.h"
#include "session/program_cache.h"

namespace forethought {

struct CacheCounts {
  int64_t hits = 0, misses = 0, evicted = 0, size = 0;  // as ProgramCache counts
  // Over all plans that were made: the thread's own time, kernels' instances included, and values of the graph.
  int64_t planning_ns = 0, values = 0;
  int64_t inside = 0;      // of the misses: those whose values lie where the plan for the largest shapes has them
  int64_t by_formula = 0;  // of the misses: those whose sizes came from formulas, without the shape rules
  int64_t by_order = 0;    // of the misses: those whose offsets came from an order that was proved before
  int64_t steps = 0, steps_kept = 0;  // of all plans, and those of which the plan before held but for dims
  int64_t steps_as_others = 0;        // of all plans: steps that took the choice for an earlier one of the same kind
};

class GraphSource final : public BodySource, public StepResolver {
 public:
  struct Shared {
    int workers = 1;
    bool validate = false;
    PlanMode plan = PlanMode::packed;  // exact: those made at load
    bool share = true;                 // see CompileOptions
    int lanes = 1;                     // of the main graph, see CompileOptions; bodies have one
    size_t capacity = 32;              // programs kept
    InstanceCache* instances = nullptr;
    const DeviceSet* devices = nullptr;  // see CompileOptions
  };
  GraphSource(const PreparedGraph& graph, const Shared& shared);

  StatusOr<std::shared_ptr<const Program>> program_for(std::span<const Value> inputs) override;
  // The same for inputs and outputs that are bound on devices.
  StatusOr<std::shared_ptr<const Program>> program_for(std::span<const Value> inputs, const Bindings& bound);
  bool serves(const Program& program, std::span<const Value> inputs) const override;
  StatusOr<std::shared_ptr<const CompiledProgram>> program_for_facts(const FactTable& facts) override;
  // The program for these input facts, planned with full effort and kept: what load does for known shapes.
  StatusOr<std::shared_ptr<const CompiledProgram>> plan_at_load(const FactTable& seeds);
  // The same for the largest shapes there will be, inside whose plan those that come are placed. Before any of them.
  StatusOr<std::shared_ptr<const CompiledProgram>> plan_bound(const FactTable& seeds);
  // The same for any shapes, not kept: for reports.
  StatusOr<std::shared_ptr<const CompiledProgram>> plan_for(std::span<const Dims> input_dims, Effort effort);
  // From now on the host's slab is made of regions of so many bytes, whole pages, where it is larger; 0: it is one. The
  // plans that were kept go. Bodies keep one region: they lie in their parent's, or have a slab of their own.
  void set_region_bytes(int64_t bytes);
  StatusOr<ResolvedStep> resolve(int32_t node, std::span<const Arg> inputs, std::span<const Arg> outputs) override;

  CacheCounts counts() const;
  // Why no sizes come from formulas; empty: they do, or there was one set of shapes only.
  std::string formulas_refused() const;
  const PreparedGraph& graph() const { return graph_; }

 private:
  using Key = ProgramCache::Key;

  struct Inferred {
    std::optional<SizeFormulas::Numbers> numbers;  // of formulas, where they serve
    bool resizes = false;                          // the table has the inputs alone: CompileOptions::resizes
  };
  // Infers in place, by formulas or by the shape rules, unless the values of `like` with other dims will do.
  StatusOr<Inferred> infer(FactTable& facts, const CompiledProgram* like);
  Status compare_with_rules(const FactTable& filled) const;
  // Takes the order of what was packed for the plans to come, from the second set of shapes on and a few times at most.
  void keep_order(const PlanProblem& problem, const Plan& packed);
  // Infers in place and compiles; `inputs`: those of a run, for their strides.
  StatusOr<std::shared_ptr<const CompiledProgram>> compile_for(FactTable& facts, Effort effort,
                                                               const Bindings& bound = {},
                                                               std::span<const Value> inputs = {});
  enum class Contents { undecided, keyed, left_out };
  // The key of a run into `key`: types and dims of the inputs, and elements of those that decide shapes.
  void key_of(std::span<const Value> inputs, const Bindings& bound, Contents contents, Key* key) const;
  // A table with the facts of the declared inputs. It is given back when it is dropped: to fill one again is cheap,
  // to make one is not.
  struct GiveBack {
    GraphSource* source;
    void operator()(FactTable* table) const;
  };
  using Facts = std::unique_ptr<FactTable, GiveBack>;
  Facts declared_facts();
  // What a run knows of its inputs; elements of those listed in `keyed`.
  Facts facts_of(std::span<const Value> inputs, std::span<const int> keyed);
  // After the first program was made: decides whether elements of inputs decide shapes, and of which. If so, `made`
  // becomes the program that knows them and the result is true.
  StatusOr<bool> decide_contents(std::span<const Value> inputs, const Bindings& bound,
                                 std::shared_ptr<const CompiledProgram>* made);
  std::shared_ptr<const CompiledProgram> find(const Key& key);
  // Before a program is made that is to be kept.
  void make_room();

  const PreparedGraph& graph_;
  Shared shared_;
  ProgramCache programs_;
  std::map<std::pair<uint32_t, int>, std::unique_ptr<GraphSource>> children_;
  BodySources bodies_;
  std::shared_ptr<const GraphLists> lists_;
  std::shared_ptr<const CompiledProgram> bound_;  // null: shapes have no bounds
  PlanProblem bound_problem_;
  // Shapes may come as elements of small inputs (the target of a Reshape, say): those elements are then part of the
  // key, unless hardly any come again.
  std::atomic<Contents> contents_{Contents::undecided};
  std::vector<int> keyed_;  // positions of inputs; written before contents_ says keyed, never after
  Mutex deciding_;
  mutable Mutex mutex_;
  std::unique_ptr<FactTable> spare_facts_;
  // What was compiled last, to start from.
  struct Last {
    std::shared_ptr<const CompiledProgram> program;
    std::unique_ptr<PlanProblem> problem;  // what its planner was asked; null: it is in use
  };
  Last last_;
  std::atomic<int64_t> region_bytes_{0};
  std::atomic<int> inferred_{0};  // sets of shapes so far
  Once made_formulas_;
  std::shared_ptr<const PlanOrder> plan_order_;  // of the plan that was packed last; from the second on
  int orders_ = 0;                               // made so far
  std::unique_ptr<SizeFormulas> formulas_;       // from the second set of shapes on: one alone needs none
  CacheCounts counts_;
};

}  // namespace forethought
