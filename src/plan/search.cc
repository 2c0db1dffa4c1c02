// Improves a packing by small changes of the order in which items are placed.
#include "plan/search.h"

#include <algorithm>

#include "base/hash.h"

namespace forethought::planning {
namespace {

// In the units of Placer::work(): about 200 ms at most, less for small problems.
constexpr int64_t kWork = 40'000'000;
constexpr int64_t kWorkAnItem = 200'000;

class Search {
 public:
  Search(const PackProblem& p, Placer& placer, Packing& best) : p_(p), placer_(placer), best_(best) {}

  // Hill climbing from one order, until `work` is spent. Returns true at the lower bound.
  bool climb(std::vector<int32_t> order, int64_t work) {
    const int64_t end = placer_.work() + work;
    offsets_.assign(order.size(), 0);
    int64_t height = placer_.place(order, 0, Fit::lowest, INT64_MAX, offsets_);
    keep(height);
    std::vector<int32_t> changed = order;
    std::vector<int64_t> before = offsets_;
    while (placer_.work() < end && best_.height > p_.lower_bound) {
      const size_t from = mutate(changed, height);
      if (from >= changed.size()) continue;
      const int64_t now = placer_.place(changed, from, Fit::lowest, height, offsets_);
      if (now <= height) {
        height = now;
        keep(height);
        std::copy(changed.begin() + from, changed.end(), order.begin() + from);
        for (size_t i = from; i < order.size(); ++i) before[order[i]] = offsets_[order[i]];
      } else {
        std::copy(order.begin() + from, order.end(), changed.begin() + from);
        for (size_t i = from; i < order.size(); ++i) offsets_[order[i]] = before[order[i]];
      }
    }
    return best_.height <= p_.lower_bound;
  }

 private:
  uint64_t below(uint64_t n) { return mix64(state_ += 0x9e3779b97f4a7c15ull) % n; }

  void keep(int64_t height) {
    if (height >= best_.height) return;
    best_.height = height;
    best_.offsets = offsets_;
  }

  // Moves one item towards the front: mostly one that reaches the top, or one that conflicts with it. Returns the first
  // position that changed.
  size_t mutate(std::vector<int32_t>& order, int64_t height) {
    const size_t n = order.size();
    tops_.clear();
    for (size_t i = 0; i < n; ++i) {
      if (offsets_[order[i]] + p_.items[order[i]].size == height) tops_.push_back(i);
    }
    placer_.count(static_cast<int64_t>(n) + 1);
    size_t from = tops_[below(tops_.size())];
    const uint64_t kind = below(8);
    if (kind >= 4 && placer_.degree(order[from]) > 0) {
      const int32_t* conflicts = placer_.conflicts_begin(order[from]);
      const int32_t chosen = conflicts[below(placer_.degree(order[from]))];
      from = static_cast<size_t>(std::find(order.begin(), order.end(), chosen) - order.begin());
    }
    const size_t to = static_cast<size_t>(below(n));
    if (kind < 7 && to > from) return move(order, from, below(from + 1));
    return move(order, from, to);
  }

  static size_t move(std::vector<int32_t>& order, size_t from, size_t to) {
    if (from == to) return order.size();
    const auto b = order.begin();
    if (to < from) {
      std::rotate(b + to, b + from, b + from + 1);
    } else {
      std::rotate(b + from, b + from + 1, b + to + 1);
    }
    return std::min(from, to);
  }

  const PackProblem& p_;
  Placer& placer_;
  Packing& best_;
  std::vector<int64_t> offsets_;
  std::vector<size_t> tops_;
  uint64_t state_ = 1;
};

}  // namespace

void search(const PackProblem& problem, Placer& placer, const std::vector<std::vector<int32_t>>& starts,
            Packing& best) {
  Search s(problem, placer, best);
  const int64_t work = std::min(kWork, kWorkAnItem * static_cast<int64_t>(problem.items.size()));
  for (const auto& start : starts) {
    if (s.climb(start, work / static_cast<int64_t>(starts.size()))) return;
  }
}

}  // namespace forethought::planning
