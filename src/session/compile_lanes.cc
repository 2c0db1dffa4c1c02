// Lanes of a program and the plan of its memory.
#include "absl/strings/str_cat.h"
#include "device/lanes.h"
#include "session/compiling.h"
#include "session/device_lanes.h"

namespace forethought {
namespace {

constexpr double kMostPeak = 1.2;  // of a plan for several lanes that nobody asked for, over that for one

Status plan_memory(Compiling& w) {
  if (w.options.inside && w.options.effort != Effort::off) {
    ASSIGN_OR_RETURN(std::optional<Plan> inside,
                     plan_inside(w.problem, *w.options.inside_problem, w.options.inside->plan));
    w.program.inside = inside.has_value();
    if (inside) {
      w.program.plan = *std::move(inside);
      return absl::OkStatus();
    }
  }
  if (w.options.order && w.options.effort == Effort::replan) {
    std::optional<Plan> ordered = w.options.order->plan_for(w.problem);
    w.program.by_order = ordered.has_value();
    if (ordered) {
      w.program.plan = *std::move(ordered);
      return absl::OkStatus();
    }
  }
  ASSIGN_OR_RETURN(w.program.plan, forethought::plan(w.problem, w.options.effort));
  return absl::OkStatus();
}

// Those of the host, then those of devices, and what they wait for.
void set_lanes(Compiling& w, HostLanes host) {
  PlanProblem& problem = w.problem;
  if (host.lanes == 1 && w.told_as_like && w.like->lanes == 1) {  // the problem has heard all of this
    w.program.lane_device = w.like->lane_device;
    w.program.host_lanes = std::move(host);
    return;
  }
  w.told_as_like = false;
  problem.lanes = host.lanes;
  problem.region_bytes.assign(1, w.options.region_bytes);
  for (size_t s = 0; s < problem.steps.size(); ++s) problem.steps[s].lane = host.lane[s];
  w.program.lane_device.assign(static_cast<size_t>(host.lanes), -1);
  if (w.has_devices()) {
    problem.devices = static_cast<int32_t>(w.options.devices->drivers().size());
    for (const auto& driver : w.options.devices->drivers())
      problem.region_bytes.push_back(driver->allocator().greatest_block() / kValueAlignment * kValueAlignment);
    w.program.lane_device = add_device_lanes(problem, w.step_device, *w.options.devices);
    w.program.lane_device_names.clear();
    for (const int32_t d : w.program.lane_device) w.program.lane_device_names.push_back(to_string(w.device_at(d)));
  }
  w.program.host_lanes = std::move(host);
  w.program.waits = add_waits(problem);
  w.program.lanes = problem.lanes;
  w.program.notifications = w.program.waits.notifications;
  for (size_t s = 0; s < problem.steps.size(); ++s) {
    w.program.steps[s].lane = problem.steps[s].lane;
    const PlanStep& planned = problem.steps[s];
    if (planned.waits.empty() && planned.signals.empty() && w.program.steps[s].extras->waits.empty() &&
        w.program.steps[s].extras->signals.empty())
      continue;
    StepExtras& extras = w.program.steps[s].extras.write();
    extras.waits = planned.waits;
    extras.signals = planned.signals;
  }
}

}  // namespace

Status plan_lanes(Compiling& w) {
  const auto choose = [&](int wanted) {
    return choose_host_lanes(w.problem, w.costs, w.step_device, wanted, w.options.workers);
  };
  if (w.options.inside) {  // whose places hold for its lanes
    set_lanes(w, w.options.inside->host_lanes);
    return plan_memory(w);
  }
  set_lanes(w, choose(w.options.lanes));
  RETURN_IF_ERROR(plan_memory(w));
  if (w.options.lanes != 0 || w.program.host_lanes.lanes == 1) return absl::OkStatus();
  Plan more = std::move(w.program.plan);
  HostLanes lanes = w.program.host_lanes;
  set_lanes(w, choose(1));
  RETURN_IF_ERROR(plan_memory(w));
  if (static_cast<double>(more.peak) > kMostPeak * static_cast<double>(w.program.plan.peak)) {
    w.program.host_lanes.reason =
        absl::StrCat(lanes.reason, ", but ", more.peak, " bytes instead of ", w.program.plan.peak, ": too many");
    return absl::OkStatus();
  }
  set_lanes(w, std::move(lanes));
  w.program.plan = std::move(more);
  return absl::OkStatus();
}

}  // namespace forethought
