// The placer against the plainest way to find the lowest free place, with so many items alive that it skips most of
// them.
#include "plan/placer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "plan/random_problem_for_tests.h"

namespace forethought::planning {
namespace {

struct Case {
  const char* name;
  int items, steps, longest;  // a life takes up to `longest` steps, but one in eight lives to the end
  int64_t sizes;              // granules
  int lanes;
};

constexpr Case kCases[] = {
    {"uniform", 700, 1400, 1400, 1000, 1},   {"few sizes", 700, 1400, 1400, 3, 1},
    {"short and long", 900, 500, 40, 50, 1}, {"all at once", 300, 3, 3, 100, 1},
    {"two lanes", 500, 1000, 1000, 100, 2},  {"three lanes", 600, 300, 60, 20, 3},
    {"few alive", 400, 1000, 9, 100, 1},
};

PackProblem problem_of(const Case& c, uint64_t seed) {
  Random rng(seed);
  PackProblem p;
  p.lanes = c.lanes;
  for (int i = 0; i < c.items; ++i) {
    const int32_t first = static_cast<int32_t>(rng.below(c.steps));
    const int32_t life = static_cast<int32_t>(rng.one_in(8) ? c.steps : 1 + rng.below(c.longest));
    const int32_t last = std::min(c.steps, first + life) - 1;
    p.items.push_back({64 * (1 + rng.below(c.sizes)), first, last, rng.one_in(5) ? 256u : 64u});
    const int64_t toucher = rng.below(c.lanes);
    for (int l = 0; c.lanes > 1 && l < c.lanes; ++l) {
      p.last_on.push_back(l == toucher ? last : static_cast<int32_t>(rng.below(last + 2)) - 1);
      p.known.push_back(first - 1 - static_cast<int32_t>(rng.below(std::min(first + 1, 10))));
    }
  }
  return p;
}

int64_t lowest_place(const PackProblem& p, const std::vector<int32_t>& placed, const std::vector<int64_t>& offsets,
                     int32_t item) {
  const int64_t alignment = p.items[item].alignment;
  const auto free_at = [&](int64_t at) {
    return std::all_of(placed.begin(), placed.end(), [&](int32_t o) {
      return at + p.items[item].size <= offsets[o] || offsets[o] + p.items[o].size <= at || !p.conflict(item, o);
    });
  };
  int64_t lowest = free_at(0) ? 0 : INT64_MAX;
  for (const int32_t o : placed) {  // else it lies on another
    const int64_t at = (offsets[o] + p.items[o].size + alignment - 1) / alignment * alignment;
    if (at < lowest && free_at(at)) lowest = at;
  }
  return lowest;
}

TEST(Placer, FindsTheLowestPlaceThatIsFree) {
  for (const Case& c : kCases) {
    for (uint64_t seed = 0; seed < 2; ++seed) {
      const PackProblem p = problem_of(c, seed);
      Placer placer(p, 0);
      ASSERT_FALSE(placer.has_conflicts());
      std::vector<int32_t> order(p.items.size());
      std::iota(order.begin(), order.end(), 0);
      for (const bool by_size : {false, true}) {
        if (by_size) {
          std::stable_sort(order.begin(), order.end(),
                           [&](int32_t a, int32_t b) { return p.items[a].size > p.items[b].size; });
        }
        std::vector<int64_t> offsets(order.size());
        placer.place(order, 0, Fit::lowest, INT64_MAX, offsets);
        std::vector<int32_t> placed;
        for (const int32_t i : order) {
          ASSERT_EQ(offsets[i], lowest_place(p, placed, offsets, i)) << c.name << ", seed " << seed << ", item " << i;
          placed.push_back(i);
        }
      }
    }
  }
}

TEST(Placer, ListsConflictsOnlyUpToTheLimit) {
  for (const Case& c : kCases) {
    const PackProblem p = problem_of(c, 7);
    int64_t pairs = 0;
    for (int i = 0; i < c.items; ++i) {
      for (int j = 0; j < i; ++j) pairs += p.conflict(i, j);
    }
    EXPECT_TRUE(Placer(p, pairs).has_conflicts()) << c.name;
    EXPECT_FALSE(Placer(p, pairs - 1).has_conflicts()) << c.name;
  }
}

TEST(Placer, ScanAndListPlaceTheSame) {
  for (const Case& c : kCases) {
    const PackProblem p = problem_of(c, 11);
    Placer listing(p, INT64_MAX), scanning(p, 0);
    std::vector<int64_t> listed(p.items.size()), scanned(p.items.size());
    std::vector<int32_t> order = listing.by_birth();
    std::reverse(order.begin(), order.end());
    const int64_t height = scanning.place(order, 0, Fit::lowest, INT64_MAX, scanned);
    listing.place(order, 0, Fit::lowest, INT64_MAX, listed);
    EXPECT_EQ(listing.place(order, 1, Fit::lowest, INT64_MAX, listed), height) << c.name;  // from 1 on it never scans
    EXPECT_EQ(listed, scanned) << c.name;
  }
}

}  // namespace
}  // namespace forethought::planning
