// Decides whether items fit into a given number of bytes: a complete depth-first search over packings pushed down.
//
// Time is cut into sections, in each of which the same items live. Every section has a top: the end of what is placed
// in it. A niche is a run of sections with equal tops between higher ones. Whatever lies at the bottom of a niche lies
// wholly in it, so the search picks one section of one niche and asks which item sits at its top; the last answer is
// none, which raises the top to the next place where something could sit. Three things keep it small. Bounds: every
// unplaced item has a least and a greatest offset, and of two items that meet, one that cannot be below must be above.
// Dominance: a branch ends where an item would fit below what has been decided over it, since pushing it down gives a
// packing that another branch finds. Splitting: parts of time that no unplaced item joins are searched apart.
#include "plan/exact.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "base/hash.h"

namespace forethought::planning {
namespace {

enum class Key { lifetime, area, size, small, crowd };
enum class Choice { fewest_answers, lowest };

// An order among answers, and how to pick the section to ask about.
struct Strategy {
  std::vector<Key> keys;  // descending, the first is the main one; small: ascending in size
  Choice choice;
};

class Exact {
 public:
  Exact(const PackProblem& p, int64_t capacity, int64_t most_work)
      : p_(p), n_(static_cast<int32_t>(p.items.size())), capacity_(capacity), most_work_(most_work) {
    cut_time();
    rank_.resize(n_);
    lowest_.assign(n_, 0);
    bare_.assign(n_, 0);
    offsets_.assign(n_, 0);
    placed_.assign(n_, 0);
    queued_.assign(n_, 0);
    top_.assign(sections_, 0);
    least_.resize(sections_);
    for (int32_t i = 0; i < n_; ++i) highest_.push_back(down(i, capacity - size(i)));
  }

  ExactAnswer run() {
    const std::vector<Strategy> strategies = {
        {{Key::lifetime, Key::area, Key::crowd}, Choice::fewest_answers},
        {{Key::lifetime, Key::area, Key::crowd}, Choice::lowest},
        {{Key::size, Key::lifetime, Key::crowd}, Choice::fewest_answers},
        {{Key::small, Key::lifetime, Key::crowd}, Choice::fewest_answers},
        {{Key::crowd, Key::lifetime, Key::area}, Choice::lowest},
        {{Key::crowd, Key::area, Key::lifetime}, Choice::fewest_answers},
        {{Key::crowd, Key::size}, Choice::fewest_answers},
        {{Key::area, Key::lifetime}, Choice::fewest_answers},
    };
    constexpr int64_t kFirstNodes = 2000;
    for (int64_t nodes = kFirstNodes; work_ < most_work_; nodes *= 2) {
      for (const Strategy& strategy : strategies) {
        const Verdict verdict = attempt(strategy, nodes);
        if (verdict == Verdict::gave_up && work_ < most_work_) continue;
        return {verdict, verdict == Verdict::found ? std::move(offsets_) : std::vector<int64_t>(), work_};
      }
    }
    return {Verdict::gave_up, {}, work_};
  }

 private:
  struct Change {
    int64_t* where;
    int64_t before;
  };
  // A section to ask about, and how many answers there are.
  struct Question {
    int32_t section = kNoId, answers = 0, best_rank = 0;
  };

  int64_t size(int32_t i) const { return p_.items[i].size; }
  int64_t up(int32_t i, int64_t at) const {
    const int64_t a = p_.items[i].alignment;
    return (at + a - 1) / a * a;
  }
  int64_t down(int32_t i, int64_t at) const { return at < 0 ? at : at - at % p_.items[i].alignment; }
  bool meet(int32_t a, int32_t b) const { return begin_[a] < end_[b] && begin_[b] < end_[a]; }

  void set(int64_t& where, int64_t to) {
    changes_.push_back({&where, where});
    where = to;
  }
  void undo(size_t mark) {
    for (; changes_.size() > mark; changes_.pop_back()) *changes_.back().where = changes_.back().before;
  }

