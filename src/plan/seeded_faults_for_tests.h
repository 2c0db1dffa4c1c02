// Faults that can be seeded into valid plans, for tests and figures of the validator.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "plan/planner.h"
#include "plan/random_problem_for_tests.h"

namespace forethought::seeded {

struct Subject {
  PlanProblem problem;
  Plan plan;
};

// The order of steps by walking backwards through all edges: slow and plain.
inline bool before(const PlanProblem& p, StepNo a, StepNo b) {
  if (a >= b) return false;
  std::vector<StepNo> todo{b};
  std::vector<bool> seen(p.steps.size());
  while (!todo.empty()) {
    const StepNo s = todo.back();
    todo.pop_back();
    for (StepNo t = 0; t < s; ++t) {
      bool edge = p.steps[t].lane == p.steps[s].lane;
      for (const int32_t n : p.steps[s].waits) {
        edge = edge || std::count(p.steps[t].signals.begin(), p.steps[t].signals.end(), n) != 0;
      }
      if (!edge || seen[t]) continue;
      if (t == a) return true;
      seen[t] = true;
      todo.push_back(t);
    }
  }
  return false;
}

inline std::vector<StepNo> accesses(const PlanProblem& p, ValueNo v) {
  std::vector<StepNo> found;
  for (StepNo s = 0; s < static_cast<StepNo>(p.steps.size()); ++s) {
    const auto has = [&](const auto& l) { return std::find(l.begin(), l.end(), v) != l.end(); };
    if (has(p.steps[s].reads) || has(p.steps[s].writes)) found.push_back(s);
  }
  return found;
}

// A value that has bytes of its own in the slab and shares them with nobody by any fact.
inline bool alone(const Subject& s, ValueNo v) {
  const ValuePlace& pl = s.plan.values[v];
  if (pl.arena != ArenaKind::slab || pl.root != v || s.problem.values[v].bytes <= 0) return false;
  for (size_t o = 0; o < s.plan.values.size(); ++o) {
    if (static_cast<ValueNo>(o) != v && s.plan.values[o].root == v) return false;
  }
  return true;
}

// Picks the first id from a random start on for which `fits` holds.
inline std::optional<ValueNo> pick(const Subject& s, Random& rng, const std::function<bool(ValueNo)>& fits) {
  const auto n = static_cast<ValueNo>(s.problem.values.size());
  const auto start = static_cast<ValueNo>(rng.below(n));
  for (ValueNo i = 0; i < n; ++i) {
    if (fits((start + i) % n)) return (start + i) % n;
  }
  return std::nullopt;
}

// Each seeds its fault and returns true, or returns false if this plan offers no place for it.
using Fault = bool (*)(Subject&, Random&);

// Moves a value onto another that is live at the same time; `across` demands that no order exists between the two.
inline bool move_onto(Subject& s, Random& rng, bool across) {
  const auto victim = pick(s, rng, [&](ValueNo v) { return alone(s, v); });
  if (!victim) return false;
  const std::vector<StepNo> theirs = accesses(s.problem, *victim);
  const auto mover = pick(s, rng, [&](ValueNo v) {
    if (v == *victim || !alone(s, v) || s.problem.values[v].alignment > s.problem.granule) return false;
    if (s.plan.values[*victim].offset + s.problem.values[v].bytes > s.plan.peak) return false;
    const std::vector<StepNo> mine = accesses(s.problem, v);
    bool ordered = true, reversed = true, unordered = false;
    for (const StepNo a : theirs) {
      for (const StepNo b : mine) {
        ordered = ordered && before(s.problem, a, b);
        reversed = reversed && before(s.problem, b, a);
        unordered = unordered || (a != b && !before(s.problem, a, b) && !before(s.problem, b, a));
      }
    }
    return !ordered && !reversed && unordered == across;
  });
  if (!mover) return false;
  s.plan.values[*mover].offset = s.plan.values[*victim].offset;
  return true;
}
inline bool overlap(Subject& s, Random& rng) { return move_onto(s, rng, false); }
inline bool cross_lane(Subject& s, Random& rng) { return move_onto(s, rng, true); }

inline bool undersized(Subject& s, Random& rng) {
  const auto v = pick(
      s, rng, [&](ValueNo v) { return s.plan.values[v].arena != ArenaKind::none && s.problem.values[v].bytes > 0; });
  if (v) s.plan.values[*v].bytes -= 1 + rng.below(s.problem.values[*v].bytes);
  return v.has_value();
}

inline bool missing(Subject& s, Random& rng) {
  if (rng.one_in(3)) {
    s.plan.values.pop_back();
    return true;
  }
  const auto v = pick(s, rng, [&](ValueNo v) { return s.plan.values[v].arena != ArenaKind::none; });
  if (v) s.plan.values[*v].arena = ArenaKind::none;
  return v.has_value();
}

inline bool missing_decision(Subject& s, Random& rng) {
  if (s.plan.first_alias.empty() || s.plan.first_alias.back() == 0) return false;
  if (rng.one_in(2)) {
    s.plan.aliases.pop_back();
  } else {
    s.plan.first_alias.back() -= 1;
  }
  return true;
}

inline bool unknown_id(Subject& s, Random& rng) {
  const auto n = static_cast<ValueNo>(s.problem.values.size());
  const auto v = pick(s, rng, [&](ValueNo v) { return s.plan.values[v].arena != ArenaKind::none; });
  if (!v) return false;
  ValuePlace& pl = s.plan.values[*v];
  switch (rng.below(5)) {
    case 0:
      pl.root = n + static_cast<ValueNo>(rng.below(100));
      break;
    case 1:
      pl.root = -2;
      break;
    case 2:
      pl.overwrites = n;
      break;
    case 3:
      pl.index = n + 5;
      break;
    default:
      s.plan.values.push_back(pl);
  }
  return true;
}

inline bool misaligned(Subject& s, Random& rng) {
  const auto v = pick(s, rng, [&](ValueNo v) { return alone(s, v); });
  if (!v) return false;
  s.plan.values[*v].offset += 1 + rng.below(3);
  s.plan.peak += 64;
  return true;
}

// Moves a value so that it lies in two regions.
inline bool straddles_regions(Subject& s, Random& rng) {
  if (s.plan.region == 0) return false;
  const auto v = pick(s, rng, [&](ValueNo c) {
    return alone(s, c) && s.problem.values[c].device == kNoId && s.problem.values[c].alignment <= 64 &&
           s.problem.values[c].bytes > 64 && s.plan.region - 64 + s.problem.values[c].bytes <= s.plan.peak;
  });
  if (!v) return false;
  s.plan.values[*v].offset = s.plan.region - 64;
  return true;
}

inline bool out_of_arena(Subject& s, Random& rng) {
  const auto v = pick(s, rng, [&](ValueNo v) { return alone(s, v); });
  if (!v) return false;
  ValuePlace& pl = s.plan.values[*v];
  switch (rng.below(4)) {
    case 0:
      pl.offset = s.plan.peak;
      break;
    case 1:
      pl.offset = -64;
      break;
    case 2:
      s.plan.peak = pl.offset;
      break;
    default:
      pl.offset = INT64_MAX / 64 * 64;
  }
  return true;
}

inline bool wrong_arena(Subject& s, Random& rng) {
  const auto v = pick(s, rng, [&](ValueNo v) { return s.problem.values[v].role == Role::output; });
  if (!v) return false;
  ValuePlace& pl = s.plan.values[*v];
  pl.arena = ArenaKind::slab;
  pl.index = kNoId;
  s.plan.peak = std::max(s.plan.peak, pl.bytes);
  return true;
}

// Another value takes the bytes of a root that has seen its own last use while a view of it is still to be read.
inline bool view_outlives_owner(Subject& s, Random& rng) {
  const auto view = pick(s, rng, [&](ValueNo v) {
    const ValuePlace& pl = s.plan.values[v];
    return pl.place == Place::view && pl.arena == ArenaKind::slab && s.problem.values[v].bytes > 0 &&
           pl.last_step > s.plan.values[pl.root].last_step;
  });
  if (!view) return false;
  const ValuePlace& pl = s.plan.values[*view];
  const auto thief = pick(s, rng, [&](ValueNo v) {
    return alone(s, v) && s.plan.values[v].first_step > s.plan.values[pl.root].last_step &&
           s.plan.values[v].first_step <= pl.last_step &&
           pl.offset / 64 * 64 + s.problem.values[v].bytes <= s.plan.peak &&
           pl.offset / 64 * 64 + s.problem.values[v].bytes > pl.offset;
  });
  if (!thief) return false;
  s.plan.values[*thief].offset = pl.offset / 64 * 64;
  return true;
}

inline bool view_elsewhere(Subject& s, Random& rng) {
  const auto view =
      pick(s, rng, [&](ValueNo v) { return s.plan.values[v].place == Place::view && s.problem.values[v].bytes > 0; });
  if (!view) return false;
  s.plan.values[*view].offset += 64;
  s.plan.values[*view].offset_in_root += rng.one_in(2) ? 64 : 0;
  s.plan.peak += 64;
  return true;
}

// An output takes over an input that somebody reads later, or that its step reads otherwise too.
inline bool in_place_hazard(Subject& s, Random& rng) {
  const auto start = static_cast<StepNo>(rng.below(static_cast<int64_t>(s.problem.steps.size())));
  for (StepNo i = 0; i < static_cast<StepNo>(s.problem.steps.size()); ++i) {
    const StepNo step = (start + i) % static_cast<StepNo>(s.problem.steps.size());
    const auto& facts = s.problem.steps[step].may_overwrite;
    for (size_t f = 0; f < facts.size(); ++f) {
      const ValueNo in = facts[f].in, out = facts[f].out;
      if (s.plan.overwrite_honoured(step, f) || !alone(s, out) || s.problem.values[in].bytes <= 0) continue;
      const ValuePlace& source = s.plan.values[in];
      const bool needed = s.problem.values[in].role != Role::execution || source.last_step > step ||
                          std::count(s.problem.steps[step].reads.begin(), s.problem.steps[step].reads.end(), in) > 1;
      if (!needed || source.arena == ArenaKind::side) continue;
      ValuePlace& pl = s.plan.values[out];
      pl = ValuePlace{pl.role, source.arena,          Place::over,   source.index, source.root,   in,
                      in,      source.offset_in_root, source.offset, pl.bytes,     pl.first_step, pl.last_step};
      s.plan.overwrites[s.plan.first_overwrite[step] + f] = 1;
      return true;
    }
  }
  return false;
}

inline bool claims_an_overwrite(Subject& s, Random& rng) {
  const auto v = pick(s, rng, [&](ValueNo v) {
    return s.plan.values[v].overwrites == kNoId && s.plan.values[v].first_step != kNoId &&
           s.problem.values[v].role > Role::input;
  });
  if (v) s.plan.values[*v].overwrites = 0;
  return v.has_value();
}

inline bool copies_onto_itself(Subject& s, Random& rng) {
  const auto start = rng.below(static_cast<int64_t>(s.problem.steps.size()));
  for (size_t i = 0; i < s.problem.steps.size(); ++i) {
    const auto step = static_cast<StepNo>((start + i) % s.problem.steps.size());
    for (size_t f = 0; f < s.problem.steps[step].aliases.size(); ++f) {
      const AliasFact& fact = s.problem.steps[step].aliases[f];
      if (!s.plan.alias_honoured(step, f) || s.problem.values[fact.out].bytes <= 0) continue;
      s.plan.aliases[s.plan.first_alias[step] + f] = 0;
      return true;
    }
  }
  return false;
}

inline bool window_elsewhere(Subject& s, Random& rng) {
  const auto v =
      pick(s, rng, [&](ValueNo v) { return s.plan.values[v].place == Place::inside && s.problem.values[v].bytes > 0; });
  if (!v) return false;
  s.plan.values[*v].offset += 64;
  s.plan.values[*v].offset_in_root += 64;
  s.plan.peak += 64;
  return true;
}

inline bool read_before_write(Subject& s, Random& rng) {
  const auto v = pick(s, rng, [&](ValueNo v) {
    return s.problem.values[v].role == Role::execution && s.plan.values[v].first_step > 0;
  });
  if (!v) return false;
  const auto step = static_cast<StepNo>(rng.below(s.plan.values[*v].first_step));
  s.problem.steps[step].reads.push_back(*v);
  return true;
}

inline bool unordered_read(Subject& s, Random& rng) {
  for (PlanStep& step : s.problem.steps) {
    if (step.waits.empty() || rng.one_in(3)) continue;
    for (const ValueNo v : step.reads) {
      const StepNo from = s.plan.values[v].first_step;
      if (s.problem.values[v].role < Role::output || s.problem.steps[from].lane == step.lane) continue;
      const Notifications kept = step.waits;
      step.waits.clear();
      if (!before(s.problem, from, static_cast<StepNo>(&step - s.problem.steps.data()))) return true;
      step.waits = kept;
    }
  }
  return false;
}

inline bool wrong_lifetime(Subject& s, Random& rng) {
  const auto v = pick(s, rng, [&](ValueNo v) { return s.plan.values[v].last_step > 0; });
  if (v) s.plan.values[*v].last_step -= 1;
  return v.has_value();
}

struct Kind {
  const char* name;
  Fault seed;
  const char* message;  // how the validator's message begins, where only one answer is right
};

inline constexpr Kind kKinds[] = {
    {"overlap", overlap, nullptr},
    {"cross-lane hazard", cross_lane, nullptr},
    {"undersized", undersized, "undersized"},
    {"missing", missing, "missing"},
    {"missing decision", missing_decision, "missing"},
    {"unknown id", unknown_id, nullptr},
    {"misaligned", misaligned, "misaligned"},
    {"out of arena", out_of_arena, "out of arena"},
    {"straddles regions", straddles_regions, "straddles"},
    {"wrong arena", wrong_arena, "out of arena"},
    {"view outlives owner", view_outlives_owner, nullptr},
    {"view elsewhere", view_elsewhere, nullptr},
    {"in-place hazard", in_place_hazard, nullptr},
    {"claims an overwrite", claims_an_overwrite, nullptr},
    {"copies onto itself", copies_onto_itself, nullptr},
    {"window elsewhere", window_elsewhere, nullptr},
    {"read before write", read_before_write, nullptr},
    {"unordered read", unordered_read, "read before write"},
    {"wrong lifetime", wrong_lifetime, "wrong facts"},
};

// The problem number `seed` with its plan.
inline Subject subject(uint64_t seed) {
  RandomProblemOptions o;
  o.seed = seed;
  o.steps = 8 + static_cast<int>(seed % 30);
  o.lanes = static_cast<int>(seed % 4) + 1;
  o.apart = seed % 2 == 0;
  o.regions = seed % 3 == 0;
  Subject s{random_problem(o), {}};
  s.plan = plan(s.problem, seed % 5 == 0 ? Effort::off : Effort::replan).value();
  return s;
}

}  // namespace forethought::seeded
