// The three ways in which values come to share bytes, decided one after the other on the storages of a plan.
#pragma once

#include "plan/analysis.h"
#include "plan/plan.h"
#include "plan/storages.h"

namespace forethought::planning {

// What the three steps read and write: they mark honoured facts in `plan`, which has room for all of them.
struct Folding {
  const PlanProblem& problem;
  const Analysis& analysis;
  Storages& storages;
  Plan& plan;
  std::vector<uint8_t> is_view;  // by ValueNo: an output whose view is honoured, which its step does not write
  const Plan* model = nullptr;   // if there is one: of what is possible, what it honours, whether that pays here or not
};

// Honours a view unless an output would share bytes with anything that is not wholly its own, or a value that escapes
// would share bytes that are not counted.
void fold_views(Folding& f);

// Lets inputs be born inside their window of an output, unless that raises the most bytes live at one step. `forecast`
// tells what lives when: storages of the same problem with views and overwrites decided; it takes part in the changes.
void place_windows(Folding& f, Storages& forecast);

// Lets outputs overwrite an input that dies at their step, unless that raises the most bytes live at one step.
void choose_overwrites(Folding& f);

}  // namespace forethought::planning
