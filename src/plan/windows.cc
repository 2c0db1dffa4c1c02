// Places inputs inside the output that will hold them (window facts), so that joining them moves no bytes.
#include <algorithm>

#include "plan/fold.h"

namespace forethought::planning {
namespace {

struct Candidate {
  size_t fact;
  ValueNo root;           // of the input
  ValueNo forecast_root;  // of the input in the forecast, if all its bytes will be the input's; else kNoId
  StepNo first;
};

class WindowPlacer {
 public:
  WindowPlacer(Folding& f, Storages& forecast)
      : f_(f), st_(f.storages), forecast_(forecast), taken_in_(f.problem.values.size(), kNoId) {}

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
    const ValueNo forecast_out = forecast_.find(out).root;
    if (!f_.model) keep_within_bound(chosen, forecast_out);
    for (const Candidate& c : chosen) {
      const WindowFact& fact = f_.problem.steps[s].windows[c.fact];
      st_.merge(c.root, spot.root, spot.offset + fact.byte_offset, Place::inside, out);
      if (c.forecast_root != kNoId) forecast_.merge(c.forecast_root, forecast_out, 0, Place::inside, out);
      f_.plan.windows[f_.plan.first_window[s] + c.fact] = 1;
    }
  }

  std::vector<Candidate> candidates(StepNo s, size_t begin, size_t end, Storages::Spot spot) {
    std::vector<Candidate> found;
    int64_t taken = 0;  // windows come in ascending order, and one that would overlap its forerunner is left out
    for (size_t i = begin; i < end; ++i) {
      const WindowFact& fact = f_.problem.steps[s].windows[i];
      if (f_.model && !f_.model->window_honoured(s, i)) continue;
      const int64_t bytes = f_.problem.values[fact.in].bytes;
      const Storages::Spot in = st_.find(fact.in);
      if (st_.device(in.root) != st_.device(spot.root)) continue;
      if (f_.problem.values[fact.in].role != Role::execution || st_.arena(in.root) != ArenaKind::slab) continue;
      if (bytes == 0 || !st_.covers(fact.in, in) || in.root == spot.root || taken_in_[in.root] == s) continue;
      if (fact.byte_offset < taken) continue;
      taken = fact.byte_offset + bytes;
      taken_in_[in.root] = s;
      found.push_back(forecast_of(i, fact, in.root));
    }
    return found;
  }

  Candidate forecast_of(size_t index, const WindowFact& fact, ValueNo root) {
    const Storages::Spot spot = forecast_.find(fact.in);
    const bool whole = forecast_.covers(fact.in, spot) && forecast_.arena(spot.root) == ArenaKind::slab &&
                       spot.root != forecast_.find(fact.out).root;
    return {index, root, whole ? spot.root : kNoId, whole ? forecast_.first(spot.root) : st_.first(root)};
  }

  // Drops the windows born first until the most bytes live at one step do not rise. Leaves the profile as decided.
  void keep_within_bound(std::vector<Candidate>& chosen, ValueNo out) {
    std::sort(chosen.begin(), chosen.end(), [](const Candidate& a, const Candidate& b) {
      return a.first != b.first ? a.first > b.first : a.fact < b.fact;
    });
    Profile& profile = forecast_.profile(forecast_.device(out));
    const int64_t bound = profile.max();
    while (!chosen.empty()) {
      apply(chosen, out, 1);
      if (profile.max() <= bound) return;
      apply(chosen, out, -1);
      chosen.resize(chosen.size() - (chosen.size() + 7) / 8);
    }
  }

  // The output's bytes live as long as any of its windows; these have no bytes of their own any more.
  void apply(const std::vector<Candidate>& chosen, ValueNo out, int64_t sign) {
    Profile& profile = forecast_.profile(forecast_.device(out));
    StepNo born = forecast_.first(out), dead = forecast_.last(out);
    for (const Candidate& c : chosen) {
      born = std::min(born, c.first);
      if (c.forecast_root == kNoId) continue;
      dead = std::max(dead, forecast_.last(c.forecast_root));
      profile.add(c.first, forecast_.last(c.forecast_root), -sign * forecast_.rounded(c.forecast_root));
    }
    if (forecast_.arena(out) != ArenaKind::slab) return;
    profile.add(born, forecast_.first(out) - 1, sign * forecast_.rounded(out));
    profile.add(forecast_.last(out) + 1, dead, sign * forecast_.rounded(out));
  }

  Folding& f_;
  Storages& st_;
  Storages& forecast_;
  std::vector<StepNo> taken_in_;  // the step one of whose windows a storage fills
};

}  // namespace

void place_windows(Folding& f, Storages& forecast) { WindowPlacer(f, forecast).run(); }

}  // namespace forethought::planning
