// What is free throughout some periods: an item that lives through one of them can only go into gaps that it leaves.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/pack.h"

namespace forethought::planning {

// Bytes from begin up to end.
struct Span {
  int64_t begin, end;
};

// Divides the steps into periods of equal length, and keeps for each the bytes that no item touching it takes. There
// are as many periods as lifetimes make worth keeping, so that memory and time are linear in items and steps.
class FreeBytes {
 public:
  explicit FreeBytes(const PackProblem& problem);

  // Forgets what was taken.
  void clear();
  // The item takes the bytes from `offset` on; others in the same period may have them already.
  void take(const PackItem& item, int64_t offset);
  // In ascending order, the gaps in which the item's place lies, the last of them endless: what the fullest of the
  // periods leaves that the item lives through, all bytes if it lives through none. Gaps are left out that no item of
  // the problem fits in. Every end of a gap but the last is the begin of an item that is in conflict with this one.
  // The reference holds until something is taken.
  const std::vector<Span>& gaps_for(const PackItem& item) const;

 private:
  struct Period {
    int64_t taken = 0;
    std::vector<Span> gaps;
  };
  void take(Period& period, Span span);

  size_t length_ = 1;       // of a period, in steps
  int32_t last_birth_ = 0;  // after it nothing has to be placed, so the last period ends here
  int64_t smallest_;        // size of an item
  std::vector<Period> periods_;
  std::vector<Span> all_;
};

}  // namespace forethought::planning
