// Places every value of a problem: folds views, chooses overwrites and windows, and packs the rest into one slab.
#include "plan/planner.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/checked.h"
#include "plan/analysis.h"
#include "plan/fold.h"
#include "plan/live.h"
#include "plan/names.h"
#include "plan/pack.h"
#include "plan/regions.h"
#include "plan/storages.h"

namespace forethought {
namespace planning {
namespace {

void make_room_for_decisions(const PlanProblem& p, Plan& plan) {
  uint32_t aliases = 0, overwrites = 0, windows = 0;
  const auto mark = [&] {
    plan.first_alias.push_back(aliases);
    plan.first_overwrite.push_back(overwrites);
    plan.first_window.push_back(windows);
  };
  plan.first_alias.reserve(p.steps.size() + 1);
  plan.first_overwrite.reserve(p.steps.size() + 1);
  plan.first_window.reserve(p.steps.size() + 1);
  for (const PlanStep& step : p.steps) {
    mark();
    aliases += static_cast<uint32_t>(step.aliases.size());
    overwrites += static_cast<uint32_t>(step.may_overwrite.size());
    windows += static_cast<uint32_t>(step.windows.size());
  }
  mark();
  plan.aliases.assign(aliases, 0);
  plan.overwrites.assign(overwrites, 0);
  plan.windows.assign(windows, 0);
}

// The roots that each slab holds, in order of their ids: the host's, then those of the devices.
std::vector<std::vector<ValueNo>> slab_roots(const PlanProblem& p, Storages& st) {
  std::vector<std::vector<ValueNo>> roots(static_cast<size_t>(p.devices) + 1);
  for (ValueNo v = 0; static_cast<size_t>(v) < p.values.size(); ++v) {
    if (st.arena(v) != ArenaKind::slab || st.find(v).root != v || st.rounded(v) == 0) continue;
    roots[p.values[v].device + 1].push_back(v);
  }
  return roots;
}

std::vector<Live> lives(const Storages& st, const std::vector<ValueNo>& roots) {
  std::vector<Live> live;
  live.reserve(roots.size());
  for (const ValueNo r : roots) live.push_back({st.first(r), st.last(r), st.bytes(r), st.rounded(r)});
  return live;
}

PackProblem to_pack(const PlanProblem& p, const Storages& st, const std::vector<ValueNo>& roots, int64_t bound) {
  PackProblem pack;
  pack.lanes = p.lanes;
  pack.lower_bound = bound;
  pack.items.reserve(roots.size());
  for (const ValueNo r : roots) {
    pack.items.push_back({st.rounded(r), st.first(r), st.last(r), std::max(st.alignment(r), p.granule)});
    for (int l = 0; p.lanes > 1 && l < p.lanes; ++l) {
      pack.last_on.push_back(st.last_on(r, l));
      pack.known.push_back(st.known_before(r, l));
    }
  }
  return pack;
}

void fill_in(const PlanProblem& p, const Analysis& a, Storages& st, const std::vector<int64_t>& root_offset,
             Plan& plan) {
  for (ValueNo v = 0; static_cast<size_t>(v) < p.values.size(); ++v) {
    const Storages::Spot spot = st.find(v);
    const PlanValue& value = p.values[v];
    ValuePlace& out = plan.values[v];
    out.role = value.role == Role::execution && value.bytes == kUnknownSize ? Role::data_dependent : value.role;
    out.arena = st.arena(spot.root);
    out.place = st.place(v);
    out.root = spot.root;
    out.partner = st.partner(v);
    out.offset_in_root = spot.offset;
    out.offset = root_offset[spot.root] + spot.offset;
    out.bytes = value.bytes;
    out.first_step = a.first[v];
    out.last_step = a.last[v];
    switch (out.arena) {
      case ArenaKind::weights:
      case ArenaKind::input:
      case ArenaKind::output:
        out.index = p.values[spot.root].index;
        break;
      case ArenaKind::side:
        out.index = spot.root;
        break;
      case ArenaKind::slab:
        out.index = value.device;
        break;
      case ArenaKind::none:
        break;
    }
    if (out.arena == ArenaKind::side && spot.root == v) ++plan.side_values;
  }
}

bool has_windows(const PlanProblem& p) {
  return std::any_of(p.steps.begin(), p.steps.end(), [](const PlanStep& s) { return !s.windows.empty(); });
}

Plan with_undecided_facts(const PlanProblem& p) {
  Plan plan;
  plan.values.resize(p.values.size());
  plan.devices.resize(static_cast<size_t>(p.devices));
  make_room_for_decisions(p, plan);
  return plan;
}

// The figures of the host's slab, then of those of the devices.
SlabFigures& figures_of(Plan& plan, size_t slab) {
  return slab == 0 ? static_cast<SlabFigures&>(plan) : plan.devices[slab - 1];
}

// Storages with the roots of each slab and the bounds that follow; `plan` holds the decisions.
struct Folded {
  Plan plan;
  Storages storages;
  std::vector<std::vector<ValueNo>> roots;
};

Folded fold(const PlanProblem& p, const Analysis& a, Storages* forecast, bool share, const Plan* model = nullptr) {
  Folded folded{with_undecided_facts(p), Storages(p, a), {}};
  if (share) {
    Folding f{p, a, folded.storages, folded.plan, std::vector<uint8_t>(p.values.size()), model};
    fold_views(f);
    if (forecast) place_windows(f, *forecast);
    choose_overwrites(f);
  }
  folded.roots = slab_roots(p, folded.storages);
  for (size_t slab = 0; slab < folded.roots.size(); ++slab) {
    const std::vector<Live> live = lives(folded.storages, folded.roots[slab]);
    SlabFigures& figures = figures_of(folded.plan, slab);
    find_bound(p.steps.size(), live, figures);
    if (const int64_t region = region_of(p, static_cast<int32_t>(slab) - 1); region > 0)
      figures.lower_bound = std::max(figures.lower_bound, bound_in_regions(p.steps.size(), live, region));
  }
  return folded;
}

// What a plan for `model_problem` honours, in the lists of facts of a problem with the same steps. Nothing if it
// honours a fact that is not listed here.
std::optional<Plan> taken_over(const PlanProblem& p, const PlanProblem& model_problem, const Plan& model) {
  if (p.values.size() != model_problem.values.size() || p.steps.size() != model_problem.steps.size()) {
    return std::nullopt;
  }
  Plan plan = with_undecided_facts(p);
  const auto take = [](const auto& facts, const auto& model_facts, const uint8_t* honoured, uint8_t* decided) {
    for (size_t m = 0; m < model_facts.size(); ++m) {
      if (!honoured[m]) continue;
      const auto same = [&](const auto& f) { return f.in == model_facts[m].in && f.out == model_facts[m].out; };
      const auto found = std::find_if(facts.begin(), facts.end(), same);
      if (found == facts.end()) return false;
      decided[found - facts.begin()] = 1;
    }
    return true;
  };
  for (size_t s = 0; s < p.steps.size(); ++s) {
    const PlanStep &step = p.steps[s], &other = model_problem.steps[s];
    if (!take(step.aliases, other.aliases, model.aliases.data() + model.first_alias[s],
              plan.aliases.data() + plan.first_alias[s]) ||
        !take(step.may_overwrite, other.may_overwrite, model.overwrites.data() + model.first_overwrite[s],
              plan.overwrites.data() + plan.first_overwrite[s]) ||
        !take(step.windows, other.windows, model.windows.data() + model.first_window[s],
              plan.windows.data() + plan.first_window[s])) {
      return std::nullopt;
    }
  }
  return plan;
}

// Honours exactly what `decided` does, or nothing is found.
std::optional<Folded> fold_like(const PlanProblem& p, const Analysis& a, const Plan& decided) {
  Storages forecast(p, a);  // takes part, but with a model nothing is asked of it
  Folded folded = fold(p, a, &forecast, true, &decided);
  if (folded.plan.aliases != decided.aliases || folded.plan.windows != decided.windows ||
      folded.plan.overwrites != decided.overwrites) {
    return std::nullopt;
  }
  return folded;
}

// By root: the slab bytes that its members take in a plan.
std::vector<int64_t> rooms(const Plan& plan) {
  std::vector<int64_t> room(plan.values.size());
  for (const ValuePlace& v : plan.values) {
    if (v.arena == ArenaKind::slab) room[v.root] = std::max(room[v.root], v.offset_in_root + v.bytes);
  }
  return room;
}

// Windows save copies; they are given up where they would cost memory after all.
Folded fold_best(const PlanProblem& p, const Analysis& a) {
  Folded without = fold(p, a, nullptr, true);
  if (!has_windows(p)) return without;
  Storages forecast = without.storages.copy();
  Folded with = fold(p, a, &forecast, true);
  bool worse = false;
  for (size_t slab = 0; slab < with.roots.size(); ++slab) {
    worse = worse || figures_of(with.plan, slab).lower_bound > figures_of(without.plan, slab).lower_bound;
  }
  return worse ? std::move(without) : std::move(with);
}

// Regions must be such that every root has a place in one.
Status check_regions(const PlanProblem& p, const Storages& storages, const std::vector<std::vector<ValueNo>>& roots) {
  for (size_t slab = 0; slab < roots.size(); ++slab) {
    const int64_t region = region_of(p, static_cast<int32_t>(slab) - 1);
    if (region == 0) continue;
    ValueNo largest = kNoId;
    int64_t unit = p.granule;
    for (const ValueNo r : roots[slab]) {
      if (largest == kNoId || storages.rounded(r) > storages.rounded(largest)) largest = r;
      unit = std::max<int64_t>(unit, storages.alignment(r));
    }
    if (region < 0 || region % unit != 0)
      return invalid(absl::StrCat("regions of ", region, " bytes are no multiple of ", unit,
                                  ", to which values of the slab are aligned"));
    if (largest != kNoId && storages.rounded(largest) > region)
      return exhausted(absl::StrCat(
          value_label(p, largest), " takes ", storages.rounded(largest), " bytes, more than a region of ", region,
          " bytes has; the least regions that do have ",
          round_up(static_cast<size_t>(storages.rounded(largest)), static_cast<size_t>(unit)), " bytes each"));
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace planning

StatusOr<Plan> plan(const PlanProblem& problem, Effort effort) {
  using namespace planning;
  ASSIGN_OR_RETURN(const Analysis analysis, analyse(problem));
  Folded folded = effort == Effort::off ? fold(problem, analysis, nullptr, false) : fold_best(problem, analysis);
  RETURN_IF_ERROR(check_regions(problem, folded.storages, folded.roots));
  Plan plan = std::move(folded.plan);
  std::vector<int64_t> root_offset(problem.values.size());
  const auto touched = [&](size_t v) { return analysis.first[v] != kNoId; };
  for (size_t slab = 0; slab < folded.roots.size(); ++slab) {
    SlabFigures& figures = figures_of(plan, slab);
    const std::vector<ValueNo>& roots = folded.roots[slab];
    figures.naive = naive_bytes(problem, static_cast<int32_t>(slab) - 1, touched);
    PackProblem to_be_packed = to_pack(problem, folded.storages, roots, figures.lower_bound);
    to_be_packed.region = region_of(problem, static_cast<int32_t>(slab) - 1);
    const Packing packing = pack(to_be_packed, effort);
    figures.peak = packing.height;
    figures.slots = packing.slots;
    figures.region = figures.peak > to_be_packed.region ? to_be_packed.region : 0;
    for (size_t i = 0; i < roots.size(); ++i) root_offset[roots[i]] = packing.offsets[i];
  }
  fill_in(problem, analysis, folded.storages, root_offset, plan);
  return plan;
}

StatusOr<std::optional<Plan>> plan_inside(const PlanProblem& problem, const PlanProblem& model_problem,
                                          const Plan& model) {
  using namespace planning;
  ASSIGN_OR_RETURN(const Analysis analysis, analyse(problem));
  if (problem.lanes > 1 || problem.devices > 0 || model_problem.lanes > 1) return std::optional<Plan>();
  if (region_of(problem, kNoId) != region_of(model_problem, kNoId)) return std::optional<Plan>();
  const std::optional<Plan> decided = taken_over(problem, model_problem, model);
  if (!decided) return std::optional<Plan>();
  std::optional<Folded> folded = fold_like(problem, analysis, *decided);
  if (!folded) return std::optional<Plan>();
  const std::vector<int64_t> room = rooms(model);
  std::vector<int64_t> root_offset(problem.values.size());
  for (ValueNo v = 0; static_cast<size_t>(v) < problem.values.size(); ++v) {
    const Storages::Spot spot = folded->storages.find(v);
    const ValuePlace& place = model.values[v];
    const bool alike = spot.root == place.root && folded->storages.arena(spot.root) == place.arena &&
                       analysis.first[v] == place.first_step && analysis.last[v] == place.last_step;
    if (!alike || (spot.root == v && folded->storages.rounded(v) >
                                         static_cast<int64_t>(round_up(static_cast<size_t>(room[v]), problem.granule))))
      return std::optional<Plan>();
    if (spot.root == v && place.arena == ArenaKind::slab) root_offset[v] = place.offset;
  }
  Plan plan = std::move(folded->plan);
  plan.naive = naive_bytes(problem, kNoId, [&](size_t v) { return analysis.first[v] != kNoId; });
  plan.peak = model.peak;
  plan.slots = model.slots;
  plan.region = model.region;
  plan.weighed = model.weighed;
  fill_in(problem, analysis, folded->storages, root_offset, plan);
  return std::optional<Plan>(std::move(plan));
}

}  // namespace forethought
