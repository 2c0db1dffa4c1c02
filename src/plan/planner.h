// Places every value of a problem: folds views, chooses overwrites and windows, and packs the rest into one slab.
#pragma once

#include <optional>

#include "base/status.h"
#include "plan/plan.h"
#include "plan/problem.h"

namespace forethought {

// replan: a few packing orders, well under a millisecond for 1,000 values. load: the orders, then searches of bounded
// work (about 200 ms at most) that stop at the lower bound. exact: as load, but with a complete search that may take
// some seconds (one lane, 1,000 buffers at most). slots: what shares bytes as with the others, but each buffer takes a
// whole slot, as plan/slots.h says. off: a buffer for each value and nothing shared.
enum class Effort { replan, load, exact, slots, off };

// Pure and deterministic: the same problem gives the same plan on every machine. Fails if the problem is malformed
// (unknown ids, a value written twice or read before it is written, cyclic views, an unordered read across lanes); and
// with exhausted() if a value is larger than a region, which then names it and the least regions that do.
StatusOr<Plan> plan(const PlanProblem& problem, Effort effort);

// The steps of `model_problem` with other sizes: shares bytes just as its plan does and puts everything where that has
// it, so that one slab of model.peak bytes serves both. Nothing if that cannot be: something is larger than in the
// model, or what the model shares is not allowed here. Linear in values, no packing. Serves one lane of
// the host.
StatusOr<std::optional<Plan>> plan_inside(const PlanProblem& problem, const PlanProblem& model_problem,
                                          const Plan& model);

}  // namespace forethought
