// Models of fixed sizes, planned for others: what shape rules say of numbers and what formulas say must be one thing.
#pragma once

#include "tools/support/cases.h"

namespace forethought {

struct OpenDimsCount {
  int64_t sessions = 0, plans = 0, by_formula = 0;  // plans: shapes that the rules did not refuse
};

// Loads the model with symbols for the dims of its float inputs, one for each dim, then one for each number, and plans
// it for its own sizes and for others near by. ok if sizes by formula (graph/size_formulas.h) are those of the rules
// wherever they serve; that the rules refuse a set of sizes is no error.
Status check_open_dims(const TestCase& test, SessionOptions options, OpenDimsCount* count);

}  // namespace forethought
