// Which steps are over before which others begin: the full closure, as bits, for the validator.
#include "plan/happens_before.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "plan/names.h"

namespace forethought::validation {

StatusOr<HappensBefore> HappensBefore::of(const PlanProblem& problem) {
  constexpr size_t kMostSteps = 40'000;  // 200 MB of bits
  if (problem.lanes < 1) return invalid("wrong facts: a plan without lanes");
  HappensBefore order;
  order.lanes_ = problem.lanes;
  const size_t n = problem.steps.size();
  if (problem.lanes > 1) {
    if (n > kMostSteps)
      return unsupported(absl::StrCat("cannot check ", n, " steps in several lanes; at most ", kMostSteps));
    order.words_ = (n + 63) / 64;
    order.bits_.assign(n * order.words_, 0);
  }
  std::map<int32_t, StepNo> signaller, lane_end;
  for (size_t b = 0; b < n; ++b) {
    const PlanStep& step = problem.steps[b];
    if (step.lane < 0 || step.lane >= problem.lanes) {
      return invalid(absl::StrCat("unknown id: ", step_label(problem, b), " is on lane ", step.lane));
    }
    const auto follow = [&](StepNo a) {
      if (problem.lanes == 1) return;
      for (size_t w = 0; w < order.words_; ++w) order.bits_[b * order.words_ + w] |= order.bits_[a * order.words_ + w];
      order.bits_[b * order.words_ + a / 64] |= uint64_t{1} << (a % 64);
    };
    if (const auto it = lane_end.find(step.lane); it != lane_end.end()) follow(it->second);
    for (const int32_t n : step.waits) {
      const auto it = signaller.find(n);
      if (it == signaller.end()) {
        return invalid(absl::StrCat("unknown id: ", step_label(problem, b), " waits for notification ", n,
                                    ", which no step before it gives"));
      }
      follow(it->second);
    }
    for (const int32_t n : step.signals) {
      if (!signaller.emplace(n, static_cast<StepNo>(b)).second) {
        return invalid(absl::StrCat("unknown id: notification ", n, " is given twice"));
      }
    }
    lane_end[step.lane] = static_cast<StepNo>(b);
  }
  return order;
}

}  // namespace forethought::validation
