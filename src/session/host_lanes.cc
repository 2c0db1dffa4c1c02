#include "session/host_lanes.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace forethought {
namespace {

// Of a core with vector units; what counts is how they compare, not what they are on one machine.
constexpr double kFlopsPerNs = 40, kBytesPerNs = 10;
constexpr double kStep = 300;     // a kernel's own start
constexpr double kSplit = 2'000;  // to begin and end a loop over the pool
constexpr double kWorthSplitting = 10'000;
constexpr double kEfficiency = 0.92;  // of a thread that shares a step with others
constexpr double kHandOver = 4'000;   // from the end of a step to the start of one that waits for it on another lane
constexpr double kMargin = 0.05;      // by which the model may err
constexpr int kAutomaticLanes = 4;

using Steps = std::vector<std::vector<StepNo>>;

// By step: the steps whose values it reads.
Steps predecessors(const PlanProblem& p) {
  Steps all(p.steps.size());
  std::vector<StepNo> writer(p.values.size(), kNoId);
  for (size_t s = 0; s < p.steps.size(); ++s) {
    for (const ValueNo v : p.steps[s].reads)
      if (writer[v] != kNoId) all[s].push_back(writer[v]);
    std::sort(all[s].begin(), all[s].end());
    all[s].erase(std::unique(all[s].begin(), all[s].end()), all[s].end());
    for (const ValueNo v : p.steps[s].writes) writer[v] = static_cast<StepNo>(s);
  }
  return all;
}

// On a share of the workers.
double duration(const StepCost& c, double workers, double all_workers) {
  if (workers >= all_workers) return c.split;
  return std::min(c.alone, std::max(c.split, c.alone / std::max(1.0, workers * kEfficiency)));
}

std::vector<int32_t> assign(const Steps& before, std::span<const StepCost> costs, std::span<const int32_t> step_device,
                            int lanes, int workers) {
  std::vector<int32_t> lane(before.size(), 0);
  std::vector<double> free(static_cast<size_t>(lanes)), end(before.size());
  const double share = std::max(1.0, static_cast<double>(workers) / lanes);
  for (size_t s = 0; s < before.size(); ++s) {
    if (step_device[s] >= 0) continue;
    double best = std::numeric_limits<double>::max();
    int32_t near = 0;  // the lane of what it has to wait for longest
    double latest = -1;
    for (const StepNo b : before[s])
      if (end[b] > latest) latest = end[b], near = lane[b];
    for (int32_t i = 0; i < lanes; ++i) {
      const int32_t l = (near + i) % lanes;
      double start = free[l];
      for (const StepNo b : before[s]) start = std::max(start, end[b] + (lane[b] == l ? 0 : kHandOver));
      const double ends = start + duration(costs[s], share, workers);
      if (ends < best) best = ends, lane[s] = l;
    }
    end[s] = free[lane[s]] = best;
  }
  return lane;
}

// A run in these lanes: whoever is busy shares the workers evenly.
double expected(const Steps& before, std::span<const StepCost> costs, const std::vector<int32_t>& lane, int lanes,
                int workers) {
  std::vector<std::vector<StepNo>> queue(static_cast<size_t>(lanes));
  for (size_t s = 0; s < before.size(); ++s) queue[lane[s]].push_back(static_cast<StepNo>(s));
  std::vector<size_t> at(queue.size());
  std::vector<double> left(queue.size(), 1), end(before.size(), -1);  // share of its step that a lane has to do yet
  std::vector<double> ready(queue.size());                            // when each lane may go on
  double now = 0;
  for (size_t done = 0; done < before.size();) {
    std::ranges::fill(ready, std::numeric_limits<double>::infinity());
    double next_ready = std::numeric_limits<double>::infinity();
    int busy = 0;
    for (size_t l = 0; l < queue.size(); ++l) {
      if (at[l] == queue[l].size()) continue;
      double start = 0;
      for (const StepNo b : before[queue[l][at[l]]])
        start = std::max(start, end[b] < 0 ? std::numeric_limits<double>::infinity()
                                           : end[b] + (lane[b] == static_cast<int32_t>(l) ? 0 : kHandOver));
      ready[l] = start;
      if (start <= now) {
        ++busy;
      } else {
        next_ready = std::min(next_ready, start);
      }
    }
    if (busy == 0) {
      now = next_ready;
      continue;
    }
    const double share = std::max(1.0, static_cast<double>(workers) / busy);
    const double slower = std::max(1.0, static_cast<double>(busy) / workers);
    double step = next_ready - now;
    for (size_t l = 0; l < queue.size(); ++l)
      if (ready[l] <= now) step = std::min(step, left[l] * slower * duration(costs[queue[l][at[l]]], share, workers));
    const double before_now = now;
    now += step;
    for (size_t l = 0; l < queue.size(); ++l) {
      if (ready[l] > before_now) continue;
      const StepNo s = queue[l][at[l]];
      const double whole = slower * duration(costs[s], share, workers);
      left[l] -= whole > 0 ? step / whole : 1;
      if (left[l] > 1e-9) continue;
      left[l] = 1;
      end[s] = now;
      ++at[l];
      ++done;
    }
  }
  return now;
}

// What no number of lanes gets below.
double critical_path(const Steps& before, std::span<const StepCost> costs) {
  std::vector<double> end(before.size());
  double longest = 0;
  for (size_t s = 0; s < before.size(); ++s) {
    for (const StepNo b : before[s]) end[s] = std::max(end[s], end[b]);
    end[s] += costs[s].split;
    longest = std::max(longest, end[s]);
  }
  return longest;
}

std::string micros(double ns) { return absl::StrFormat("%.0f us", ns / 1000); }

}  // namespace

