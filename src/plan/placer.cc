// Gives offsets to items one after the other, each the lowest or the tightest gap among those it conflicts with.
#include "plan/placer.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "base/checked.h"

namespace forethought::planning {
namespace {

int64_t align_up(int64_t offset, uint32_t alignment) {
  return static_cast<int64_t>(round_up(static_cast<size_t>(offset), alignment));
}

// Looks through taken spans in ascending order for a gap of `size`.
class GapFinder {
 public:
  GapFinder(int64_t size, uint32_t alignment, Fit fit, int64_t ceiling = 0)
      : size_(size), alignment_(alignment), fit_(fit), ceiling_(ceiling) {}

  bool fits_before(int64_t begin) const { return begin - cursor_ >= size_; }
  // Takes the gap between the last span and `begin` if it is better. Returns true when the search is over.
  bool take_before(int64_t begin) {
    if (fit_ == Fit::highest) {
      const int64_t at = (begin - size_) / alignment_ * alignment_;
      if (at >= cursor_ && begin <= ceiling_) best_ = at;
      return false;
    }
    const int64_t at = align_up(cursor_, alignment_);
    if (begin - at < size_ || begin - cursor_ >= best_room_) return false;
    best_ = at;
    best_room_ = begin - cursor_;
    return fit_ == Fit::lowest;
  }
  void advance(int64_t end) { cursor_ = std::max(cursor_, end); }
  int64_t result() {
    if (fit_ == Fit::highest && fits_before(ceiling_)) take_before(ceiling_);
    return best_ >= 0 ? best_ : align_up(cursor_, alignment_);
  }

 private:
  int64_t size_;
  uint32_t alignment_;
  Fit fit_;
  int64_t ceiling_;
  int64_t cursor_ = 0, best_ = -1, best_room_ = std::numeric_limits<int64_t>::max();
};

// The free bytes below the end of what is taken.
class Gaps {
 public:
  int64_t take_tightest(int64_t size, uint32_t alignment) {
    for (auto it = by_room_.lower_bound({size, 0}); it != by_room_.end(); ++it) {
      const auto [room, begin] = *it;
      const int64_t at = align_up(begin, alignment);
      if (begin + room - at < size) continue;
      by_room_.erase(it);
      end_of_.erase(begin);
      add(begin, at);
      add(at + size, begin + room);
      return at;
    }
    const int64_t at = align_up(end_, alignment);
    add(end_, at);
    end_ = at + size;
    return at;
  }
  void give(int64_t begin, int64_t end) {
    auto next = end_of_.lower_bound(begin);
    if (next != end_of_.end() && next->first == end) {
      end = next->second;
      next = remove(next);
    }
    if (next != end_of_.begin() && std::prev(next)->second == begin) {
      begin = std::prev(next)->first;
      remove(std::prev(next));
    }
    if (end == end_) {
      end_ = begin;
    } else {
      add(begin, end);
    }
  }

 private:
  using Ends = std::map<int64_t, int64_t>;
  void add(int64_t begin, int64_t end) {
    if (begin == end) return;
    by_room_.emplace(end - begin, begin);
    end_of_.emplace(begin, end);
  }
  Ends::iterator remove(Ends::iterator it) {
    by_room_.erase({it->second - it->first, it->first});
    return end_of_.erase(it);
  }

