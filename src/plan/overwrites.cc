// Decides which outputs are written over an input that dies at their step (may-overwrite facts).
#include <algorithm>

#include "plan/fold.h"

namespace forethought::planning {
namespace {

constexpr int kMembersLookedAt = 1024;  // bounds the work on storages that very many values share

class OverwriteChooser {
 public:
  explicit OverwriteChooser(Folding& f) : f_(f), st_(f.storages), taken_(f.problem.values.size()) {}

  void run() {
    for (StepNo s = 0; static_cast<size_t>(s) < f_.problem.steps.size(); ++s) {
      const PlanStep& step = f_.problem.steps[s];
      for (size_t i = 0; i < step.may_overwrite.size(); ++i) {
        const OverwriteFact& fact = step.may_overwrite[i];
        if (taken_[fact.out] || (f_.model && !f_.model->overwrite_honoured(s, i))) continue;
        if (!legal(s, step, fact) || !share(s, fact)) continue;
        taken_[fact.out] = 1;
        f_.plan.values[fact.out].overwrites = fact.in;
        f_.plan.overwrites[f_.plan.first_overwrite[s] + i] = 1;
      }
    }
  }

 private:
  const PlanValue& value(ValueNo v) const { return f_.problem.values[v]; }

  bool overlap(ValueNo a, int64_t a_offset, ValueNo b, int64_t b_offset) const {
    return a_offset < b_offset + value(b).bytes && b_offset < a_offset + value(a).bytes;
  }

  // Nothing but this one read of the input still needs its bytes, and the output fits into them.
  bool legal(StepNo s, const PlanStep& step, const OverwriteFact& fact) {
    const int64_t bytes = value(fact.in).bytes;
    if (bytes <= 0 || value(fact.out).bytes <= 0 || value(fact.out).bytes > bytes) return false;
    if (value(fact.in).role != Role::execution || f_.is_view[fact.out]) return false;
    if (value(fact.out).role != Role::execution && value(fact.out).role != Role::output) return false;
    if (value(fact.in).device != value(fact.out).device) return false;
    const Storages::Spot in = st_.find(fact.in);
    if (st_.arena(in.root) != ArenaKind::slab && st_.arena(in.root) != ArenaKind::output) return false;
    const auto overlaps_input = [&](ValueNo v) {
      const Storages::Spot spot = st_.find(v);
      return spot.root == in.root && overlap(v, spot.offset, fact.in, in.offset);
    };
    if (std::count_if(step.reads.begin(), step.reads.end(), overlaps_input) != 1) return false;
    if (std::any_of(step.writes.begin(), step.writes.end(), overlaps_input)) return false;
    if (st_.dead_before(in.root, s)) return true;
    return st_.all_members(in.root, kMembersLookedAt, [&](ValueNo m, int64_t offset) {
      return !overlap(m, offset, fact.in, in.offset) || st_.value_dead_before(m, s);
    });
  }

  bool share(StepNo s, const OverwriteFact& fact) {
    const Storages::Spot in = st_.find(fact.in), out = st_.find(fact.out);
    if (in.root == out.root) return false;
    const bool out_is_free = st_.arena(out.root) == ArenaKind::slab && out.root == fact.out && st_.first(out.root) == s;
    if (out_is_free && st_.covers(fact.out, out)) {  // the output joins the input's storage
      if (!worth_it(in.root, out.root, st_.covers(fact.in, in))) return false;
      st_.merge(out.root, in.root, in.offset, Place::over, fact.in);
      return true;
    }
    // The output has a place already: the input's storage joins that, so that the input is born there.
    const ArenaKind arena = st_.arena(out.root);
    if (arena != ArenaKind::slab && arena != ArenaKind::output) return false;
    if (st_.arena(in.root) != ArenaKind::slab || !st_.covers(fact.in, in)) return false;
    if (value(fact.in).bytes > value(fact.out).bytes) return false;
    const bool vacant = st_.all_members(out.root, kMembersLookedAt, [&](ValueNo m, int64_t offset) {
      return !overlap(m, offset, fact.out, out.offset) || f_.analysis.first[m] >= s;
    });
    if (!vacant || !worth_it(out.root, in.root, false)) return false;
    st_.merge(in.root, out.root, out.offset, Place::under, fact.out);
    return true;
  }

  // Whether `child` may join `parent` without raising the most bytes live at one step; leaves the profile as decided.
  bool worth_it(ValueNo parent, ValueNo child, bool whole) {
    if (f_.model) return true;
    const int64_t room = st_.rounded(parent), bytes = st_.rounded(child);
    const StepNo born = st_.first(parent), dead = st_.last(parent);
    const int32_t device = st_.device(parent);
    const auto apply = [&](int64_t sign) {
      st_.profile(device).add(st_.first(child), st_.last(child), -sign * bytes);
      if (st_.arena(parent) != ArenaKind::slab) return;
      st_.profile(device).add(st_.first(child), born - 1, sign * room);
      st_.profile(device).add(dead + 1, st_.last(child), sign * room);
    };
    const bool in_slab = st_.arena(parent) == ArenaKind::slab;
    const bool never_worse = (whole && room == bytes) || !in_slab;
    if (in_slab && !(whole && st_.bytes(parent) == st_.bytes(child))) f_.plan.weighed = true;
    if (never_worse && !st_.has_profile(device)) return true;
    const int64_t bound = st_.profile(device).max();
    apply(1);
    if (never_worse || st_.profile(device).max() <= bound) return true;
    apply(-1);
    return false;
  }

  Folding& f_;
  Storages& st_;
  std::vector<uint8_t> taken_;  // outputs that overwrite something
};

}  // namespace

void choose_overwrites(Folding& f) { OverwriteChooser(f).run(); }

}  // namespace forethought::planning