  void cut_time() {
    std::vector<int32_t> cuts;
    for (const PackItem& item : p_.items) cuts.push_back(item.first), cuts.push_back(item.last + 1);
    std::sort(cuts.begin(), cuts.end());
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    const auto section = [&](int32_t step) {
      return static_cast<int32_t>(std::lower_bound(cuts.begin(), cuts.end(), step) - cuts.begin());
    };
    sections_ = static_cast<int32_t>(cuts.size()) - 1;
    cover_.resize(sections_);
    missing_.assign(sections_, 0);
    for (int32_t i = 0; i < n_; ++i) {
      begin_.push_back(section(p_.items[i].first));
      end_.push_back(section(p_.items[i].last + 1));
      for (int32_t s = begin_[i]; s < end_[i]; ++s) cover_[s].push_back(i), missing_[s] += size(i);
    }
    meets_.resize(n_);
    for (int32_t i = 0; i < n_; ++i) {
      for (int32_t j = 0; j < n_; ++j) {
        if (i != j && meet(i, j)) meets_[i].push_back(j);
      }
    }
  }

  double key(int32_t i, Key k) const {
    const double span = static_cast<double>(p_.items[i].last) - p_.items[i].first + 1;
    switch (k) {
      case Key::lifetime:
        return span;
      case Key::area:
        return span * static_cast<double>(size(i));
      case Key::size:
        return static_cast<double>(size(i));
      case Key::small:
        return -static_cast<double>(size(i));
      case Key::crowd:
        return static_cast<double>(*std::max_element(missing_.begin() + begin_[i], missing_.begin() + end_[i]));
    }
    return 0;
  }

  // Searches from nothing, over `nodes` nodes at most.
  Verdict attempt(const Strategy& strategy, int64_t nodes) {
    std::vector<int32_t> order(n_);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
      for (const Key k : strategy.keys) {
        if (key(a, k) != key(b, k)) return key(a, k) > key(b, k);
      }
      return false;
    });
    for (int32_t i = 0; i < n_; ++i) rank_[order[i]] = i;
    choice_ = strategy.choice;
    nodes_left_ = nodes;
    stopped_ = false;
    failed_.clear();
    std::iota(order.begin(), order.end(), 0);
    for (const int32_t i : order) queue(i);
    const bool found = tighten(order) && search_parts(order, 0);
    undo(0);
    std::fill(placed_.begin(), placed_.end(), 0);
    return found ? Verdict::found : stopped_ ? Verdict::gave_up : Verdict::impossible;
  }

  // --- bounds

  void queue(int32_t i) {
    if (queued_[i]) return;
    queued_[i] = 1;
    queue_.push_back(i);
  }
  void drop_queue() {
    for (const int32_t i : queue_) queued_[i] = 0;
    queue_.clear();
  }

  bool raise_lowest(int32_t i, int64_t to) {
    if (lowest_[i] >= to) return true;
    set(lowest_[i], up(i, to));
    queue(i);
    return lowest_[i] <= highest_[i];
  }
  bool lower_highest(int32_t i, int64_t to) {
    if (highest_[i] <= to) return true;
    set(highest_[i], down(i, to));
    queue(i);
    return lowest_[i] <= highest_[i];
  }
  // `below` must lie under `above`.
  bool stack(int32_t below, int32_t above) {
    return raise_lowest(above, lowest_[below] + size(below)) && lower_highest(below, highest_[above] - size(below));
  }

  // Of two items that meet, one that cannot be below the other is above it. False: no packing.
  bool order_pairs() {
    for (size_t at = 0; at < queue_.size(); ++at) {
      const int32_t i = queue_[at];
      queued_[i] = 0;
      work_ += static_cast<int64_t>(meets_[i].size());
      for (const int32_t j : meets_[i]) {
        if (placed_[j]) continue;
        if (lowest_[j] + size(j) > highest_[i] && !stack(i, j)) return false;
        if (lowest_[i] + size(i) > highest_[j] && !stack(j, i)) return false;
      }
    }
    return true;
  }

  // Raises the tops of the sections of unplaced `items` to where the first of them could sit. False: no packing, or
  // none that is pushed down.
  bool raise_tops(const std::vector<int32_t>& items) {
    int32_t first = sections_, end = 0;
    for (const int32_t i : items) first = std::min(first, begin_[i]), end = std::max(end, end_[i]);
    std::fill(least_.begin() + first, least_.begin() + end, INT64_MAX);
    for (const int32_t i : items) {
      for (int32_t s = begin_[i]; s < end_[i]; ++s) least_[s] = std::min(least_[s], lowest_[i]);
      work_ += end_[i] - begin_[i];
    }
    for (int32_t s = first; s < end; ++s) {
      if (least_[s] == INT64_MAX) continue;
      if (least_[s] + missing_[s] > capacity_) return false;
      if (least_[s] > top_[s]) set(top_[s], least_[s]);
    }
    for (const int32_t i : items) {
      if (lowest_[i] == bare_[i]) continue;
      if (bare_[i] + size(i) <= *std::min_element(top_.begin() + begin_[i], top_.begin() + end_[i])) return false;
    }
    return true;
  }

