// The storages of a plan: sets of values that share bytes, each owned by a root, merged one into another at an offset.
#include "plan/storages.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/checked.h"

namespace forethought::planning {
namespace {

ArenaKind home_of(const PlanValue& v, bool touched) {
  switch (v.role) {
    case Role::weight:
      return ArenaKind::weights;
    case Role::input:
      return ArenaKind::input;
    case Role::output:
      return ArenaKind::output;
    case Role::object:
      return ArenaKind::none;
    case Role::data_dependent:
      return touched ? ArenaKind::side : ArenaKind::none;
    case Role::execution:
    case Role::scratch:
      break;
  }
  if (!touched) return ArenaKind::none;
  return v.bytes == kUnknownSize ? ArenaKind::side : ArenaKind::slab;
}

}  // namespace

Storages::Storages(const PlanProblem& problem, const Analysis& analysis)
    : problem_(problem), analysis_(analysis), lanes_(analysis.lanes) {
  const size_t n = problem.values.size();
  parent_.resize(n);
  std::iota(parent_.begin(), parent_.end(), 0);
  tail_ = parent_;
  next_.assign(n, kNoId);
  partner_.assign(n, kNoId);
  shift_.assign(n, 0);
  bytes_.resize(n);
  first_ = analysis.first;
  last_ = analysis.last;
  alignment_.resize(n);
  arena_.resize(n);
  place_.assign(n, Place::own);
  profiles_.resize(static_cast<size_t>(problem.devices) + 1);
  for (size_t v = 0; v < n; ++v) {
    bytes_[v] = problem.values[v].bytes;
    alignment_[v] = problem.values[v].alignment;
    arena_[v] = home_of(problem.values[v], first_[v] != kNoId);
  }
  if (lanes_ > 1) collect_lanes();
  for (size_t v = 0; v < n; ++v) {  // an output is read by the caller after the last step
    if (problem.values[v].role != Role::output) continue;
    last_[v] = std::numeric_limits<StepNo>::max();
    if (lanes_ > 1) std::fill_n(value_last_on_.begin() + v * lanes_, lanes_, last_[v]);
  }
  last_on_ = value_last_on_;
}

void Storages::collect_lanes() {
  const size_t n = problem_.values.size();
  value_last_on_.assign(n * lanes_, kNoId);
  known_.assign(n * lanes_, std::numeric_limits<StepNo>::max());
  for (StepNo s = 0; static_cast<size_t>(s) < problem_.steps.size(); ++s) {
    const PlanStep& step = problem_.steps[s];
    const auto touch = [&](ValueNo v) {
      value_last_on_[at(v, step.lane)] = s;
      for (int l = 0; l < lanes_; ++l) known_[at(v, l)] = std::min(known_[at(v, l)], analysis_.known(s, l));
    };
    std::for_each(step.reads.begin(), step.reads.end(), touch);
    std::for_each(step.writes.begin(), step.writes.end(), touch);
  }
}

Storages::Spot Storages::find(ValueNo v) {
  ValueNo root = v;
  int64_t offset = 0;
  while (parent_[root] != root) offset += shift_[root], root = parent_[root];
  const Spot spot{root, offset};
  while (parent_[v] != root && v != root) {
    const ValueNo up = parent_[v];
    const int64_t step = shift_[v];
    parent_[v] = root;
    shift_[v] = offset;
    offset -= step;
    v = up;
  }
  return spot;
}

int64_t Storages::rounded(ValueNo root) const {
  if (arena_[root] != ArenaKind::slab) return 0;
  return static_cast<int64_t>(round_up(static_cast<size_t>(bytes_[root]), problem_.granule));
}

bool Storages::over_before(ValueNo v, const std::vector<StepNo>& last_on, StepNo s) const {
  for (int l = 0; l < lanes_; ++l) {
    const StepNo last = last_on[at(v, l)];
    if (last != s && last > analysis_.known(s, l)) return false;
  }
  return true;
}
bool Storages::dead_before(ValueNo root, StepNo s) const {
  return lanes_ == 1 ? last_[root] <= s : over_before(root, last_on_, s);
}
bool Storages::value_dead_before(ValueNo v, StepNo s) const {
  if (lanes_ > 1) return over_before(v, value_last_on_, s);
  return problem_.values[v].role != Role::output && analysis_.last[v] <= s;
}

void Storages::merge(ValueNo child, ValueNo parent, int64_t offset, Place place, ValueNo partner) {
  if (bytes_[parent] != kUnknownSize && bytes_[child] != kUnknownSize) {
    bytes_[parent] = std::max(bytes_[parent], offset + bytes_[child]);
  }
  first_[parent] = first_[parent] == kNoId  ? first_[child]
                   : first_[child] == kNoId ? first_[parent]
                                            : std::min(first_[parent], first_[child]);
  last_[parent] = std::max(last_[parent], last_[child]);
  if (offset == 0) alignment_[parent] = std::max(alignment_[parent], alignment_[child]);
  for (int l = 0; lanes_ > 1 && l < lanes_; ++l) {
    last_on_[at(parent, l)] = std::max(last_on_[at(parent, l)], last_on_[at(child, l)]);
    known_[at(parent, l)] = std::min(known_[at(parent, l)], known_[at(child, l)]);
  }
  parent_[child] = parent;
  shift_[child] = offset;
  next_[tail_[parent]] = child;
  tail_[parent] = tail_[child];
  place_[child] = place;
  partner_[child] = partner;
}

Profile& Storages::profile(int32_t device) {
  std::optional<Profile>& profile = profiles_[device + 1];
  if (!profile) {
    profile.emplace(problem_.steps.size());
    for (ValueNo v = 0; static_cast<size_t>(v) < parent_.size(); ++v) {
      const bool here = parent_[v] == v && arena_[v] == ArenaKind::slab && problem_.values[v].device == device;
      if (here) profile->add(first_[v], last_[v], rounded(v));
    }
  }
  return *profile;
}

}  // namespace forethought::planning
