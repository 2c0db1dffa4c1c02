// What the parts of compile() hand on to each other, and the parts that lie in files of their own.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "session/compile.h"
#include "session/host_lanes.h"

namespace forethought {

constexpr int64_t kValueAlignment = 64;  // of what a plan places

struct Compiling {
  const PreparedGraph& prepared;
  const Graph& g;
  const FactTable& table;
  const CompileOptions& options;
  const CompiledProgram* like;  // CompileOptions::like
  CompiledProgram& program;     // that is being made
  PlanProblem& problem;         // steps have neither names nor lanes before plan_lanes()
  bool resizes;                 // CompileOptions::resizes: values are those of `like` with other dims
  bool told_as_like = false;    // the problem is that of `like`, sizes apart

  struct Scratch {
    std::string_view name;
    int64_t bytes;
    int32_t device;  // as step_device
  };
  std::vector<Scratch> scratch;      // of the steps that have some, in their order
  std::vector<StepCost> costs;       // by step
  std::vector<int32_t> step_device;  // by step: a place in the devices; -1: the host

  bool has_devices() const { return options.devices && !options.devices->empty(); }
  // A device's place among those with memory of their own; -1: the host works with it.
  int32_t place_of(Device device) const;
  Device device_at(int32_t place) const;
};

// Makes the value a strided view: sets strides (not owned), bytes and the place of its first element. False if these
// are no numbers.
bool describe_strides(std::span<const int64_t> strides, ProgramValue* value);
// Types, numbers and byte sizes of all values, from the facts.
Status describe_values(Compiling& w);
// The same from the values of `like` and the formulas.
Status resize_values(Compiling& w);
// What the planner hears of values: which may live in the slab, and which live elsewhere.
void set_roles(Compiling& w);
// The same where it has heard it for `like`, sizes apart.
void resize_roles(Compiling& w);
// Lanes and the plan for them. A plan for more lanes of nobody's asking must not take much more memory.
Status plan_lanes(Compiling& w);

}  // namespace forethought
