// Leases that outlive their pool, statistics at every step, caps, fit, failures, and no heap work in the steady state.
#include "memory/block_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <thread>
#include <vector>

#include "memory/memory_calls_testing.h"
#include "memory/system.h"

namespace forethought {
namespace {

std::shared_ptr<MemoryBudget> budget(int64_t limit = 0) { return std::make_shared<MemoryBudget>(limit); }

TEST(BlockPool, ClassesWasteAtMostAnEighth) {
  int64_t last = 0;
  for (int64_t bytes = 1; bytes < (int64_t{1} << 40); bytes += 1 + bytes / 37) {
    const int64_t got = BlockPool::class_bytes(bytes);
    ASSERT_GE(got, bytes);
    ASSERT_LE(got - bytes, std::max<int64_t>(63, bytes / 8)) << bytes;
    ASSERT_EQ(got % 64, 0);
    ASSERT_GE(got, last);
    ASSERT_EQ(BlockPool::class_bytes(got), got);
    if (got > (32 << 10)) {
      ASSERT_EQ(got % 4096, 0);
    }
    last = got;
  }
}

TEST(BlockPool, ABlockThatCameBackIsTakenAgain) {
  const auto b = budget();
  IoPool pool(b);
  void* first = nullptr;
  {
    const Lease lease = pool.take(1000, "output 'y'").value();
    first = lease.data();
    EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % 64, 0u);
    EXPECT_EQ(lease.capacity(), BlockPool::class_bytes(1000));
    EXPECT_EQ(pool.live_bytes(), lease.capacity());
    EXPECT_EQ(pool.retained_bytes(), 0);
  }
  EXPECT_EQ(pool.live_bytes(), 0);
  EXPECT_EQ(pool.retained_bytes(), BlockPool::class_bytes(1000));
  const Lease again = pool.take(1001, "output 'y'").value();
  EXPECT_EQ(again.data(), first);
  EXPECT_EQ(pool.retained_bytes(), 0);
}

TEST(BlockPool, AZeroSizedOutputGetsAnAddress) {
  IoPool pool(budget());
  EXPECT_NE(pool.take(0, "output 'y'").value().data(), nullptr);
}

TEST(BlockPool, ImpossibleSizesAreRefused) {
  IoPool pool(budget());
  for (int64_t bytes : {int64_t{-1}, std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max(),
                        (int64_t{1} << 60) + 1, int64_t{1} << 59}) {
    const auto lease = pool.take(bytes, "output 'y'");
    ASSERT_FALSE(lease.ok()) << bytes;
    EXPECT_EQ(lease.status().code(), absl::StatusCode::kResourceExhausted);
    EXPECT_NE(lease.status().message().find("output 'y'"), std::string::npos);
  }
  EXPECT_EQ(pool.live_bytes(), 0);
}

TEST(BlockPool, WhatWasFreedLongestAgoGoesFirst) {
  IoPool pool(budget(), 3 * 4096);
  std::vector<Lease> leases;
  for (int i = 0; i < 4; ++i) leases.push_back(pool.take(4096, "test").value());
  void* const newest = leases[3].data();
  void* const second = leases[1].data();
  for (Lease& l : leases) l.release();  // 0 goes when 3 comes back
  EXPECT_EQ(pool.retained_bytes(), 3 * 4096);
  EXPECT_EQ(pool.trim(4096), 2 * 4096);
  EXPECT_EQ(pool.take(4096, "test").value().data(), newest);
  EXPECT_EQ(pool.retained_bytes(), 4096);
  static_cast<void>(second);
  pool.set_retained_cap(0);
  EXPECT_EQ(pool.retained_bytes(), 0);
  { const Lease lease = pool.take(100, "test").value(); }
  EXPECT_EQ(pool.retained_bytes(), 0);
}

TEST(BlockPool, PagesThatANewSizeWouldPushOutServeIt) {
  for (const int64_t kept : {int64_t{1} << 20, int64_t{256} << 10}) {  // they are cut, or grown
    const int64_t wanted = 512 << 10, cap = kept + wanted - 1;
    const auto b = budget();
    IoPool pool(b, cap);
    pool.take(kept, "output 'y'").value().release();
    EXPECT_EQ(pool.retained_bytes(), kept);
    Lease lease = pool.take(wanted, "output 'y'").value();
    EXPECT_EQ(lease.capacity(), wanted);
    EXPECT_EQ(pool.retained_bytes(), 0);
    EXPECT_EQ(b->mapped(), wanted);
    EXPECT_EQ(b->statistics().peak, std::max(kept, wanted));
    std::memset(lease.data(), 1, static_cast<size_t>(wanted));
    lease.release();
    EXPECT_EQ(pool.retained_bytes(), wanted);
    pool.set_retained_cap(kept + wanted);  // there is room for both
    pool.take(kept, "output 'y'").value().release();
    EXPECT_EQ(pool.retained_bytes(), kept + wanted);
  }
}

TEST(SideArena, TakesTheSmallestKeptBlockThatFits) {
  SideArena arena(budget());
  std::vector<Lease> leases;
  for (int64_t bytes : {1 << 20, 1 << 16, 1 << 14}) leases.push_back(arena.take(bytes, "test").value());
  void* const middle = leases[1].data();
  leases.clear();
  EXPECT_EQ(arena.take(40000, "test").value().data(), middle);
  // 1 MiB is more than four times too large for what no other block holds.
  const Lease other = arena.take((1 << 16) + 1, "test").value();
  EXPECT_EQ(arena.retained_bytes(), (1 << 20) + (1 << 16) + (1 << 14));
  IoPool exact(budget());
  { const Lease large = exact.take(65536, "test").value(); }
  EXPECT_EQ(exact.take(40000, "test").value().capacity(), BlockPool::class_bytes(40000));
}

TEST(SideArena, WhatIsOverOfABlockIsKeptNotPadding) {
  constexpr int64_t kLarge = 8 << 20, kSmall = 2160000;
  const int64_t small = BlockPool::class_bytes(kSmall);
  const auto b = budget();
  SideArena arena(b);
  const auto take_small = [&](const void* of) {
    arena.take(kLarge, "a large value").value().release();
    Lease lease = arena.take(kSmall, "a small value").value();
    if (of) {
      EXPECT_EQ(lease.data(), of);
    }
    EXPECT_EQ(lease.capacity(), small);
    std::memset(lease.data(), 7, kSmall);
    const MemoryStatistics s = b->statistics();
    EXPECT_EQ(s.live, kSmall);
    EXPECT_EQ(s.padding, small - kSmall);
    EXPECT_LE(s.padding, kSmall / 8);
    EXPECT_EQ(s.retained, kLarge - small);
    EXPECT_EQ(arena.retained_bytes(), kLarge - small);
    EXPECT_EQ(arena.live().front().bytes, kSmall);
    return lease;
  };
  const auto only_small = [&](const Lease& lease) {
    EXPECT_EQ(arena.retained_bytes(), 0);
    EXPECT_EQ(b->mapped(), small);
    EXPECT_TRUE(
        std::ranges::all_of(std::span(static_cast<const char*>(lease.data()), kSmall), [](char c) { return c == 7; }));
  };
  // It comes back whole, without a system call.
  void* data = nullptr;
  {
    const Lease lease = take_small(nullptr);
    data = lease.data();
  }
  EXPECT_EQ(arena.retained_bytes(), kLarge);
  const int64_t calls = b->statistics().system_calls;
  take_small(data).release();
  EXPECT_EQ(b->statistics().system_calls, calls);
  {
    const Lease lease = take_small(data);
    EXPECT_EQ(arena.trim(), kLarge - small);
    only_small(lease);
  }
  EXPECT_EQ(arena.retained_bytes(), small);
  arena.trim();
  {
    const Lease lease = take_small(nullptr);
    arena.set_retained_cap(kLarge - small - 1);
    only_small(lease);
    arena.set_retained_cap(kRetainPlanned);
  }
  arena.trim();
  {
    const Lease lease = take_small(nullptr);
    const Lease kept = arena.take(kLarge + 1, "another").value();
    b->set_limit(b->mapped() + (4 << 20));
    EXPECT_TRUE(arena.take(5 << 20, "what needs room").ok());  // it is cut off to make room
    b->set_limit(0);
    arena.trim();
    EXPECT_EQ(b->mapped(), small + kept.capacity());
  }
  // Heap blocks cannot be cut, so they serve their own class alone; the same holds for what others bring.
  Lease heap = arena.take(kPageBlock - 64, "test").value();
  data = heap.data();
  heap.release();
  EXPECT_NE(arena.take(kPageBlock / 2, "test").value().data(), data);
}

TEST(SideArena, WhatIsOverIsCutWhileOtherThreadsTakeAndReturn) {
  const auto b = budget();
  const int64_t before = obtained_bytes();
  {
    SideArena arena(b, 3 << 20);
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < 3; ++t) {
      threads.emplace_back([&, t] {
        std::mt19937 random(t);
        std::vector<Lease> held(8);
        for (int i = 0; i < 3000; ++i) {
          Lease& l = held[random() % held.size()];
          l.release();
          const int64_t bytes = kPageBlock + static_cast<int64_t>(random() % (1 << 19));
          l = arena.take(bytes, "test").value();
          static_cast<char*>(l.data())[0] = static_cast<char*>(l.data())[bytes - 1] = static_cast<char>(t);
          if (i % 50 == 0) arena.trim(1 << 20);
        }
      });
    }
    for (auto& t : threads) t.join();
    EXPECT_EQ(b->mapped(), arena.retained_bytes());
    EXPECT_EQ(obtained_bytes() - before, arena.retained_bytes());
    EXPECT_LE(arena.retained_bytes(), 3 << 20);
  }
  EXPECT_EQ(b->mapped(), 0);
  EXPECT_EQ(obtained_bytes(), before);
}

