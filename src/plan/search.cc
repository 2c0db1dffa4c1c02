// Improves a packing by small changes of the order in which items are placed.
#include "plan/search.h"

#include <algorithm>

#include "base/hash.h"

namespace forethought::planning {
namespace {

class Search {
 public:
  Search(const PackProblem& p, Placer& placer, Packing& best) : p_(p), placer_(placer), best_(best) {}

  // Hill climbing from one order, until `work` is spent. Returns true at the lower bound.
  bool climb(const SearchStart& start, int64_t work) {
    const int64_t end = placer_.work() + work;
    order_ = start.order;
    tops_ = start.tops;
    tops_.ceiling = p_.lower_bound;
    tops_.is_top.resize(order_.size());
    offsets_.assign(order_.size(), 0);
    placer_.set_most_excess(INT64_MAX);
    keep(placer_.place(order_, 0, Fit::lowest, INT64_MAX, offsets_, tops_));
    int64_t excess = placer_.excess();
    std::vector<int32_t> before = order_;
    std::vector<int64_t> offsets_before = offsets_;
    while (placer_.work() < end && best_.height > p_.lower_bound) {
      const Change change = mutate();
      if (change.from >= order_.size()) continue;
      placer_.set_most_excess(excess);
      const int64_t height = placer_.place(order_, change.from, Fit::lowest, INT64_MAX, offsets_, tops_);
      if (placer_.excess() <= excess) {
        excess = placer_.excess();
        keep(height);
        std::copy(order_.begin() + change.from, order_.end(), before.begin() + change.from);
        for (size_t i = change.from; i < order_.size(); ++i) offsets_before[order_[i]] = offsets_[order_[i]];
      } else {
        if (change.flipped != kNoId) tops_.is_top[change.flipped] ^= 1;
        std::copy(before.begin() + change.from, before.end(), order_.begin() + change.from);
        for (size_t i = change.from; i < order_.size(); ++i) offsets_[order_[i]] = offsets_before[order_[i]];
      }
    }
    placer_.set_most_excess(INT64_MAX);
    return best_.height <= p_.lower_bound;
  }

 private:
  uint64_t below(uint64_t n) { return mix64(state_ += 0x9e3779b97f4a7c15ull) % n; }

  void keep(int64_t height) {
    if (height >= best_.height) return;
    best_.height = height;
    best_.offsets = offsets_;
  }

  struct Change {
    size_t from;              // the first position that changed
    int32_t flipped = kNoId;  // an item that goes from the low end to the high one or back
  };

  // Moves one item towards the front: one that reaches above the bound, or one that conflicts with such a one.
  Change mutate() {
    const size_t n = order_.size();
    above_.clear();
    for (size_t i = 0; i < n; ++i) {
      if (offsets_[order_[i]] + p_.items[order_[i]].size > p_.lower_bound) above_.push_back(i);
    }
    placer_.count(static_cast<int64_t>(n) + 1);
    size_t from = above_[below(above_.size())];
    const uint64_t kind = below(8);
    if (kind >= 4 && placer_.degree(order_[from]) > 0) {
      const int32_t* conflicts = placer_.conflicts_begin(order_[from]);
      const int32_t chosen = conflicts[below(placer_.degree(order_[from]))];
      from = static_cast<size_t>(std::find(order_.begin(), order_.end(), chosen) - order_.begin());
    }
    const int32_t item = order_[from];
    const bool flip = below(4) == 0;
    if (flip) tops_.is_top[item] ^= 1;
    const size_t to = kind < 7 ? below(from + 1) : below(n);
    const size_t moved = move(order_, from, to);
    return {flip ? std::min(moved, from) : moved, flip ? item : kNoId};
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
  std::vector<int32_t> order_;
  Tops tops_;
  std::vector<int64_t> offsets_;
  std::vector<size_t> above_;
  uint64_t state_ = 1;
};

}  // namespace

void search(const PackProblem& problem, Placer& placer, std::vector<SearchStart> starts, int64_t end_of_work,
            Packing& best) {
  constexpr size_t kStarts = 8;
  constexpr int64_t kWorkAStart = 1'000'000;  // less is not worth dividing
  std::stable_sort(starts.begin(), starts.end(),
                   [](const SearchStart& a, const SearchStart& b) { return a.height < b.height; });
  const int64_t work = end_of_work - placer.work();
  starts.resize(std::min(starts.size(), work < int64_t{kStarts} * kWorkAStart ? 1 : kStarts));
  Search s(problem, placer, best);
  for (const SearchStart& start : starts) {
    if (s.climb(start, work / static_cast<int64_t>(starts.size()))) return;
  }
}

}  // namespace forethought::planning
