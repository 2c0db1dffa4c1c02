// Slot sharing, the usual way to plan memory: each item takes a whole slot, one tenant after another.
#include "plan/slots.h"

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

#include "plan/regions.h"

namespace forethought::planning {
namespace {

struct Slot {
  int64_t size;
  uint32_t alignment;
  int32_t tenant;
};

// Which slots are dead when an item is born.
class DeadSlots {
 public:
  DeadSlots(const PackProblem& problem, const std::vector<Slot>& slots) : p_(problem), slots_(slots) {}

  // Takes the smallest that has room for the item; failing that, the largest if `grows`; kNoId if there is none.
  int32_t take(int32_t item, bool grows) { return p_.lanes == 1 ? take_serial(item, grows) : scan(item, grows); }
  void moved_in(int32_t item, int32_t slot) {
    if (p_.lanes > 1) return;
    dying_.emplace_back(p_.items[item].last, slot);
    std::push_heap(dying_.begin(), dying_.end(), std::greater<>());
  }

 private:
  int32_t take_serial(int32_t item, bool grows) {
    while (!dying_.empty() && dying_.front().first < p_.items[item].first) {
      std::pop_heap(dying_.begin(), dying_.end(), std::greater<>());
      dead_.emplace(slots_[dying_.back().second].size, dying_.back().second);
      dying_.pop_back();
    }
    auto it = dead_.lower_bound({p_.items[item].size, 0});
    if (it == dead_.end()) {
      if (!grows || dead_.empty()) return kNoId;
      --it;
    }
    const int32_t slot = it->second;
    dead_.erase(it);
    return slot;
  }
  int32_t scan(int32_t item, bool grows) const {
    int32_t found = kNoId, largest = kNoId;
    for (size_t s = 0; s < slots_.size(); ++s) {
      if (!p_.over_before(slots_[s].tenant, item)) continue;
      const int64_t size = slots_[s].size;
      if (size >= p_.items[item].size && (found == kNoId || size < slots_[found].size)) found = static_cast<int32_t>(s);
      if (largest == kNoId || size >= slots_[largest].size) largest = static_cast<int32_t>(s);
    }
    return found != kNoId || !grows ? found : largest;
  }

  const PackProblem& p_;
  const std::vector<Slot>& slots_;
  std::set<std::pair<int64_t, int32_t>> dead_;      // by size; one lane only
  std::vector<std::pair<int32_t, int32_t>> dying_;  // a heap of (last step, slot); one lane only
};

int64_t put_on_top(int64_t* height, int64_t size, uint32_t alignment, int64_t region) {
  const int64_t at = first_place(*height, size, alignment, region);
  *height = at + size;
  return at;
}

}  // namespace

Packing share_slots(const PackProblem& p, const std::vector<int32_t>& by_birth, SlotSize size, int64_t limit) {
  std::vector<Slot> slots;
  std::vector<int32_t> slot_of(p.items.size());
  Packing packing{std::vector<int64_t>(p.items.size())};
  DeadSlots dead(p, slots);
  int64_t sum = 0;
  for (const int32_t i : by_birth) {
    const PackItem& item = p.items[i];
    int32_t found = dead.take(i, size == SlotSize::grows);
    if (found == kNoId) {
      found = static_cast<int32_t>(slots.size());
      slots.push_back({0, item.alignment, i});
    }
    Slot& slot = slots[found];
    sum += std::max<int64_t>(item.size - slot.size, 0);
    slot = {std::max(slot.size, item.size), std::max(slot.alignment, item.alignment), i};
    slot_of[i] = found;
    dead.moved_in(i, found);
    if (sum >= limit) return {{}, sum};
  }
  std::vector<int64_t> offsets;
  for (const Slot& slot : slots) offsets.push_back(put_on_top(&packing.height, slot.size, slot.alignment, p.region));
  for (size_t i = 0; i < p.items.size(); ++i) packing.offsets[i] = offsets[slot_of[i]];
  packing.slots = static_cast<int32_t>(slots.size());
  return packing;
}

Packing stack(const PackProblem& p) {
  Packing packing;
  for (const PackItem& item : p.items)
    packing.offsets.push_back(put_on_top(&packing.height, item.size, item.alignment, p.region));
  return packing;
}

}  // namespace forethought::planning
