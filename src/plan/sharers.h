// Which values use bytes of another value at any time, answered for all values of a plan without comparing all pairs.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/plan.h"

namespace forethought {

// Values share if their bytes in one buffer overlap; constants, which have memory of their own, and those without bytes
// share with nobody. Borrows the plan.
class Sharers {
 public:
  explicit Sharers(const Plan& plan);

  int64_t count(ValueNo value) const;  // O(log values)
  // Up to `most` of them: those whose first step is nearest to the value's own. By id.
  std::vector<ValueNo> nearest(ValueNo value, size_t most) const;

 private:
  struct Buffer {
    ArenaKind arena;
    int32_t index;
    std::vector<int64_t> begins, ends;  // of its values, ascending
    std::vector<ValueNo> by_time;       // its values by first step
  };
  const Plan& plan_;
  std::vector<Buffer> buffers_;
  std::vector<int32_t> buffer_of_;  // by value; -1: no bytes
  std::vector<uint32_t> position_;  // by value: where it stands in by_time
};

}  // namespace forethought
