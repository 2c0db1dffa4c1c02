// Which steps are over before which others begin: the full closure, as bits, for the validator.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "plan/problem.h"

namespace forethought::validation {

class HappensBefore {
 public:
  // Fails if a step's lane or notifications make no sense.
  static StatusOr<HappensBefore> of(const PlanProblem& problem);

  bool operator()(StepNo a, StepNo b) const {  // step a is over before step b begins, in every run
    if (lanes_ == 1) return a < b;
    return (bits_[b * words_ + a / 64] >> (a % 64)) & 1u;
  }

 private:
  int32_t lanes_ = 1;
  size_t words_ = 0;
  std::vector<uint64_t> bits_;  // row b holds the steps before b; unused with one lane, whose order is the list's
};

}  // namespace forethought::validation