  std::set<std::pair<int64_t, int64_t>> by_room_;  // room, begin
  Ends end_of_;                                    // by begin
  int64_t end_ = 0;
};

}  // namespace

Placer::Placer(const PackProblem& problem, int64_t most_conflicts)
    : problem_(problem), by_birth_(in_order_of_birth(problem)), rank_(problem.items.size()) {
  find_earliest();
  if (problem.lanes == 1) {
    list_serial(most_conflicts);
  } else {
    list_lanes(most_conflicts);
  }
}

void Placer::find_earliest() {
  earliest_.reserve(problem_.items.size());
  if (problem_.lanes == 1) {
    for (const PackItem& item : problem_.items) earliest_.push_back(item.first);
    return;
  }
  for (auto known = problem_.known.begin(); known != problem_.known.end(); known += problem_.lanes)
    earliest_.push_back(*std::min_element(known, known + problem_.lanes) + 1);
}

// How many pairs are in conflict, with one lane.
int64_t Placer::count_serial() const {
  int64_t pairs = 0;
  const auto begins_after = [&](int32_t step, int32_t i) { return step < problem_.items[i].first; };
  for (auto i = by_birth_.begin(); i != by_birth_.end(); ++i) {
    pairs += std::upper_bound(i, by_birth_.end(), problem_.items[*i].last, begins_after) - i - 1;
  }
  return pairs;
}

void Placer::list_serial(int64_t most) {
  const auto& items = problem_.items;
  const int64_t count = count_serial();
  if (count > most) return;
  std::vector<std::pair<int32_t, int32_t>> pairs;
  pairs.reserve(static_cast<size_t>(count));
  std::vector<int32_t> live;
  for (const int32_t i : by_birth_) {
    size_t kept = 0;
    for (const int32_t other : live) {
      if (items[other].last < items[i].first) continue;
      live[kept++] = other;
      pairs.emplace_back(i, other);
    }
    live.resize(kept);
    live.push_back(i);
  }
  index_pairs(pairs);
}

void Placer::list_lanes(int64_t most) {
  const int n = static_cast<int>(problem_.items.size());
  std::vector<std::pair<int32_t, int32_t>> pairs;
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < i; ++j) {
      if (may_meet(i, j) && problem_.conflict(i, j)) pairs.emplace_back(i, j);
    }
    if (static_cast<int64_t>(pairs.size()) > most) return;
  }
  index_pairs(pairs);
}

void Placer::index_pairs(const std::vector<std::pair<int32_t, int32_t>>& pairs) {
  begin_.assign(problem_.items.size() + 1, 0);
  for (const auto& [a, b] : pairs) ++begin_[a + 1], ++begin_[b + 1];
  std::partial_sum(begin_.begin(), begin_.end(), begin_.begin());
  neighbours_.resize(pairs.size() * 2);
  std::vector<int64_t> fill(begin_.begin(), begin_.end() - 1);
  for (const auto& [a, b] : pairs) {
    neighbours_[fill[a]++] = b;
    neighbours_[fill[b]++] = a;
  }
  listed_ = true;
  dense_ =
      problem_.lanes == 1 && static_cast<int64_t>(pairs.size()) > kDense * static_cast<int64_t>(problem_.items.size());
}

int64_t Placer::place(const std::vector<int32_t>& order, size_t from, Fit fit, int64_t limit,
                      std::vector<int64_t>& offsets, const Tops& tops) {
  excess_ = 0;
  const bool scan = !listed_ || (from == 0 && dense_);
  return scan ? place_scanning(order, fit, limit, offsets, tops) : place_listed(order, from, fit, limit, offsets, tops);
}

// The end of an item at `offset`; adds to the excess what of it lies above the lower bound.
int64_t Placer::reach(int32_t item, int64_t offset) {
  const int64_t end = offset + problem_.items[item].size;
  excess_ += std::max<int64_t>(0, end - problem_.lower_bound);
  return end;
}

void Placer::sort_spans() {
  if (spans_.size() > 24) {
    std::sort(spans_.begin(), spans_.end(), [](const Span& a, const Span& b) { return a.begin < b.begin; });
    return;
  }
  for (size_t i = 1; i < spans_.size(); ++i) {
    const Span s = spans_[i];
    size_t j = i;
    for (; j > 0 && spans_[j - 1].begin > s.begin; --j) spans_[j] = spans_[j - 1];
    spans_[j] = s;
  }
}

int64_t Placer::place_listed(const std::vector<int32_t>& order, size_t from, Fit fit, int64_t limit,
                             std::vector<int64_t>& offsets, const Tops& tops) {
  const auto& items = problem_.items;
  int64_t height = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    rank_[order[i]] = static_cast<int32_t>(i);
    if (i < from) height = std::max(height, reach(order[i], offsets[order[i]]));
  }
  work_ += static_cast<int64_t>(order.size());
  for (size_t i = from; i < order.size(); ++i) {
    const int32_t item = order[i];
    spans_.clear();
    for (const int32_t* n = conflicts_begin(item); n != conflicts_end(item); ++n) {
      if (rank_[*n] < static_cast<int32_t>(i)) spans_.push_back({offsets[*n], offsets[*n] + items[*n].size});
    }
    const int64_t taken = static_cast<int64_t>(spans_.size());
    work_ += degree(item) + taken * std::bit_width(spans_.size()) + 8;
    sort_spans();
    GapFinder gap(items[item].size, items[item].alignment, tops.has(item) ? Fit::highest : fit, tops.ceiling);
    for (const Span& s : spans_) {
      if (gap.fits_before(s.begin) && gap.take_before(s.begin)) break;
      gap.advance(s.end);
    }
    offsets[item] = gap.result();
    height = std::max(height, reach(item, offsets[item]));
    if (height > limit || excess_ > most_excess_) return std::max(height, limit);
  }
  return height;
}

