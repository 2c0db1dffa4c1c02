// Models of fixed sizes, planned for others: what shape rules say of numbers and what formulas say must be one thing.
#pragma once

#include "tools/support/cases.h"

namespace forethought {

struct OpenDimsCount {
  int64_t sessions = 0;
  int64_t shapes = 0;                 // sets that the rules did not refuse; each is planned twice
  int64_t by_formula = 0;             // plans with sizes by formula
  int64_t by_order = 0;               // plans with offsets by an earlier plan's order
  int64_t steps = 0, steps_kept = 0;  // of these plans, and those that keep the choice of another plan but for dims
  int64_t ran = 0;                    // sessions that ran the case after all this
};

// Loads the model with symbols for the dims of its float inputs, one for each dim, then one for each number, and plans
// it for its own sizes and for others near by, as load does and as runs do. ok if sizes by formula
// (graph/size_formulas.h) are those of the rules wherever they serve, and all plans are valid, those by an earlier
// order (plan/order.h) too, and kernels keep no choice that they would not make anew; that the rules refuse a set of
// sizes is no error. With `run` the case itself then runs, in plans that come from those for other sizes, and its
// outputs must match.
Status check_open_dims(const TestCase& test, SessionOptions options, bool run, OpenDimsCount* count);

}  // namespace forethought
