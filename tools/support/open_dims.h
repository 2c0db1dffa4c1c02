// Models of fixed sizes, planned for others: what shape rules say of numbers and what formulas say must be one thing.
#pragma once

#include "tools/support/cases.h"

namespace forethought {

struct OpenDimsCount {
  int64_t sessions = 0;
  int64_t shapes = 0;      // sets that the rules did not refuse; each is planned twice
  int64_t by_formula = 0;  // plans with sizes by formula
  int64_t by_order = 0;    // plans with offsets by an earlier plan's order
};

// Loads the model with symbols for the dims of its float inputs, one for each dim, then one for each number, and plans
// it for its own sizes and for others near by, as load does and as runs do. ok if sizes by formula
// (graph/size_formulas.h) are those of the rules wherever they serve, and all plans are valid, those by an earlier
// order (plan/order.h) too; that the rules refuse a set of sizes is no error.
Status check_open_dims(const TestCase& test, SessionOptions options, OpenDimsCount* count);

}  // namespace forethought