Work work_of(std::string_view op_type) {
  const auto is = [&](std::string_view part) { return op_type.find(part) != op_type.npos; };
  return is("Conv") ? Work::convolution : is("Gemm") || is("MatMul") ? Work::product : Work::other;
}

double flops_of(Work work, std::span<const int64_t> first, std::span<const int64_t> second, int64_t elements) {
  double sum = 4;
  if (work == Work::convolution && second.size() > 2) {
    sum = 2;
    for (const int64_t d : second.subspan(1)) sum *= static_cast<double>(d);
  } else if (work == Work::product && !first.empty()) {
    sum = 2 * static_cast<double>(first.back());
  }
  return sum * static_cast<double>(elements);
}

StepCost step_cost(double flops, double bytes, int workers) {
  StepCost c;
  c.alone = kStep + std::max(flops / kFlopsPerNs, bytes / kBytesPerNs);
  c.split = c.alone < kWorthSplitting || workers == 1 ? c.alone : c.alone / (workers * kEfficiency) + kSplit;
  return c;
}

HostLanes choose_host_lanes(const PlanProblem& problem, std::span<const StepCost> costs,
                            std::span<const int32_t> step_device, int wanted, int workers) {
  HostLanes one;
  one.lane.assign(problem.steps.size(), 0);
  for (const StepCost& c : costs) one.one_ns += c.split;
  one.ns = one.one_ns;
  const auto stay = [&](std::string reason) {
    one.reason = std::move(reason);
    return one;
  };
  if (wanted == 1) return stay("as asked");
  if (wanted == 0 && workers == 1) return stay("the pool has one thread");
  if (wanted == 0 && std::ranges::any_of(step_device, [](int32_t d) { return d >= 0; }))
    return stay("the host works beside a device");
  if (wanted == 0 && std::ranges::any_of(costs, [](const StepCost& c) { return !c.known; }))
    return stay("some steps have sizes that only the run tells");
  const Steps before = predecessors(problem);
  if (wanted == 0 && critical_path(before, costs) >= one.one_ns * (1 - kMargin))
    return stay("its longest chain takes as long as all of it");
  HostLanes best = one;
  const int most = wanted > 0 ? wanted : std::min(workers, kAutomaticLanes);
  for (int lanes = wanted > 0 ? wanted : 2; lanes <= most; ++lanes) {
    HostLanes tried = one;
    tried.lane = assign(before, costs, step_device, lanes, workers);
    tried.lanes = 1 + (tried.lane.empty() ? 0 : *std::ranges::max_element(tried.lane));
    if (tried.lanes == 1) continue;
    tried.ns = expected(before, costs, tried.lane, tried.lanes, workers);
    if (wanted > 0 || best.lanes == 1 || tried.ns < best.ns) best = std::move(tried);
  }
  if (best.lanes == 1) return stay("no branches that could run side by side");
  const std::string figures =
      absl::StrCat(best.lanes, " lanes are expected to take ", micros(best.ns), ", one ", micros(best.one_ns));
  best.reason = wanted > 0 ? absl::StrCat("as asked; ", figures) : figures;
  if (wanted > 0 || best.ns < best.one_ns * (1 - kMargin)) return best;
  return stay(absl::StrCat(figures, ": too little to gain"));
}

}  // namespace forethought
