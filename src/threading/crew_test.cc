// Crews: every task once, tasks that add tasks, loops within tasks, crews within bodies and beside each other.
#include "threading/crew.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

namespace forethought {
namespace {

struct LambdaWork final : Crew::Work {
  explicit LambdaWork(std::function<void(int)> function) : f(std::move(function)) {}
  void run_task(int task) noexcept override { f(task); }
  std::function<void(int)> f;
};

// Task t adds 2t and 2t + 1: every number below `most` runs once.
void run_tree(Pool& pool, int most, std::vector<std::atomic<int>>& seen) {
  Crew* crew = nullptr;
  LambdaWork work([&](int task) {
    ++seen[task];
    for (int next : {2 * task, 2 * task + 1})
      if (next < most) crew->add(next);
  });
  Crew own(pool, work, most);
  crew = &own;
  for (int repeat = 0; repeat < 3; ++repeat) {
    own.run();  // of nothing
    own.add(1);
    own.run();
    for (int t = 1; t < most; ++t) EXPECT_EQ(seen[t].exchange(0), 1) << t;
  }
}

TEST(Crew, EveryTaskRunsOnceHoweverManyThreadsThereAre) {
  for (int threads : {1, 2, 5}) {
    Pool pool(threads);
    std::vector<std::atomic<int>> seen(300);
    run_tree(pool, 300, seen);
  }
}

TEST(Crew, TasksRunTogetherWhereThreadsAreFree) {
  Pool pool(3);
  std::atomic<int> arrived{0};
  LambdaWork work([&](int) {
    ++arrived;
    while (arrived.load() < 3) std::this_thread::yield();
  });
  Crew crew(pool, work, 3);
  for (int t = 0; t < 3; ++t) crew.add(t);
  crew.run();
  EXPECT_EQ(arrived.load(), 3);
}

TEST(Crew, LoopsOfTasksAreSplitAndNoWorkerServesTwoBlocksOfOne) {
  for (int threads : {1, 2, 4}) {
    Pool pool(threads);
    constexpr int kTasks = 6, kBlocks = 40;
    std::vector<std::atomic<int>> seen(kTasks * kBlocks), busy(kTasks * threads);
    std::atomic<int> faults{0};
    LambdaWork work([&](int task) {
      pool.parallel_for(kBlocks, [&](int64_t block, int worker) {
        if (worker < 0 || worker >= threads || busy[task * threads + worker].fetch_add(1) != 0) ++faults;
        ++seen[task * kBlocks + block];
        pool.parallel_for(3, [&](int64_t, int inner) {
          if (inner != worker) ++faults;
        });
        busy[task * threads + worker].fetch_sub(1);
      });
    });
    Crew crew(pool, work, kTasks);
    for (int repeat = 0; repeat < 50; ++repeat) {
      for (int t = 0; t < kTasks; ++t) crew.add(t);
      crew.run();
      for (auto& s : seen) ASSERT_EQ(s.exchange(0), 1);
    }
    EXPECT_EQ(faults.load(), 0) << threads << " threads";
  }
}

// A thread that waits for the blocks of its loop must not begin another task meanwhile: tasks would nest without end.
TEST(Crew, NoTaskBeginsWithinAnother) {
  Pool pool(2);
  static thread_local int depth = 0;
  std::atomic<int> deepest{0};
  LambdaWork work([&](int) {
    if (++depth > deepest.load()) deepest = depth;
    pool.parallel_for(8, [](int64_t, int) { std::this_thread::yield(); });
    --depth;
  });
  Crew crew(pool, work, 64);
  for (int t = 0; t < 64; ++t) crew.add(t);
  crew.run();
  EXPECT_EQ(deepest.load(), 1);
}

TEST(Crew, WithinABodyOrATaskItStaysOnTheThread) {
  Pool pool(3);
  std::atomic<int> faults{0};
  const auto alone = [&] {
    const auto self = std::this_thread::get_id();
    int ran = 0;
    Crew* crew = nullptr;
    LambdaWork inner([&](int task) {
      ++ran;
      if (std::this_thread::get_id() != self) ++faults;
      if (task > 0) crew->add(task - 1);
    });
    Crew own(pool, inner, 4);
    crew = &own;
    own.add(5);
    own.run();
    if (ran != 6) ++faults;
  };
  pool.parallel_for(4, [&](int64_t, int) { alone(); });
  LambdaWork outer([&](int) { alone(); });
  Crew crew(pool, outer, 4);
  for (int t = 0; t < 4; ++t) crew.add(t);
  crew.run();
  EXPECT_EQ(faults.load(), 0);
}

TEST(Crew, ManyAtOnceShareAPool) {
  Pool pool(2);
  std::vector<std::thread> callers;
  for (int c = 0; c < 6; ++c) {
    callers.emplace_back([&] {
      std::vector<std::atomic<int>> seen(60);
      for (int repeat = 0; repeat < 20; ++repeat) run_tree(pool, 60, seen);
    });
  }
  for (std::thread& t : callers) t.join();
}

}  // namespace
}  // namespace forethought