TEST(BlockPool, StatisticsAddUpAtEveryStep) {
  for (const bool side : {false, true}) {
    const auto b = budget();
    const MemoryRole role = side ? MemoryRole::unplanned : MemoryRole::leased;
    const int64_t cap = 300000;
    std::unique_ptr<BlockPool> pool;
    if (side) {
      pool = std::make_unique<SideArena>(b, cap);
    } else {
      pool = std::make_unique<IoPool>(b, cap);
    }
    std::mt19937_64 random(7);
    std::vector<Lease> held;
    int64_t expected_live = 0, asked = 0, peak = 0;
    std::vector<int64_t> sizes;
    for (int step = 0; step < 10000; ++step) {
      const uint64_t dice = random() % 100;
      if (dice < 50 || held.empty()) {
        const auto bytes = static_cast<int64_t>(random() % (uint64_t{1} << (random() % 18)));
        Lease lease = pool->take(bytes, "test").value();
        ASSERT_GE(lease.capacity(), bytes);
        std::memset(lease.data(), step & 0xff, static_cast<size_t>(bytes));
        expected_live += lease.capacity();
        ASSERT_LE(lease.capacity() - bytes, std::max<int64_t>(bytes < 1 ? 64 : 63, bytes / 8));
        asked += bytes;
        sizes.push_back(bytes);
        held.push_back(std::move(lease));
      } else if (dice < 98) {
        const size_t which = random() % held.size();
        std::swap(held[which], held.back());
        std::swap(sizes[which], sizes.back());
        asked -= sizes.back();
        sizes.pop_back();
        expected_live -= held.back().capacity();
        held.pop_back();
      } else {
        const int64_t before = pool->retained_bytes();
        const int64_t keep = static_cast<int64_t>(random() % static_cast<uint64_t>(cap));
        const int64_t trimmed = pool->trim(keep);
        ASSERT_EQ(before - trimmed, pool->retained_bytes());
        ASSERT_LE(pool->retained_bytes(), keep);
      }
      const MemoryStatistics s = b->statistics();
      ASSERT_EQ(pool->live_bytes(), expected_live);
      ASSERT_EQ(pool->live_blocks(), static_cast<int64_t>(held.size()));
      ASSERT_LE(pool->retained_bytes(), cap);
      ASSERT_EQ(s.of(role).live, asked);
      ASSERT_EQ(s.of(role).padding, expected_live - asked);
      ASSERT_EQ(s.of(role).retained, pool->retained_bytes());
      ASSERT_EQ(s.mapped, expected_live + pool->retained_bytes());
      peak = std::max(peak, s.mapped);
      ASSERT_GE(s.peak, peak);
    }
    held.clear();
    pool.reset();
    EXPECT_EQ(b->statistics().mapped, 0);
    EXPECT_EQ(b->statistics().of(role).live, 0);
  }
}

