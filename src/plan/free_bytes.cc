// What is free throughout some periods: an item that lives through one of them can only go into gaps that it leaves.
#include "plan/free_bytes.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace forethought::planning {
namespace {

// With fewer items alive at a time, on average, what lies beside an item in time and in bytes is soon looked through.
constexpr int64_t kAlive = 64;
constexpr int64_t kEndless = std::numeric_limits<int64_t>::max();

// How many periods an item lives as long as, on average. The more, the fewer items live through none, for which all has
// to be looked at; and the more is to be done whenever something is taken. Measured to be about best.
int64_t periods_of_a_life(int64_t items) {
  return 1 + static_cast<int64_t>(std::sqrt(static_cast<double>(items))) / 12;
}

}  // namespace

FreeBytes::FreeBytes(const PackProblem& problem) : smallest_(kEndless), all_{{0, kEndless}} {
  for (const PackItem& item : problem.items) {
    last_birth_ = std::max(last_birth_, item.first);
    smallest_ = std::min(smallest_, item.size);
  }
  int64_t steps = 0;
  for (const PackItem& item : problem.items) steps += std::min(item.last, last_birth_) - item.first + 1;
  if (steps <= kAlive * last_birth_) return;
  const int64_t items = static_cast<int64_t>(problem.items.size());
  length_ = static_cast<size_t>(steps / (items * periods_of_a_life(items)) + 1);
  periods_.resize(static_cast<size_t>(last_birth_) / length_ + 1);
}

void FreeBytes::clear() {
  for (Period& period : periods_) {
    period.taken = 0;
    period.gaps.clear();
  }
}

void FreeBytes::take(const PackItem& item, int64_t offset) {
  if (periods_.empty()) return;
  const size_t begin = static_cast<size_t>(item.first) / length_;
  const size_t end = static_cast<size_t>(std::min(item.last, last_birth_)) / length_ + 1;
  for (size_t p = begin; p < end; ++p) take(periods_[p], {offset, offset + item.size});
}

void FreeBytes::take(Period& period, Span span) {
  std::vector<Span>& gaps = period.gaps;
  if (gaps.empty()) gaps = all_;
  auto gap =
      std::upper_bound(gaps.begin(), gaps.end(), span.begin, [](int64_t at, const Span& g) { return at < g.end; });
  const auto worth_keeping = [&](int64_t from, int64_t to) { return to - from >= smallest_; };
  if (gap->begin < span.begin) {  // its lower part stays
    const Span whole = *gap;
    period.taken += std::min(whole.end, span.end) - span.begin;
    if (worth_keeping(span.end, whole.end)) {
      gap->begin = span.end;
      if (worth_keeping(whole.begin, span.begin)) gaps.insert(gap, {whole.begin, span.begin});
      return;
    }
    if (worth_keeping(whole.begin, span.begin)) {
      gap->end = span.begin;
      ++gap;
    } else {
      gap = gaps.erase(gap);
    }
  }
  auto stop = gap;  // those before it go
  for (; stop->begin < span.end; ++stop) {
    period.taken += std::min(stop->end, span.end) - stop->begin;
    if (!worth_keeping(span.end, stop->end)) continue;
    stop->begin = span.end;
    break;
  }
  gaps.erase(gap, stop);
}

const std::vector<Span>& FreeBytes::gaps_for(const PackItem& item) const {
  const size_t begin = (static_cast<size_t>(item.first) + length_ - 1) / length_;
  const size_t whole = item.last < last_birth_ ? (static_cast<size_t>(item.last) + 1) / length_ : periods_.size();
  const size_t end = std::min(whole, periods_.size());
  const Period* fullest = nullptr;
  int64_t most = 0;
  for (size_t p = begin; p < end; ++p) {
    if (periods_[p].taken > most) fullest = &periods_[p], most = fullest->taken;
  }
  return fullest ? fullest->gaps : all_;
}

}  // namespace forethought::planning
