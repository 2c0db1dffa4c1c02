// Loops of the pool: every block once, worker numbers, nesting, many callers, hooks.
#include "threading/pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <numeric>
#include <thread>
#include <vector>

#include "base/cpu.h"
#include "threading/cancel_flag.h"
#include "threading/thread_scope.h"

namespace forethought {
namespace {

TEST(Pool, SizeIsClampedAndDefaultsToTheAllowedCores) {
  EXPECT_EQ(Pool().size(), std::min(allowed_cores(), Pool::kMaxThreads));
  EXPECT_EQ(Pool(0).size(), Pool().size());
  EXPECT_EQ(Pool(-3).size(), Pool().size());
  EXPECT_EQ(Pool(5).size(), 5);
  EXPECT_EQ(Pool(100000).size(), Pool::kMaxThreads);
}

TEST(Pool, EveryBlockRunsOnceUnderAValidWorker) {
  for (int threads : {1, 2, 3, 8}) {
    Pool pool(threads);
    for (int64_t blocks : {0, 1, 2, 3, 7, 8, 9, 64, 1000}) {
      std::vector<std::atomic<int>> seen(blocks);
      std::vector<std::atomic<int>> busy(threads);
      std::atomic<int> faults{0};
      pool.parallel_for(blocks, [&](int64_t block, int worker) {
        if (worker < 0 || worker >= threads || block < 0 || block >= blocks) {
          ++faults;
          return;
        }
        if (busy[worker].fetch_add(1) != 0) ++faults;
        ++seen[block];
        busy[worker].fetch_sub(1);
      });
      EXPECT_EQ(faults.load(), 0) << threads << " threads, " << blocks << " blocks";
      for (int64_t b = 0; b < blocks; ++b) EXPECT_EQ(seen[b].load(), 1) << "block " << b << " of " << blocks;
    }
  }
}

// Blocks that wait for each other finish only if as many threads run as the pool promises.
TEST(Pool, AsManyThreadsAsAskedForWorkTogether) {
  const int threads = 4;
  Pool pool(threads);
  std::atomic<int> arrived{0};
  pool.parallel_for(threads, [&](int64_t, int) {
    ++arrived;
    while (arrived.load() < threads) std::this_thread::yield();
  });
  EXPECT_EQ(arrived.load(), threads);
}

std::vector<float> partial_sums(Pool& pool) {
  const int64_t blocks = 37, per_block = 1001;
  std::vector<float> sums(blocks);
  pool.parallel_for(blocks, [&](int64_t block, int) {
    float sum = 0;
    for (int64_t i = 0; i < per_block; ++i) sum += std::sin(static_cast<float>(block * per_block + i));
    sums[block] = sum;
  });
  return sums;
}

TEST(Pool, ResultsDoNotDependOnThreads) {
  Pool one(1);
  const std::vector<float> expected = partial_sums(one);
  for (int threads : {2, 4, 8}) {
    Pool pool(threads);
    for (int repeat = 0; repeat < 20; ++repeat) EXPECT_EQ(partial_sums(pool), expected) << threads;
  }
}

TEST(Pool, NestedLoopsRunOnTheThreadOfTheirBody) {
  Pool pool(4), other(2);
  std::vector<std::atomic<int>> seen(6 * 5);
  std::atomic<int> faults{0};
  pool.parallel_for(6, [&](int64_t outer, int worker) {
    const auto self = std::this_thread::get_id();
    pool.parallel_for(5, [&](int64_t inner, int inner_worker) {
      if (std::this_thread::get_id() != self || inner_worker != worker) ++faults;
      ++seen[outer * 5 + inner];
    });
    other.parallel_for(3, [&](int64_t, int inner_worker) {
      if (std::this_thread::get_id() != self || inner_worker >= other.size()) ++faults;
    });
  });
  EXPECT_EQ(faults.load(), 0);
  for (auto& s : seen) EXPECT_EQ(s.load(), 1);
}

TEST(Pool, ManyCallersShareIt) {
  Pool pool(3);
  std::vector<std::thread> callers;
  std::vector<int64_t> totals(8);
  for (int c = 0; c < 8; ++c) {
    callers.emplace_back([&, c] {
      for (int repeat = 0; repeat < 200; ++repeat) {
        std::vector<int64_t> square(50);
        pool.parallel_for(50, [&](int64_t b, int) { square[b] = b * (c + 1); });
        totals[c] += std::accumulate(square.begin(), square.end(), int64_t{0});
      }
    });
  }
  for (auto& t : callers) t.join();
  for (int c = 0; c < 8; ++c) EXPECT_EQ(totals[c], int64_t{200} * 1225 * (c + 1));
}

TEST(Pool, ManyPoolsInTurn) {
  for (int i = 0; i < 30; ++i) {
    Pool pool(2 + i % 3);
    std::atomic<int64_t> sum{0};
    pool.parallel_for(100, [&](int64_t b, int) { sum += b; });
    EXPECT_EQ(sum.load(), 4950);
  }
}

std::atomic<int> entered{0}, left{0}, wrong{0};
thread_local int setting = 7;

TEST(ThreadScope, HooksRunOnEveryThreadOfALoopAndRestoreTheCallersSetting) {
  static const ThreadHooks hooks{[] {
                                   ++entered;
                                   const int saved = setting;
                                   setting = 1;
                                   return saved;
                                 },
                                 [](int saved) {
                                   ++left;
                                   setting = saved;
                                 }};
  set_thread_hooks(&hooks);
  Pool pool(4);
  for (int repeat = 0; repeat < 50; ++repeat) {
    pool.parallel_for(64, [&](int64_t, int) {
      if (setting != 1) ++wrong;
    });
  }
  EXPECT_EQ(wrong.load(), 0);
  EXPECT_EQ(setting, 7);
  EXPECT_EQ(entered.load(), left.load());
  EXPECT_GE(entered.load(), 50);
  entered = left = 0;
  {
    const ThreadScope outer;
    EXPECT_EQ(setting, 1);
    { const ThreadScope inner; }
    EXPECT_EQ(setting, 1);
  }
  EXPECT_EQ(setting, 7);
  EXPECT_EQ(entered.load(), 1);
  EXPECT_EQ(left.load(), 1);
  set_thread_hooks(nullptr);
}

TEST(CancelFlag, CopiesShareOneFlag) {
  CancelFlag flag;
  const CancelFlag copy = flag;
  EXPECT_FALSE(copy.cancelled());
  std::thread([copy] { copy.cancel(); }).join();
  EXPECT_TRUE(flag.cancelled());
  EXPECT_TRUE(flag.raw()->load());
  flag.reset();
  EXPECT_FALSE(copy.cancelled());
}

TEST(CancelFlag, NeverCannotBeSet) {
  const CancelFlag flag = CancelFlag::never();
  flag.cancel();
  EXPECT_FALSE(flag.cancelled());
  EXPECT_EQ(flag.raw(), nullptr);
  flag.reset();
}

TEST(Pool, WhatABodyThrowsComesToTheCaller) {
  for (const int threads : {1, 2, 4}) {
    Pool pool(threads);
    for (const int64_t bad : {0, 3, 7}) {
      std::atomic<int> done{0};
      const auto body = [&](int64_t block, int) {
        if (block == bad) throw std::bad_alloc();
        ++done;
      };
      EXPECT_THROW(pool.parallel_for(8, body), std::bad_alloc) << threads;
      if (threads > 1) {
        EXPECT_EQ(done.load(), 7) << threads;
      }
      done = 0;
      pool.parallel_for(8, [&](int64_t, int) { ++done; });
      EXPECT_EQ(done.load(), 8) << threads;
    }
  }
}

}  // namespace
}  // namespace forethought
