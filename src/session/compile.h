// From a prepared graph and the facts of one set of shapes to a program: chooses kernels, plans memory, flattens.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "device/device.h"
#include "graph/facts.h"
#include "graph/size_formulas.h"
#include "kernel_api/instance_cache.h"
#include "plan/order.h"
#include "plan/planner.h"
#include "session/compiled_program.h"
#include "session/graph_lists.h"
#include "session/prepared.h"

namespace forethought {

// Where the caller has the inputs and wants the outputs of a run: places in CompileOptions::devices, -1 for the host.
// Empty: all on the host.
struct Bindings {
  std::vector<int32_t> inputs, outputs;
  bool operator==(const Bindings&) const = default;
};

struct CompileOptions {
  int workers = 1;
  Effort effort = Effort::replan;
  bool validate = false;
  bool share = true;         // false: views, overwrites and windows are left out, every output has bytes of its own
  int lanes = 1;             // of the host, as choose_host_lanes() takes it
  int64_t region_bytes = 0;  // of the regions that the host's slab is made of where it is larger; 0: it is one
  InstanceCache* cache = nullptr;
  StepResolver* resolver = nullptr;
  const DeviceSet* devices = nullptr;  // those with memory of their own; null: none
  Bindings bound;
  std::span<const Value> lent;  // by input, of those that a caller lends: their strides count. Empty: all row-major
  std::shared_ptr<const GraphLists> lists;  // of the graph
  const CompiledProgram* inside = nullptr;  // of the same graph at the largest sizes: its places are taken if possible
  const PlanProblem* inside_problem = nullptr;  // its problem()
  const PlanOrder* order = nullptr;             // of the same graph: where it serves nothing is packed
  const CompiledProgram* like = nullptr;  // of the same graph at any sizes and of the same options: what it says of
                                          // steps and holds here as well is shared
  PlanProblem* spare = nullptr;           // memory to work in: what is in there is lost
  bool spare_is_likes = false;            // in there is the problem of `like`, as compile() left it
  struct Formulas {
    std::span<const SizeFormulas::Place> places;
    std::span<const Dim> numbers;
  };
  std::optional<Formulas> formulas;  // sizes come from them
  bool resizes = false;  // from `like`, which is resizable, and `formulas`: of the facts only the inputs' count
};

// A body's program source; compile() plans bodies of known shapes inside the parent's slab through it.
class BodySource : public ProgramSource {
 public:
  // The program for inputs of these facts, if all of them are numbers; null if not.
  virtual StatusOr<std::shared_ptr<const CompiledProgram>> program_for_facts(const FactTable& facts) = 0;
};
using BodySources = std::map<std::pair<uint32_t, int>, BodySource*>;

StatusOr<std::shared_ptr<CompiledProgram>> compile(const PreparedGraph& graph, const FactTable& facts,
                                                   const BodySources& bodies, const CompileOptions& options);

}  // namespace forethought
