// How messages and reports name the values, steps and enumerators of a plan.
#include "plan/names.h"

namespace forethought {

const char* name(Role role) {
  switch (role) {
    case Role::weight:
      return "weight";
    case Role::input:
      return "input";
    case Role::output:
      return "output";
    case Role::execution:
      return "execution";
    case Role::scratch:
      return "scratch";
    case Role::data_dependent:
      return "data_dependent";
    case Role::object:
      return "object";
  }
  return "?";
}

const char* name(ArenaKind arena) {
  switch (arena) {
    case ArenaKind::none:
      return "none";
    case ArenaKind::slab:
      return "slab";
    case ArenaKind::input:
      return "input";
    case ArenaKind::output:
      return "output";
    case ArenaKind::weights:
      return "weights";
    case ArenaKind::side:
      return "side";
  }
  return "?";
}

const char* name(Place place) {
  switch (place) {
    case Place::own:
      return "own";
    case Place::view:
      return "view";
    case Place::over:
      return "over";
    case Place::under:
      return "under";
    case Place::inside:
      return "inside";
  }
  return "?";
}

namespace {
template <typename T>
std::string label(char sigil, const std::vector<T>& all, int32_t id) {
  std::string s = sigil + std::to_string(id);
  if (id >= 0 && static_cast<size_t>(id) < all.size() && !all[id].name.empty()) {
    s += ' ';
    s += all[id].name;
  }
  return s;
}
}  // namespace

std::string value_label(const PlanProblem& problem, ValueNo id) { return label('%', problem.values, id); }
std::string step_label(const PlanProblem& problem, StepNo id) { return label('#', problem.steps, id); }

}  // namespace forethought