void Placer::Block::insert(size_t at, int32_t number, int32_t earliest, int32_t last_step, Span span) {
  const auto put = [&](auto& list, auto value) {
    std::copy_backward(list.begin() + at, list.begin() + count, list.begin() + count + 1);
    list[at] = value;
  };
  put(first, earliest);
  put(last, last_step);
  put(item, number);
  put(spans, span);
  put(reach, at == 0 ? span.end : std::max(reach[at - 1], span.end));
  ++count;
  for (size_t i = at + 1; i < count && reach[i] < span.end; ++i) reach[i] = span.end;
}

void Placer::Block::move_upper_half_to(Block& other) {
  const size_t half = count / 2;
  const auto move = [&](const auto& from, auto& to) {
    std::copy(from.begin() + half, from.begin() + count, to.begin());
  };
  move(first, other.first);
  move(last, other.last);
  move(item, other.item);
  move(spans, other.spans);
  other.count = count - half;
  count = half;
  int64_t end = 0;
  for (size_t i = 0; i < other.count; ++i) other.reach[i] = end = std::max(end, other.spans[i].end);
}

size_t Placer::Block::first_beyond(int64_t end, size_t from) const {
  for (size_t rest = count - from; rest > 1;) {  // by halves, without a branch on what is found
    const size_t half = rest / 2;
    from += reach[from + half - 1] <= end ? half : 0;
    rest -= half;
  }
  return from;
}

// Lists in meets_ which entries are in conflict with the item; returns how many.
size_t Placer::list_meeting(const Block& block, size_t from, size_t to, int item) {
  const int32_t first = earliest_[item], last = problem_.items[item].last;
  size_t n = 0;
  for (size_t i = from; i < to; ++i) {  // without a branch: who meets is not predictable
    meets_[n] = static_cast<uint8_t>(i);
    n += static_cast<size_t>(block.first[i] <= last) & static_cast<size_t>(first <= block.last[i]);
  }
  if (problem_.lanes == 1) return n;
  const auto apart = [&](uint8_t i) { return !problem_.conflict(item, block.item[i]); };
  return static_cast<size_t>(std::remove_if(meets_.begin(), meets_.begin() + n, apart) - meets_.begin());
}

// Moves the cursor up to where the item fits. False if it does not below `end`, at which an item in conflict begins.
bool Placer::find_room(int item, int64_t end, Scan& scan) {
  const PackItem& it = problem_.items[item];
  for (size_t at_once = 8;; at_once = std::min(2 * at_once, Block::kMost)) {
    const Block& block = *blocks_[scan.block];
    const size_t to = std::min(scan.entry + at_once, block.count), n = list_meeting(block, scan.entry, to, item);
    for (size_t i = 0; i < n; ++i) {
      const Span s = block.spans[meets_[i]];
      if (s.begin - align_up(scan.cursor, it.alignment) >= it.size) return true;
      if (s.begin >= end) {
        scan.entry = meets_[i];
        return false;
      }
      scan.cursor = std::max(scan.cursor, s.end);
    }
    scan.entry = to;
    if (to < block.count) continue;
    if (scan.block + 1 == blocks_.size()) return true;
    ++scan.block;
    scan.entry = 0;
  }
}

