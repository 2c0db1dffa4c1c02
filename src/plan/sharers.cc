#include "plan/sharers.h"

#include <algorithm>
#include <limits>
#include <map>

namespace forethought {
namespace {

int64_t end_of(const ValuePlace& p) {
  return p.bytes == kUnknownSize ? std::numeric_limits<int64_t>::max() : p.offset + p.bytes;
}

}  // namespace

Sharers::Sharers(const Plan& plan) : plan_(plan), buffer_of_(plan.values.size(), -1), position_(plan.values.size()) {
  std::map<std::pair<ArenaKind, int32_t>, int32_t> found;
  for (size_t v = 0; v < plan.values.size(); ++v) {
    const ValuePlace& p = plan.values[v];
    if (p.arena == ArenaKind::none || p.arena == ArenaKind::weights || p.bytes == 0) continue;
    const auto [it, is_new] = found.try_emplace({p.arena, p.index}, static_cast<int32_t>(buffers_.size()));
    if (is_new) buffers_.push_back({p.arena, p.index, {}, {}, {}});
    Buffer& b = buffers_[it->second];
    b.begins.push_back(p.offset);
    b.ends.push_back(end_of(p));
    b.by_time.push_back(static_cast<ValueNo>(v));
    buffer_of_[v] = it->second;
  }
  for (Buffer& b : buffers_) {
    std::sort(b.begins.begin(), b.begins.end());
    std::sort(b.ends.begin(), b.ends.end());
    std::stable_sort(b.by_time.begin(), b.by_time.end(),
                     [&](ValueNo x, ValueNo y) { return plan.values[x].first_step < plan.values[y].first_step; });
    for (size_t i = 0; i < b.by_time.size(); ++i) position_[b.by_time[i]] = static_cast<uint32_t>(i);
  }
}

int64_t Sharers::count(ValueNo value) const {
  if (buffer_of_[value] < 0) return 0;
  const Buffer& b = buffers_[buffer_of_[value]];
  const ValuePlace& p = plan_.values[value];
  const auto end_before = std::upper_bound(b.ends.begin(), b.ends.end(), p.offset) - b.ends.begin();
  const auto begin_behind = b.begins.end() - std::lower_bound(b.begins.begin(), b.begins.end(), end_of(p));
  return static_cast<int64_t>(b.begins.size()) - end_before - begin_behind - 1;
}

std::vector<ValueNo> Sharers::nearest(ValueNo value, size_t most) const {
  most = std::min(most, static_cast<size_t>(count(value)));
  std::vector<ValueNo> found;
  if (most == 0) return found;
  const std::vector<ValueNo>& all = buffers_[buffer_of_[value]].by_time;
  const ValuePlace& p = plan_.values[value];
  const auto distance = [&](size_t i) { return std::abs(plan_.values[all[i]].first_step - p.first_step); };
  // Two hands walk away from the value, the nearer one first.
  for (size_t before = position_[value], behind = before + 1; found.size() < most;) {
    const bool back = before > 0 && (behind == all.size() || distance(before - 1) <= distance(behind));
    const ValueNo other = back ? all[--before] : all[behind++];
    const ValuePlace& q = plan_.values[other];
    if (q.offset < end_of(p) && p.offset < end_of(q)) found.push_back(other);
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace forethought
