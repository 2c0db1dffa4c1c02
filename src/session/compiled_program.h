// A program with all that led to it, for reports.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "exec/program.h"
#include "graph/graph.h"
#include "plan/plan.h"
#include "plan/waits.h"
#include "session/host_lanes.h"

namespace forethought {

// A program with all that led to it, for reports.
struct CompiledProgram : Program {
  bool inside = false;                         // values lie where CompileOptions::inside has them
  bool resizable = false;                      // the host has all, and all sizes are numbers that formulas gave
  bool by_order = false;                       // values lie as CompileOptions::order says
  int64_t steps_kept = 0;                      // whose choice is that of CompileOptions::like but for dims
  int64_t steps_as_others = 0;                 // whose choice is that of an earlier step
  HostLanes host_lanes;                        // how many, and why
  WaitCounts waits;                            // between lanes
  std::vector<std::string> lane_device_names;  // by lane: "cpu", "gpu:1"; empty where the host has all
  std::vector<Dims> lent_strides;              // of the inputs, which look into it; empty: all are row-major
  int64_t device_copies = 0;                   // steps that copy between devices
  int64_t copied_bytes = 0;                    // what they move in one run
  // By graph value id, then one scratch value for each step that wants one. Programs for other sizes share those that
  // say the same: bytes are those of `plan`.
  std::shared_ptr<const std::vector<PlanValue>> plan_values;
  std::vector<ValueNo> scratch;  // by step; kNoId: none
  bool shared = true;            // as CompileOptions::share
  Plan plan;
  // By step; of dynamic steps empty. Without instances and sizes of scratch, which steps have. Programs for other sizes
  // share those that say the same.
  std::shared_ptr<const std::vector<std::shared_ptr<const KernelFacts>>> facts;
  std::map<std::pair<uint32_t, int>, std::shared_ptr<const CompiledProgram>> bodies;  // planned inside this slab

  // What the planner was asked; made anew from the steps, since only reports want it. Steps have no names.
  PlanProblem problem() const;
};

// What the planner hears of a step. `scratch` is the value that stands for its scratch; kNoId: none. Without `share`
// views, overwrites and windows are left out.
void describe_step(const ProgramStep& step, const KernelFacts& facts, std::span<const ProgramValue> values,
                   ValueNo scratch, bool share, PlanStep* planned);

}  // namespace forethought
