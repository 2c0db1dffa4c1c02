// From a prepared graph and the facts of one set of shapes to a program: chooses kernels, plans memory, flattens.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "device/device.h"
#include "exec/program.h"
#include "graph/facts.h"
#include "kernel_api/instance_cache.h"
#include "plan/planner.h"
#include "plan/waits.h"
#include "session/host_lanes.h"
#include "session/prepared.h"

namespace forethought {

// What reports call values, a node's step and its scratch.
struct Labels {
  struct Step {
    std::string step, scratch;  // "/layer1/conv (Conv)", "scratch of /layer1/conv (Conv)"
  };
  std::vector<std::string> values;  // by value id
  std::vector<Step> steps;          // by node id
};
std::shared_ptr<const Labels> labels_of(const Graph& graph);

// A program with all that led to it, for reports.
struct CompiledProgram : Program {
  bool inside = false;                         // values lie where CompileOptions::inside has them
  HostLanes host_lanes;                        // how many, and why
  WaitCounts waits;                            // between lanes
  std::vector<std::string> lane_device_names;  // by lane: "cpu", "gpu:1"; empty where the host has all
  int64_t device_copies = 0;                   // steps that copy between devices
  int64_t copied_bytes = 0;                    // what they move in one run
  PlanProblem problem;  // values by graph value id, then one scratch value for each step that wants one
  Plan plan;
  std::vector<KernelFacts> facts;                                                     // by step; of dynamic steps empty
  std::vector<NodeId> nodes;                                                          // by step
  std::map<std::pair<uint32_t, int>, std::shared_ptr<const CompiledProgram>> bodies;  // planned inside this slab
};

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
  bool share = true;  // false: views, overwrites and windows are left out, every output has bytes of its own
  int lanes = 1;      // of the host, as choose_host_lanes() takes it
  InstanceCache* cache = nullptr;
  StepResolver* resolver = nullptr;
  const DeviceSet* devices = nullptr;  // those with memory of their own; null: none
  Bindings bound;
  std::shared_ptr<const Labels> labels;     // of the graph
  const CompiledProgram* inside = nullptr;  // of the same graph at the largest sizes: its places are taken if possible
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