TEST(BlockPool, LeasesOutliveThePoolInAnyDropOrder) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    auto b = budget();
    std::mt19937 random(seed);
    std::vector<Lease> leases;
    {
      IoPool pool(b);
      for (int i = 0; i < 50; ++i) {
        leases.push_back(pool.take(1 + static_cast<int64_t>(random() % 100000), "test").value());
        static_cast<unsigned char*>(leases.back().data())[0] = static_cast<unsigned char>(i);
      }
      for (int i = 0; i < 10; ++i) leases[random() % leases.size()].release();
    }
    int64_t live = 0;
    for (const Lease& l : leases) live += l.capacity();
    EXPECT_EQ(b->statistics().mapped, live);
    std::weak_ptr<MemoryBudget> watched = b;
    b.reset();
    EXPECT_FALSE(watched.expired());  // the leases keep the account
    std::shuffle(leases.begin(), leases.end(), random);
    for (Lease& l : leases) {
      void* const data = l.data();
      BufferRef shared = std::move(l).share();
      const BufferRef copy = shared;
      shared.reset();
      if (copy) static_cast<unsigned char*>(data)[0] = 1;
    }
    EXPECT_TRUE(watched.expired());
  }
}

TEST(BlockPool, LeasesComeBackFromManyThreadsWhileThePoolDies) {
  for (int round = 0; round < 20; ++round) {
    const auto b = budget();
    auto pool = std::make_unique<IoPool>(b, 100000);
    std::vector<std::thread> threads;
    std::atomic<int> ready{0};
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        std::vector<Lease> held;
        for (int i = 0; i < 200; ++i) {
          held.push_back(pool->take(100 * (t + 1) + i, "test").value());
          static_cast<unsigned char*>(held.back().data())[0] = static_cast<unsigned char>(t);
          if (i % 3 == 0) held.erase(held.begin());
        }
        ++ready;
        while (ready.load() < 5) std::this_thread::yield();
        held.clear();
      });
    }
    while (ready.load() < 4) std::this_thread::yield();
    ++ready;
    pool.reset();
    for (auto& t : threads) t.join();
    EXPECT_EQ(b->statistics().mapped, 0);
  }
}

