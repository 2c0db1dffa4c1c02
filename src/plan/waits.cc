#include "plan/waits.h"

#include <algorithm>
#include <functional>
#include <vector>

namespace forethought {
namespace {

// What is over when a step ends, by lane: the last such step.
class Clocks {
 public:
  Clocks(size_t steps, int32_t lanes) : lanes_(static_cast<size_t>(lanes)), at_(steps * lanes_, kNoId) {}
  StepNo& at(StepNo s, int32_t lane) { return at_[static_cast<size_t>(s) * lanes_ + static_cast<size_t>(lane)]; }
  // Step s begins after `from` has ended.
  void follow(StepNo s, StepNo from) {
    for (size_t l = 0; l < lanes_; ++l) {
      StepNo& own = at(s, static_cast<int32_t>(l));
      own = std::max(own, at(from, static_cast<int32_t>(l)));
    }
  }

 private:
  size_t lanes_;
  std::vector<StepNo> at_;
};

}  // namespace

WaitCounts add_waits(PlanProblem& p) {
  WaitCounts counts;
  std::vector<StepNo> writer(p.values.size(), kNoId);
  for (StepNo s = 0; static_cast<size_t>(s) < p.steps.size(); ++s) {
    p.steps[s].waits.clear();
    p.steps[s].signals.clear();
    for (const ValueNo v : p.steps[s].writes) writer[v] = s;
  }
  if (p.lanes <= 1) return counts;
  Clocks clocks(p.steps.size(), p.lanes);
  std::vector<StepNo> tail(static_cast<size_t>(p.lanes), kNoId);
  std::vector<StepNo> from;
  for (StepNo s = 0; static_cast<size_t>(s) < p.steps.size(); ++s) {
    PlanStep& step = p.steps[s];
    from.clear();
    for (const ValueNo v : step.reads) {
      if (writer[v] != kNoId && p.steps[writer[v]].lane != step.lane) from.push_back(writer[v]);
    }
    std::sort(from.begin(), from.end(), std::greater<>());
    from.erase(std::unique(from.begin(), from.end()), from.end());
    counts.edges += static_cast<int32_t>(from.size());
    if (tail[step.lane] != kNoId) clocks.follow(s, tail[step.lane]);
    // What another one implies comes before it in the list, so the latest are taken first.
    for (const StepNo f : from) {
      if (clocks.at(s, p.steps[f].lane) >= f) continue;
      clocks.follow(s, f);
      if (p.steps[f].signals.empty()) p.steps[f].signals.push_back(counts.notifications++);
      step.waits.push_back(p.steps[f].signals[0]);
      ++counts.waits;
    }
    clocks.at(s, step.lane) = s;
    tail[step.lane] = s;
  }
  return counts;
}

}  // namespace forethought
