// Which idle slab is taken, and what is kept.
#include "memory/slab_pool.h"

#include <gtest/gtest.h>

#include <vector>

#include "memory/system.h"

namespace forethought {
namespace {

std::unique_ptr<Slab> taken(SlabPool& pool, int64_t pages) {
  auto slab = pool.take(pages * page_size());
  EXPECT_TRUE(slab->ensure(pages * page_size()).ok());
  return slab;
}

// Slabs of so many pages are put there in this order.
void fill(SlabPool& pool, std::vector<int64_t> pages) {
  std::vector<std::unique_ptr<Slab>> out;
  for (const int64_t p : pages) out.push_back(taken(pool, p));
  for (auto& slab : out) pool.give_back(std::move(slab));
}

TEST(SlabPool, TakesTheSmallestThatFitsElseTheLargest) {
  struct Case {
    int64_t asked, capacity_before;
  };
  for (const Case& c : {Case{1, 2}, Case{2, 2}, Case{3, 5}, Case{5, 5}, Case{6, 9}, Case{10, 9}}) {
    const auto account = std::make_shared<MemoryBudget>();
    SlabPool pool(account);
    pool.set_cap(100 * page_size());
    fill(pool, {5, 2, 9});
    EXPECT_EQ(pool.idle_bytes(), 16 * page_size());
    const auto slab = pool.take(c.asked * page_size());
    EXPECT_EQ(slab->capacity(), c.capacity_before * page_size()) << c.asked;
    EXPECT_EQ(pool.idle_bytes(), (16 - c.capacity_before) * page_size());
  }
}

TEST(SlabPool, SizesByTurnsAndAtOnceAreTakenFromTheSystemOnce) {
  const auto account = std::make_shared<MemoryBudget>();
  SlabPool pool(account);
  pool.set_cap(2 * 9 * page_size());
  const auto round = [&] {
    for (const auto& [a, b] : {std::pair{9, 2}, std::pair{2, 9}, std::pair{4, 3}, std::pair{1, 9}}) {
      auto first = taken(pool, a), second = taken(pool, b);
      pool.give_back(std::move(first));
      pool.give_back(std::move(second));
    }
  };
  round();
  const int64_t calls = account->statistics().system_calls;
  for (int i = 0; i < 20; ++i) round();
  EXPECT_EQ(account->statistics().system_calls, calls);
}

TEST(SlabPool, KeepsUpToItsCapAndLetsGoOfWhatWasUsedLongestAgo) {
  const auto account = std::make_shared<MemoryBudget>();
  SlabPool pool(account);
  const auto retained = [&] { return account->statistics().of(MemoryRole::planned).retained / page_size(); };
  fill(pool, {3});
  EXPECT_EQ(retained(), 0);  // nothing is kept without a cap
  pool.set_cap(10 * page_size());
  fill(pool, {3, 4, 5});
  EXPECT_EQ(retained(), 9);
  EXPECT_EQ(pool.trim(20 * page_size()), 0);
  EXPECT_EQ(pool.trim(8 * page_size()), 4 * page_size());
  EXPECT_EQ(retained(), 5);
  pool.set_cap(4 * page_size());
  EXPECT_EQ(retained(), 0);
  EXPECT_EQ(pool.idle_bytes(), 0);
}

}  // namespace
}  // namespace forethought
