// What shares bytes and what lies above what, proved once for a list of steps: sizes decide the offsets alone.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plan/plan.h"
#include "plan/problem.h"

namespace forethought {

// Taken from one plan. Two values that share bytes do so at all sizes that compare alike; of two others that live at
// one time the upper one begins where the lower one ends or above that, whatever their sizes are. So nothing needs to
// be analysed, decided or packed for other sizes: offsets follow in one pass.
class PlanOrder {
 public:
  // Why a plan has no order that serves other sizes; empty: it has one. `plan` is a plan of `problem`.
  static std::string refusal(const PlanProblem& problem, const Plan& plan);
  // Null where refusal() says something.
  static std::unique_ptr<const PlanOrder> of(PlanProblem problem, const Plan& plan);

  // The plan in this order for the same steps with other sizes. Nothing if the steps or their facts differ, if sizes
  // that decided what shares bytes compare in another way, if windows would cost memory now, or if the slab would be
  // above the lower bound: planning anew might do better then.
  std::optional<Plan> plan_for(const PlanProblem& problem) const;

 private:
  // Which fact of which step says how many bytes behind its partner a value begins; no step: where that begins.
  struct Shift {
    StepNo step = kNoId;
    int32_t fact = 0;
    bool window = false;  // of its windows; else of its aliases
    int64_t bytes(const PlanProblem& p) const;
  };
  struct Member {  // a value that shares another's bytes
    ValueNo value, partner;
    Shift shift;
  };
  // Where a value begins or ends within its storage, in ascending order within each.
  struct Boundary {
    ValueNo value;
    bool end;
    bool above;  // above the boundary before it, and not at the same place; of the first in a storage: false
    bool first;  // in its storage
  };
  struct Root {
    ValueNo value;
    StepNo first, last;
    uint32_t alignment;
    int32_t below;  // how many of `below_` are this one's
  };

  PlanOrder(PlanProblem problem, const Plan& plan);
  void list_members();
  void list_boundaries();
  void list_roots();
  bool same_steps(const PlanProblem& problem) const;
  // Where values begin in their storages, and these in the slab; nothing if sizes do not compare alike.
  struct Offsets {
    std::vector<int64_t> in_root;  // by value
    std::vector<int64_t> in_slab;  // by root
    SlabFigures figures;           // without the naive bytes
  };
  std::optional<Offsets> offsets_for(const PlanProblem& problem) const;
  bool sizes_compare_alike(const PlanProblem& problem, const std::vector<int64_t>& offset_in_root) const;

  PlanProblem problem_;
  Plan plan_;
  std::vector<Member> members_;       // a partner comes before its members
  std::vector<Boundary> boundaries_;  // of storages with several members
  std::vector<Root> roots_;           // of the slab, from below: what lies below a root comes before it
  std::vector<int32_t> below_;        // places in roots_: what a root lies on, its nearest neighbours only
  std::unique_ptr<const PlanOrder> without_windows_;  // tells what they may not exceed; null: there are none
};

}  // namespace forethought