// The lowest place, which lies in one of the gaps.
int64_t Placer::lowest_in(const std::vector<Span>& gaps, int item) {
  const PackItem& it = problem_.items[item];
  Scan scan;
  for (const Span& gap : gaps) {
    if (gap.end - gap.begin < it.size) continue;
    scan.cursor = std::max(scan.cursor, gap.begin);
    const auto over = [&](const Block& b) { return b.reach[b.count - 1] <= scan.cursor; };
    while (scan.block + 1 < blocks_.size() && over(*blocks_[scan.block])) ++scan.block, scan.entry = 0;
    scan.entry = blocks_[scan.block]->first_beyond(scan.cursor, scan.entry);
    if (find_room(item, gap.end, scan)) break;
  }
  for (size_t b = 0; b <= scan.block; ++b) work_ += static_cast<int64_t>(blocks_[b]->count) / 2;
  return align_up(scan.cursor, it.alignment);
}

int64_t Placer::gap_by_scan(int item, Fit fit, int64_t ceiling) {
  GapFinder gap(problem_.items[item].size, problem_.items[item].alignment, fit, ceiling);
  for (const auto& block : blocks_) {
    work_ += static_cast<int64_t>(block->count) / 2;
    const size_t n = list_meeting(*block, 0, block->count, item);
    for (size_t i = 0; i < n; ++i) {
      const Span s = block->spans[meets_[i]];
      if (gap.fits_before(s.begin) && gap.take_before(s.begin)) return gap.result();
      gap.advance(s.end);
    }
  }
  return gap.result();
}

void Placer::insert_placed(int item, int64_t offset) {
  const auto starts_after = [](int64_t o, const Span& s) { return o < s.begin; };
  size_t b = 0;
  while (b + 1 < blocks_.size() && blocks_[b + 1]->spans[0].begin <= offset) ++b;
  Block& block = *blocks_[b];
  const auto at = std::upper_bound(block.spans.begin(), block.spans.begin() + block.count, offset, starts_after);
  block.insert(static_cast<size_t>(at - block.spans.begin()), item, earliest_[item], problem_.items[item].last,
               {offset, offset + problem_.items[item].size});
  if (block.count < Block::kMost) return;
  auto upper = std::make_unique<Block>();
  block.move_upper_half_to(*upper);
  blocks_.insert(blocks_.begin() + b + 1, std::move(upper));
}

int64_t Placer::place_scanning(const std::vector<int32_t>& order, Fit fit, int64_t limit, std::vector<int64_t>& offsets,
                               const Tops& tops) {
  int64_t height = 0;
  blocks_.clear();
  blocks_.push_back(std::make_unique<Block>());
  if (!free_) free_.emplace(problem_);
  free_->clear();
  for (const int32_t item : order) {
    const PackItem& it = problem_.items[item];
    const Fit own = tops.has(item) ? Fit::highest : fit;
    offsets[item] = own == Fit::lowest ? lowest_in(free_->gaps_for(it), item) : gap_by_scan(item, own, tops.ceiling);
    insert_placed(item, offsets[item]);
    if (fit == Fit::lowest) free_->take(it, offsets[item]);
    height = std::max(height, reach(item, offsets[item]));
    if (height > limit) return height;
  }
  work_ += static_cast<int64_t>(order.size()) * 8;
  return height;
}

// What is placed in order of births meets only what lives at the birth, so free bytes are a list of gaps.
int64_t Placer::place_born(int64_t limit, std::vector<int64_t>& offsets) {
  if (problem_.lanes > 1 || (listed_ && !dense_)) return place(by_birth_, 0, Fit::tightest, limit, offsets);
  const auto& items = problem_.items;
  Gaps gaps;
  std::vector<std::pair<int32_t, int32_t>> dying;  // a heap of (last step, item)
  const auto later = std::greater<std::pair<int32_t, int32_t>>();
  int64_t height = 0;
  excess_ = 0;
  for (const int32_t item : by_birth_) {
    while (!dying.empty() && dying.front().first < items[item].first) {
      std::pop_heap(dying.begin(), dying.end(), later);
      const int32_t dead = dying.back().second;
      gaps.give(offsets[dead], offsets[dead] + items[dead].size);
      dying.pop_back();
    }
    offsets[item] = gaps.take_tightest(items[item].size, items[item].alignment);
    dying.emplace_back(items[item].last, item);
    std::push_heap(dying.begin(), dying.end(), later);
    height = std::max(height, reach(item, offsets[item]));
    if (height > limit) return height;
  }
  work_ += static_cast<int64_t>(by_birth_.size()) * 100;
  return height;
}

}  // namespace forethought::planning
