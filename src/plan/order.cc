// What shares bytes and what lies above what, proved once for a list of steps: sizes decide the offsets alone.
#include "plan/order.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/checked.h"
#include "plan/analysis.h"
#include "plan/live.h"
#include "plan/planner.h"

namespace forethought {
namespace {

// A fact's size apart, which the offsets are for.
bool same_facts(const PlanStep& a, const PlanStep& b) {
  const auto same = [](const auto& x, const auto& y) { return x.in == y.in && x.out == y.out; };
  return a.reads == b.reads && a.writes == b.writes &&
         std::equal(a.aliases.begin(), a.aliases.end(), b.aliases.begin(), b.aliases.end(), same) &&
         std::equal(a.may_overwrite.begin(), a.may_overwrite.end(), b.may_overwrite.begin(), b.may_overwrite.end(),
                    same) &&
         std::equal(a.windows.begin(), a.windows.end(), b.windows.begin(), b.windows.end(), same);
}

bool has_windows(const PlanProblem& p) {
  return std::ranges::any_of(p.steps, [](const PlanStep& s) { return !s.windows.empty(); });
}

int sign(int64_t n) { return n > 0 ? 1 : n < 0 ? -1 : 0; }

// Sizes that decide whether one may overwrite or view the other at all.
bool compare_alike(const PlanProblem& p, const PlanProblem& q, ValueNo a, ValueNo b) {
  return sign(p.values[a].bytes - p.values[b].bytes) == sign(q.values[a].bytes - q.values[b].bytes);
}

}  // namespace

int64_t PlanOrder::Shift::bytes(const PlanProblem& p) const {
  if (step == kNoId) return 0;
  return window ? p.steps[step].windows[fact].byte_offset : p.steps[step].aliases[fact].byte_offset;
}

std::string PlanOrder::refusal(const PlanProblem& problem, const Plan& plan) {
  if (problem.devices != 0) return "devices have slabs of their own";
  if (problem.lanes != 1) return "it has several lanes";
  if (region_of(problem, kNoId) != 0) return "its slab is made of regions";
  if (plan.weighed)
    return "a value may be written over one of another size, and whether that pays depends on the sizes of all";
  return "";
}

std::unique_ptr<const PlanOrder> PlanOrder::of(PlanProblem problem, const Plan& plan) {
  if (!refusal(problem, plan).empty()) return nullptr;
  std::unique_ptr<const PlanOrder> without;
  if (has_windows(problem)) {
    PlanProblem other = problem;
    for (PlanStep& s : other.steps) s.windows.clear();
    other.version = 0;
    const auto other_plan = forethought::plan(other, Effort::replan);
    if (!other_plan.ok()) return nullptr;
    without = of(std::move(other), *other_plan);
    if (!without) return nullptr;
  }
  std::unique_ptr<PlanOrder> order(new PlanOrder(std::move(problem), plan));
  order->without_windows_ = std::move(without);
  return order;
}

PlanOrder::PlanOrder(PlanProblem problem, const Plan& plan) : problem_(std::move(problem)), plan_(plan) {
  list_members();
  list_boundaries();
  list_roots();
}

// Follows partners; those that nothing else shares lead to the root.
void PlanOrder::list_members() {
  const size_t n = plan_.values.size();
  std::vector<Shift> shift(n);  // by value
  for (StepNo s = 0; static_cast<size_t>(s) < problem_.steps.size(); ++s) {
    const PlanStep& step = problem_.steps[s];
    for (size_t i = 0; i < step.aliases.size(); ++i) {
      const ValueNo out = step.aliases[i].out;
      const bool view = plan_.alias_honoured(s, i) && plan_.values[out].place == Place::view;
      if (view) shift[out] = {s, static_cast<int32_t>(i), false};
    }
    for (size_t i = 0; i < step.windows.size(); ++i) {
      if (!plan_.window_honoured(s, i)) continue;
      ValueNo born = step.windows[i].in;  // or what it shares bytes with
      while (plan_.values[born].place != Place::inside || plan_.values[born].partner != step.windows[i].out)
        born = plan_.values[born].partner;
      shift[born] = {s, static_cast<int32_t>(i), true};
    }
  }
  std::vector<uint8_t> listed(n);
  std::vector<ValueNo> path;
  for (ValueNo v = 0; static_cast<size_t>(v) < n; ++v) {
    for (ValueNo at = v; plan_.values[at].root != at && !listed[at]; at = plan_.values[at].partner) {
      listed[at] = 1;
      path.push_back(at);
    }
    for (; !path.empty(); path.pop_back())
      members_.push_back({path.back(), plan_.values[path.back()].partner, shift[path.back()]});
  }
}

void PlanOrder::list_boundaries() {
  std::map<ValueNo, std::vector<ValueNo>> storages;
  for (const Member& m : members_) storages[plan_.values[m.value].root].push_back(m.value);
  for (auto& [root, members] : storages) {
    members.push_back(root);
    std::vector<std::pair<int64_t, Boundary>> all;
    for (const ValueNo v : members) {
      const ValuePlace& place = plan_.values[v];
      all.push_back({place.offset_in_root, {v, false, false, false}});
      all.push_back({place.offset_in_root + place.bytes, {v, true, false, false}});
    }
    std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (size_t i = 0; i < all.size(); ++i) {
      Boundary& b = all[i].second;
      b.first = i == 0;
      b.above = i > 0 && all[i].first > all[i - 1].first;
      boundaries_.push_back(b);
    }
  }
}

void PlanOrder::list_roots() {
  std::vector<int32_t> place(plan_.values.size(), kNoId);
  for (ValueNo v = 0; static_cast<size_t>(v) < plan_.values.size(); ++v) {
    const ValuePlace& p = plan_.values[v];
    if (p.arena != ArenaKind::slab) continue;
    if (place[p.root] == kNoId) {
      place[p.root] = static_cast<int32_t>(roots_.size());
      roots_.push_back({p.root, plan_.values[p.root].first_step, plan_.values[p.root].last_step, problem_.granule, 0});
    }
    Root& root = roots_[place[p.root]];
    root.first = std::min(root.first, p.first_step);
    root.last = std::max(root.last, p.last_step);
    if (p.offset_in_root == 0) root.alignment = std::max(root.alignment, problem_.values[v].alignment);
  }
  std::erase_if(roots_, [&](const Root& r) {  // a member of bytes makes a storage of bytes, so the root has some
    return problem_.values[r.value].bytes == 0;
  });
  std::ranges::stable_sort(roots_, {}, [&](const Root& r) { return plan_.values[r.value].offset; });
  // By step from where on: the root that lies uppermost so far. What lies at the same steps is below the next one.
  std::map<StepNo, int32_t> top{{0, kNoId}};
  const auto split = [&](StepNo at) {
    const auto it = std::prev(top.upper_bound(at));
    if (it->first != at) top.emplace(at, it->second);
  };
  for (size_t i = 0; i < roots_.size(); ++i) {
    Root& root = roots_[i];
    split(root.first);
    split(root.last + 1);
    const auto begin = top.find(root.first), end = top.find(root.last + 1);
    const size_t listed = below_.size();
    for (auto it = begin; it != end; ++it) {
      const bool again =
          std::find(below_.begin() + static_cast<std::ptrdiff_t>(listed), below_.end(), it->second) != below_.end();
      if (it->second != kNoId && !again) below_.push_back(it->second);
    }
    root.below = static_cast<int32_t>(below_.size() - listed);
    top.erase(begin, end);
    top.emplace(root.first, static_cast<int32_t>(i));
  }
}

bool PlanOrder::same_steps(const PlanProblem& p) const {
  if (p.steps.size() != problem_.steps.size() || p.values.size() != problem_.values.size() || p.lanes != 1 ||
      p.devices != 0 || p.granule != problem_.granule)
    return false;
  if (p.version != 0 && p.version == problem_.version) return true;
  for (size_t v = 0; v < p.values.size(); ++v)
    if (!same_but_for_bytes(problem_.values[v], p.values[v])) return false;
  for (size_t s = 0; s < p.steps.size(); ++s)
    if (!same_facts(problem_.steps[s], p.steps[s])) return false;
  return true;
}

bool PlanOrder::sizes_compare_alike(const PlanProblem& p, const std::vector<int64_t>& offset_in_root) const {
  int64_t total = 0;
  for (size_t v = 0; v < p.values.size(); ++v) {
    const int64_t bytes = p.values[v].bytes;
    if (sign(bytes) != sign(problem_.values[v].bytes) || bytes > planning::kMostBytes) return false;
    total += std::max<int64_t>(bytes, 0) + p.values[v].alignment + p.granule;
    if (total > planning::kMostBytes) return false;
  }
  for (size_t s = 0; s < p.steps.size(); ++s) {
    const PlanStep& step = p.steps[s];
    for (const OverwriteFact& f : step.may_overwrite)
      if (!compare_alike(p, problem_, f.in, f.out)) return false;
    for (size_t i = 0; i < step.aliases.size(); ++i) {
      const AliasFact& f = step.aliases[i];
      if (!compare_alike(p, problem_, f.in, f.out) || f.byte_offset < 0 ||
          sign(f.byte_offset) != sign(problem_.steps[s].aliases[i].byte_offset))
        return false;
    }
  }
  int64_t before = 0;
  for (const Boundary& b : boundaries_) {
    const int64_t at = offset_in_root[b.value] + (b.end ? p.values[b.value].bytes : 0);
    if (!b.first && (b.above ? at <= before : at != before)) return false;
    before = at;
  }
  return true;
}

std::optional<PlanOrder::Offsets> PlanOrder::offsets_for(const PlanProblem& p) const {
  Offsets o;
  o.in_root.resize(p.values.size());
  for (const Member& m : members_) o.in_root[m.value] = o.in_root[m.partner] + m.shift.bytes(p);
  if (!sizes_compare_alike(p, o.in_root)) return std::nullopt;

  std::vector<int64_t> bytes(p.values.size());  // of storages
  for (size_t v = 0; v < p.values.size(); ++v) {
    const ValueNo root = plan_.values[v].root;
    bytes[root] = std::max(bytes[root], o.in_root[v] + p.values[v].bytes);
  }
  std::vector<planning::Live> live;
  live.reserve(roots_.size());
  std::vector<int64_t> end(roots_.size());
  o.in_slab.resize(p.values.size());
  auto below = below_.begin();
  for (size_t i = 0; i < roots_.size(); ++i) {
    const Root& root = roots_[i];
    int64_t at = 0;
    for (int32_t k = 0; k < root.below; ++k) at = std::max(at, end[*below++]);
    at = static_cast<int64_t>(round_up(static_cast<size_t>(at), root.alignment));
    const auto rounded = static_cast<int64_t>(round_up(static_cast<size_t>(bytes[root.value]), p.granule));
    o.in_slab[root.value] = at;
    end[i] = at + rounded;
    o.figures.peak = std::max(o.figures.peak, end[i]);
    live.push_back({root.first, root.last, bytes[root.value], rounded});
  }
  planning::find_bound(p.steps.size(), live, o.figures);
  return o;
}

std::optional<Plan> PlanOrder::plan_for(const PlanProblem& p) const {
  if (region_of(p, kNoId) != 0 || !same_steps(p)) return std::nullopt;
  const std::optional<Offsets> offsets = offsets_for(p);
  if (!offsets || offsets->figures.peak > offsets->figures.lower_bound) return std::nullopt;
  if (without_windows_) {
    const std::optional<Offsets> without = without_windows_->offsets_for(p);
    if (!without || offsets->figures.lower_bound > without->figures.lower_bound) return std::nullopt;
  }
  Plan plan = plan_;
  static_cast<SlabFigures&>(plan) = offsets->figures;
  plan.naive = planning::naive_bytes(p, kNoId, [&](size_t v) { return plan_.values[v].first_step != kNoId; });
  for (size_t v = 0; v < p.values.size(); ++v) {
    ValuePlace& place = plan.values[v];
    place.bytes = p.values[v].bytes;
    place.offset_in_root = offsets->in_root[v];
    place.offset = offsets->in_slab[place.root] + place.offset_in_root;
  }
  return plan;
}

}  // namespace forethought