  bool tighten(const std::vector<int32_t>& items) {
    if (items.empty()) return true;
    const bool ordered = order_pairs();
    drop_queue();
    return ordered && raise_tops(items);
  }

  // --- search

  bool search_parts(std::vector<int32_t> items, int32_t depth) {
    if (items.empty()) return true;
    std::sort(items.begin(), items.end(),
              [&](int32_t a, int32_t b) { return begin_[a] != begin_[b] ? begin_[a] < begin_[b] : a < b; });
    std::vector<std::vector<int32_t>> parts;
    int32_t end = -1;
    for (const int32_t i : items) {
      if (begin_[i] >= end) parts.emplace_back();
      parts.back().push_back(i);
      end = std::max(end, end_[i]);
    }
    std::stable_sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.size() < b.size(); });
    return std::all_of(parts.begin(), parts.end(), [&](const auto& part) { return search(part, depth + 1); });
  }

  bool search(const std::vector<int32_t>& items, int32_t depth) {
    if (items.size() == 1) {
      offsets_[items[0]] = lowest_[items[0]];
      return lowest_[items[0]] <= highest_[items[0]];
    }
    constexpr int32_t kDeepest = 2000;  // keeps the stack small; waste makes a path longer than the number of items
    if (--nodes_left_ < 0 || work_ > most_work_ || depth > kDeepest) {
      stopped_ = true;
      return false;
    }
    const uint64_t state = state_of(items);
    if (failed_.contains(state)) return false;
    if (answer(items, depth)) return true;
    if (!stopped_) failed_.insert(state);
    return false;
  }

  // What the success of a search from here depends on.
  uint64_t state_of(const std::vector<int32_t>& items) {
    uint64_t h = 0;
    for (const int32_t i : items) {
      h = mix64(h ^ static_cast<uint64_t>(i));
      h = mix64(h ^ static_cast<uint64_t>(lowest_[i]));
      h = mix64(h ^ static_cast<uint64_t>(highest_[i]));
      h = mix64(h ^ static_cast<uint64_t>(bare_[i]));
      for (int32_t s = begin_[i]; s < end_[i]; ++s) h += static_cast<uint64_t>(top_[s]) * (2 * s + 1);
    }
    work_ += 4 * static_cast<int64_t>(items.size());
    return h;
  }

  bool answer(const std::vector<int32_t>& items, int32_t depth) {
    const int32_t s = choose(items);
    const int64_t at = top_[s];
    std::vector<int32_t> candidates;
    for (const int32_t i : cover_[s]) {
      if (!placed_[i] && lowest_[i] == at) candidates.push_back(i);
    }
    std::sort(candidates.begin(), candidates.end(), [&](int32_t a, int32_t b) { return rank_[a] < rank_[b]; });
    std::vector<int32_t> rest;
    for (const int32_t i : candidates) {
      const size_t mark = changes_.size();
      if (place(i, at, items, rest) && search_parts(rest, depth)) return true;
      drop_queue();
      undo(mark);
      placed_[i] = 0;
      if (stopped_) return false;
      const bool alone = std::none_of(items.begin(), items.end(), [&](int32_t j) { return j != i && meet(i, j); });
      if (alone) return false;  // it was in nobody's way
    }
    const size_t mark = changes_.size();
    if (waste(s, items) && search_parts(items, depth)) return true;
    drop_queue();
    undo(mark);
    return false;
  }

  // The section to ask about: in a niche, and with only one answer if there is such a one.
  int32_t choose(const std::vector<int32_t>& items) {
    int32_t first = sections_, end = 0;
    for (const int32_t i : items) first = std::min(first, begin_[i]), end = std::max(end, end_[i]);
    Question best;
    for (int32_t l = first, r = l; l < end; l = r) {
      while (r < end && top_[r] == top_[l]) ++r;
      if ((l > first && top_[l - 1] < top_[l]) || (r < end && top_[r] < top_[l])) continue;
      for (int32_t s = l; s < r; ++s) {
        const Question q = question(s);
        if (q.answers <= 1) return s;
        if (best.section == kNoId || better(q, best)) best = q;
      }
    }
    return best.section;
  }

  Question question(int32_t s) {
    Question q{s, top_[s] + missing_[s] < capacity_ ? 1 : 0, n_};
    for (const int32_t i : cover_[s]) {
      if (placed_[i] || lowest_[i] != top_[s]) continue;
      ++q.answers;
      q.best_rank = std::min(q.best_rank, rank_[i]);
    }
    work_ += static_cast<int64_t>(cover_[s].size());
    return q;
  }

  bool better(const Question& a, const Question& b) const {
    const int64_t top_a = top_[a.section], top_b = top_[b.section];
    if (choice_ == Choice::fewest_answers)
      return std::pair(int64_t{a.answers}, top_a) < std::pair(int64_t{b.answers}, top_b);
    return std::tuple(top_a, a.best_rank, a.answers) < std::tuple(top_b, b.best_rank, b.answers);
  }

  // Puts item i; `rest` are the other items.
  bool place(int32_t i, int64_t at, const std::vector<int32_t>& items, std::vector<int32_t>& rest) {
    offsets_[i] = at;
    placed_[i] = 1;
    const int64_t end = at + size(i);
    for (int32_t s = begin_[i]; s < end_[i]; ++s) {
      set(missing_[s], missing_[s] - size(i));
      set(top_[s], end);
    }
    rest.clear();
    for (const int32_t j : items) {
      if (j == i) continue;
      rest.push_back(j);
      if (!meet(i, j)) continue;
      if (bare_[j] < end) set(bare_[j], up(j, end));
      if (!raise_lowest(j, end)) return false;
    }
    return tighten(rest);
  }

  // Nothing sits at the top of section s: raises it to the next place where something can.
  bool waste(int32_t s, const std::vector<int32_t>& items) {
    const int64_t at = top_[s];
    int64_t next = INT64_MAX;
    for (const int32_t i : cover_[s]) {
      if (placed_[i]) continue;
      if (lowest_[i] > at) {
        next = std::min(next, lowest_[i]);
        continue;
      }
      for (const int32_t j : meets_[i]) {  // it sits on another, and that one not over s
        if (!placed_[j] && (s < begin_[j] || s >= end_[j])) next = std::min(next, up(i, lowest_[j] + size(j)));
      }
      work_ += static_cast<int64_t>(meets_[i].size());
    }
    if (next == INT64_MAX || next + missing_[s] > capacity_) return false;
    set(top_[s], next);
    for (const int32_t i : cover_[s]) {
      if (!placed_[i] && !raise_lowest(i, next)) return false;
    }
    return tighten(items);
  }

  const PackProblem& p_;
  const int32_t n_;
  const int64_t capacity_, most_work_;

  int32_t sections_ = 0;
  std::vector<int32_t> begin_, end_;                 // by item: its sections
  std::vector<std::vector<int32_t>> cover_, meets_;  // items by section; by item, those that live at the same time

  std::vector<int32_t> rank_;
  Choice choice_ = Choice::fewest_answers;
  int64_t nodes_left_ = 0, work_ = 0;
  bool stopped_ = false;
  std::unordered_set<uint64_t> failed_;

  // Changed by the search and undone.
  std::vector<int64_t> lowest_, highest_;  // by item: bounds of its offset
  std::vector<int64_t> bare_;              // by item: the end of what is placed below it
  std::vector<int64_t> top_, missing_;     // by section: see the head; bytes of unplaced items
  std::vector<Change> changes_;
  std::vector<uint8_t> placed_, queued_;
  std::vector<int32_t> queue_;  // items whose bounds changed
  std::vector<int64_t> least_, offsets_;
};

}  // namespace

ExactAnswer pack_exactly(const PackProblem& problem, int64_t capacity, int64_t most_work) {
  const bool fits = std::all_of(problem.items.begin(), problem.items.end(),
                                [&](const PackItem& item) { return item.size <= capacity; });
  if (!fits) return {Verdict::impossible, {}, 0};
  if (problem.lanes != 1 || problem.items.size() > kMostExactItems) return {};
  if (problem.items.empty()) return {Verdict::found, {}, 0};
  return Exact(problem, capacity, most_work).run();
}

}  // namespace forethought::planning
