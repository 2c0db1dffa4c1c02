// Places inputs inside the output that will hold them (window facts), so that joining them moves no bytes.
#include <algorithm>

#include "plan/fold.h"

namespace forethought::planning {
namespace {

struct Candidate {
  size_t fact;
  ValueNo root;
  StepNo first;
};

class WindowPlacer {
 public:
  explicit WindowPlacer(Folding& f) : f_(f), st_(f.storages), taken_in_(f.problem.values.size(), kNoId) {}

  void run() {
    for (StepNo s = 0; static_cast<size_t>(s) < f_.problem.steps.size(); ++s) {
      const auto& windows = f_.problem.steps[s].windows;
      for (size_t i = 0; i < windows.size();) {  // one output at a time
        size_t end = i + 1;
        while (end < windows.size() && windows[end].out == windows[i].out) ++end;
        place(s, i, end);
        i = end;
      }
    }
  }

 private:
  void place(StepNo s, size_t begin, size_t end) {
    const ValueNo out = f_.problem.steps[s].windows[begin].out;
    const Storages::Spot spot = st_.find(out);
    const ArenaKind arena = st_.arena(spot.root);
    if (arena != ArenaKind::slab && arena != ArenaKind::output) return;
    if (f_.problem.values[out].bytes == kUnknownSize || f_.is_view[out]) return;
    std::vector<Candidate> chosen = candidates(s, begin, end, spot);
    if (arena == ArenaKind::slab) {
      keep_within_bound(chosen, spot.root);
    } else if (st_.has_profile()) {
      for (const Candidate& c : chosen) st_.profile().add(c.first, st_.last(c.root), -st_.rounded(c.root));
    }
    for (const Candidate& c : chosen) {
      const WindowFact& fact = f_.problem.steps[s].windows[c.fact];
      st_.merge(c.root, spot.root, spot.offset + fact.byte_offset, Place::inside, out);
      f_.plan.windows[f_.plan.first_window[s] + c.fact] = 1;
    }
  }

  std::vector<Candidate> candidates(StepNo s, size_t begin, size_t end, Storages::Spot spot) {
    std::vector<Candidate> found;
    int64_t taken = 0;  // windows come in ascending order, and one that would overlap its forerunner is left out
    for (size_t i = begin; i < end; ++i) {
      const WindowFact& fact = f_.problem.steps[s].windows[i];
      const int64_t bytes = f_.problem.values[fact.in].bytes;
      const Storages::Spot in = st_.find(fact.in);
      if (f_.problem.values[fact.in].role != Role::execution || st_.arena(in.root) != ArenaKind::slab) continue;
      if (bytes == 0 || !st_.covers(fact.in, in) || in.root == spot.root || taken_in_[in.root] == s) continue;
      if (fact.byte_offset < taken) continue;
      taken = fact.byte_offset + bytes;
      taken_in_[in.root] = s;
      found.push_back({i, in.root, st_.first(in.root)});
    }
    return found;
  }

  // Drops the windows born first until the most bytes live at one step do not rise. Leaves the profile as decided.
  void keep_within_bound(std::vector<Candidate>& chosen, ValueNo root) {
    std::sort(chosen.begin(), chosen.end(), [](const Candidate& a, const Candidate& b) {
      return a.first != b.first ? a.first > b.first : a.fact < b.fact;
    });
    const int64_t bound = st_.profile().max();
    while (!chosen.empty()) {
      apply(chosen, root, 1);
      if (st_.profile().max() <= bound) return;
      apply(chosen, root, -1);
      chosen.resize(chosen.size() - (chosen.size() + 7) / 8);
    }
  }

  // The output's bytes live as long as any of its windows; these have no bytes of their own any more.
  void apply(const std::vector<Candidate>& chosen, ValueNo root, int64_t sign) {
    Profile& profile = st_.profile();
    const int64_t whole = sign * st_.rounded(root);
    StepNo born = st_.first(root), dead = st_.last(root);
    for (const Candidate& c : chosen) {
      born = std::min(born, c.first);
      dead = std::max(dead, st_.last(c.root));
      profile.add(c.first, st_.last(c.root), -sign * st_.rounded(c.root));
    }
    profile.add(born, st_.first(root) - 1, whole);
    profile.add(st_.last(root) + 1, dead, whole);
  }

  Folding& f_;
  Storages& st_;
  std::vector<StepNo> taken_in_;  // the step one of whose windows a storage fills
};

}  // namespace

void place_windows(Folding& f) {
  bool any = false;
  for (const PlanStep& step : f.problem.steps) any = any || !step.windows.empty();
  if (any) WindowPlacer(f).run();
}

}  // namespace forethought::planning
