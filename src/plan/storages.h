// The storages of a plan: sets of values that share bytes, each owned by a root, merged one into another at an offset.
#pragma once

#include <optional>
#include <vector>

#include "plan/analysis.h"
#include "plan/plan.h"
#include "plan/profile.h"

namespace forethought::planning {

class Storages {
 public:
  Storages(const PlanProblem& problem, const Analysis& analysis);

  Storages(Storages&&) = default;
  Storages copy() const { return *this; }

  struct Spot {
    ValueNo root;
    int64_t offset;  // of the value within its root
  };
  Spot find(ValueNo v);  // amortised nearly constant; compresses paths

  // Facts of a root.
  ArenaKind arena(ValueNo root) const { return arena_[root]; }
  int64_t bytes(ValueNo root) const { return bytes_[root]; }  // kUnknownSize, or the most that a member needs
  StepNo first(ValueNo root) const { return first_[root]; }
  StepNo last(ValueNo root) const { return last_[root]; }
  uint32_t alignment(ValueNo root) const { return alignment_[root]; }  // the most that a member at its start wants
  int64_t rounded(ValueNo root) const;                                 // slab bytes

  // Per lane: the last step that touches the root, and what is known to be over before any step touches it.
  StepNo last_on(ValueNo root, int lane) const { return lanes_ == 1 ? last_[root] : last_on_[at(root, lane)]; }
  StepNo known_before(ValueNo root, int lane) const { return lanes_ == 1 ? first_[root] - 1 : known_[at(root, lane)]; }

  // All of the root's bytes are v's bytes.
  bool covers(ValueNo v, Spot spot) const { return spot.offset == 0 && bytes_[spot.root] == problem_.values[v].bytes; }
  // Each access to any member of the root but those of step s itself is over when s starts.
  bool dead_before(ValueNo root, StepNo s) const;
  bool value_dead_before(ValueNo v, StepNo s) const;

  // Calls f(member, offset) for the members of a root, until it returns false or `limit` members were seen; tells
  // whether all members passed.
  template <typename F>
  bool all_members(ValueNo root, int limit, F&& f) {
    for (ValueNo m = root; m != kNoId; m = next_[m]) {
      if (limit-- == 0 || !f(m, find(m).offset)) return false;
    }
    return true;
  }

  // Puts the storage `child` (a root) into `parent` (another root) at `offset`;
  // `place` and `partner` say why.
  void merge(ValueNo child, ValueNo parent, int64_t offset, Place place, ValueNo partner);
  // Moves a storage out of the slab.
  void set_arena(ValueNo root, ArenaKind arena) { arena_[root] = arena; }

  Place place(ValueNo v) const { return place_[v]; }
  ValueNo partner(ValueNo v) const { return partner_[v]; }

  // In whose memory the root lies. Only storages of one device may be merged.
  int32_t device(ValueNo root) const { return problem_.values[root].device; }

  // Live bytes of a device's slab by step, built from the present storages on the first call; users keep it up to date.
  Profile& profile(int32_t device);
  bool has_profile(int32_t device) const { return profiles_[device + 1].has_value(); }

 private:
  Storages(const Storages&) = default;
  size_t at(ValueNo v, int lane) const { return static_cast<size_t>(v) * lanes_ + lane; }
  bool over_before(ValueNo v, const std::vector<StepNo>& last_on, StepNo s) const;
  void collect_lanes();

  const PlanProblem& problem_;
  const Analysis& analysis_;
  int lanes_;
  std::vector<ValueNo> parent_, next_, tail_, partner_;
  std::vector<int64_t> shift_;  // offset within parent_
  std::vector<int64_t> bytes_;
  std::vector<StepNo> first_, last_;
  std::vector<StepNo> last_on_, known_, value_last_on_;  // values x lanes; empty with one lane
  std::vector<uint32_t> alignment_;
  std::vector<ArenaKind> arena_;
  std::vector<Place> place_;
  std::vector<std::optional<Profile>> profiles_;  // of the host, then of each device
};

}  // namespace forethought::planning