TEST(BlockPool, SteadyTakingAndReturningTouchesNeitherHeapNorSystem) {
  const auto b = budget();
  IoPool io(b);
  SideArena side(b);
  const auto round = [&] {
    Lease a = io.take(4, "test").value(), c = io.take(600000, "test").value();
    Lease d = side.take(30000, "test").value();
    Lease e = io.take(4, "test").value();
    a.release();
  };
  round();
  const int64_t system_before = b->statistics().system_calls;
  MemoryCallRecorder recorder;
  recorder.start();
  for (int i = 0; i < 1000; ++i) round();
  recorder.stop();
  EXPECT_TRUE(recorder.ours().none()) << recorder.first_of_ours();
  EXPECT_EQ(b->statistics().system_calls, system_before);
}

TEST(BlockPool, ALimitNamesWhoNeedsHowMuchAndKeptBlocksGoFirst) {
  const auto b = budget(100 << 10);
  IoPool pool(b);
  { const Lease kept = pool.take(80 << 10, "test").value(); }
  EXPECT_EQ(pool.retained_bytes(), 80 << 10);
  const Lease lease = pool.take(64 << 10, "output 'y'").value();  // only after the kept block went
  EXPECT_EQ(pool.retained_bytes(), 0);
  const auto refused = pool.take(48 << 10, "output 'z'");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  const std::string message(refused.status().message());
  EXPECT_NE(message.find("output 'z' needs 48.0 KiB (49152 bytes)"), std::string::npos) << message;
  EXPECT_NE(message.find("leased 64.0 KiB"), std::string::npos) << message;
  EXPECT_NE(message.find("allow at least 114688 bytes"), std::string::npos) << message;
  b->set_limit(114688);
  EXPECT_TRUE(pool.take(48 << 10, "output 'z'").ok());
}

TEST(BlockPool, EveryFailingRequestGivesAStatus) {
  for (const int64_t bytes : {100, 1 << 20}) {
    bool succeeded = false;
    for (int64_t n = 1; n < 10 && !succeeded; ++n) {
      const auto b = budget();
      IoPool pool(b);
      const FailSystemRequests failing(n);
      const auto lease = pool.take(bytes, "output 'y'");
      succeeded = lease.ok();
      EXPECT_EQ(succeeded, !failing.triggered());
      if (!succeeded) {
        EXPECT_EQ(lease.status().code(), absl::StatusCode::kResourceExhausted);
        EXPECT_EQ(b->statistics().mapped, 0);
        EXPECT_TRUE(pool.take(bytes, "output 'y'").ok());
      }
    }
    EXPECT_TRUE(succeeded);
  }
}

#ifdef __SANITIZE_ADDRESS__
TEST(BlockPoolDeathTest, UseAfterReturnIsSeen) {
  IoPool pool(budget());
  Lease lease = pool.take(1000, "test").value();
  volatile unsigned char* data = static_cast<unsigned char*>(lease.data());
  EXPECT_DEATH(data[1000] = 1, "use-after-poison");
  lease.release();
  EXPECT_DEATH(data[0] = 1, "use-after-poison");
}
#endif

}  // namespace
}  // namespace forethought
