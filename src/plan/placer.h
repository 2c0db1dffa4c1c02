// Gives offsets to items one after the other, each the lowest or the tightest gap among those it conflicts with.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "plan/free_bytes.h"
#include "plan/pack.h"

namespace forethought::planning {

enum class Fit { lowest, tightest, highest };

// Which items are placed as high as they go under a ceiling, and not as low as they go. Long-lived items from below and
// short-lived ones from above keep out of each other's way.
struct Tops {
  std::vector<uint8_t> is_top;  // by item; empty: none
  int64_t ceiling = 0;
  bool has(int32_t item) const { return !is_top.empty() && is_top[item]; }
};

class Placer {
 public:
  // With more pairs of conflicts an item a scan over all placed items is faster than sorting those in conflict.
  static constexpr int64_t kDense = 12;

  // Lists the conflicts of all items, or, where there are more than `most_conflicts` pairs, leaves them to be found
  // anew at each placing.
  Placer(const PackProblem& problem, int64_t most_conflicts);

  // All items in order of their births, then of their numbers.
  const std::vector<int32_t>& by_birth() const { return by_birth_; }
  bool has_conflicts() const { return listed_; }
  int degree(int item) const { return listed_ ? static_cast<int>(begin_[item + 1] - begin_[item]) : 0; }
  // The items that conflict with `item`; only if has_conflicts().
  const int32_t* conflicts_begin(int item) const { return neighbours_.data() + begin_[item]; }
  const int32_t* conflicts_end(int item) const { return neighbours_.data() + begin_[item + 1]; }

  // Places order[from..]; `offsets` holds the places of those before. Returns
  // the height over all, or more than `limit` as soon as one item ends above it. Counts its work.
  int64_t place(const std::vector<int32_t>& order, size_t from, Fit fit, int64_t limit, std::vector<int64_t>& offsets,
                const Tops& tops = {});
  // Places by_birth(), each in the tightest gap: the same as place() with Fit::tightest.
  int64_t place_born(int64_t limit, std::vector<int64_t>& offsets);
  // How far the items of the last complete placing reach above the lower bound, summed; and a limit to it, beyond which
  // a placing ends early like one above its limit.
  int64_t excess() const { return excess_; }
  void set_most_excess(int64_t most) { most_excess_ = most; }
  // What was looked at, in units of 2 to 5 ns on a core of 2023. A scan counts all that is placed below the gap that it
  // finds, although it skips what cannot matter.
  int64_t work() const { return work_; }
  void count(int64_t work) { work_ += work; }
  // What placing all items costs where it scans all that is placed; 0 where it looks at conflicts alone.
  int64_t scan_work() const {
    const int64_t n = static_cast<int64_t>(problem_.items.size());
    return listed_ && !dense_ ? 0 : n * n / 4;
  }

 private:
  // Placed items in order of their offsets. Lifetimes stand apart, so that those that meet are found without branches.
  struct Block {
    static constexpr size_t kMost = 128;  // short enough to shift on insertion, long enough to scan fast
    size_t count = 0;
    std::array<int32_t, kMost> first, last, item;  // first: earliest_ of the item
    std::array<Span, kMost> spans;
    std::array<int64_t, kMost> reach;  // where the entries up to this one end at most
    void insert(size_t at, int32_t number, int32_t earliest, int32_t last_step, Span span);
    void move_upper_half_to(Block& other);
    // The first entry from `from` on, if there is one, up to which one ends beyond `end`.
    size_t first_beyond(int64_t end, size_t from) const;
  };
  // Where a scan for a gap stands: the entry to be looked at next, and the end of what meets the item up to there.
  struct Scan {
    size_t block = 0, entry = 0;
    int64_t cursor = 0;
  };

  void find_earliest();
  int64_t count_serial() const;
  void list_serial(int64_t most);
  void list_lanes(int64_t most);
  void index_pairs(const std::vector<std::pair<int32_t, int32_t>>& pairs);
  int64_t place_listed(const std::vector<int32_t>& order, size_t from, Fit fit, int64_t limit,
                       std::vector<int64_t>& offsets, const Tops& tops);
  int64_t place_scanning(const std::vector<int32_t>& order, Fit fit, int64_t limit, std::vector<int64_t>& offsets,
                         const Tops& tops);
  int64_t reach(int32_t item, int64_t offset);
  // Whether two items may be in conflict, by what is quick to compare; certain with one lane.
  bool may_meet(int a, int b) const {
    return earliest_[a] <= problem_.items[b].last && earliest_[b] <= problem_.items[a].last;
  }
  size_t list_meeting(const Block& block, size_t from, size_t to, int item);
  bool find_room(int item, int64_t end, Scan& scan);
  int64_t lowest_in(const std::vector<Span>& gaps, int item);
  int64_t gap_by_scan(int item, Fit fit, int64_t ceiling);
  void sort_spans();
  void insert_placed(int item, int64_t offset);

  const PackProblem& problem_;
  std::vector<int32_t> by_birth_;
  std::vector<int32_t> earliest_;  // by item: what ends before this step is over before the item, on all lanes
  bool listed_ = false, dense_ = false;
  std::vector<int64_t> begin_;
  std::vector<int32_t> neighbours_;
  std::vector<int32_t> rank_;
  std::vector<Span> spans_;
  std::vector<std::unique_ptr<Block>> blocks_;  // all placed items in order of their offsets
  std::array<uint8_t, Block::kMost> meets_;
  std::optional<FreeBytes> free_;  // of what is placed, once something was placed by a scan
  int64_t work_ = 0;
  int64_t excess_ = 0, most_excess_ = INT64_MAX;
};

}  // namespace forethought::planning
