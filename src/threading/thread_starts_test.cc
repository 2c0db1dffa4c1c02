// Threads that do not start: pools and crews get by with fewer, runners say so, and a later attempt works.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <numeric>
#include <set>
#include <thread>
#include <vector>

#include "threading/crew.h"
#include "threading/runner.h"
#include "threading/thread_starts_testing.h"

namespace forethought {
namespace {

// A loop over blocks, or a crew of tasks that start loops; gives a sum, and how many threads took part.
struct Outcome {
  int64_t sum = 0;
  size_t threads = 0;
};
Outcome loop(Pool& pool) {
  Outcome made;
  std::mutex mutex;
  std::set<std::thread::id> seen;
  std::atomic<int64_t> sum{0};
  for (int repeat = 0; repeat < 5; ++repeat) {
    pool.parallel_for(64, [&](int64_t block, int) {
      sum += block;
      const std::lock_guard lock(mutex);
      seen.insert(std::this_thread::get_id());
    });
  }
  return {sum.load(), seen.size()};
}
Outcome crew(Pool& pool) {
  struct Tasks final : Crew::Work {
    explicit Tasks(Pool& p) : pool(p) {}
    void run_task(int task) noexcept override {
      pool.parallel_for(8, [&](int64_t block, int) { sum += block * task; });
    }
    Pool& pool;
    std::atomic<int64_t> sum{0};
  } tasks(pool);
  Crew all(pool, tasks, 16);
  for (int t = 0; t < 16; ++t) all.add(t);
  all.run();
  return {tasks.sum.load(), 1};
}
constexpr int64_t kLoopSum = int64_t{5} * 64 * 63 / 2, kCrewSum = int64_t{28} * 16 * 15 / 2;

bool all_come_together(Pool& pool) {
  std::atomic<int> arrived{0};
  pool.parallel_for(pool.size(), [&](int64_t, int) {
    ++arrived;
    while (arrived.load() < pool.size()) std::this_thread::yield();
  });
  return arrived.load() == pool.size();
}

bool pools_under_a_quota(int64_t most) {
  const auto right = [](Pool& pool, size_t threads) {
    const Outcome made = loop(pool);
    return made.sum == kLoopSum && made.threads <= threads && crew(pool).sum == kCrewSum;
  };
  {
    const ThreadQuota quota(most);
    Pool first(4), second(3);  // together up to five threads of their own
    const auto had = static_cast<size_t>(most) + 1;
    if (!right(first, std::min<size_t>(had, 4)) || !right(second, std::min<size_t>(had, 3))) return false;
    if ((most < 3 && !quota.refused()) || (most >= 5 && quota.refused())) return false;
  }
  Pool later(4);
  return all_come_together(later);
}

// In a process of its own: oneTBB has no thread yet.
TEST(ThreadStartsDeathTest, APoolGetsByWithTheThreadsThatTheSystemGives) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  for (const int64_t most : {0, 1, 2, 3, 5})
    EXPECT_EXIT(std::exit(pools_under_a_quota(most) ? 17 : 1), testing::ExitedWithCode(17), "") << most << " threads";
}

TEST(ThreadStartsDeathTest, EachStartOfAPoolFailsOnce) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  for (const int64_t n : {1, 2, 3, 4}) {
    EXPECT_EXIT(
        {
          bool right = true;
          {
            const FailThreadStart failing(n);
            Pool pool(4);
            right = right && loop(pool).sum == kLoopSum && crew(pool).sum == kCrewSum;
            right = right && failing.triggered() == (n <= 3);
          }
          Pool later(4);
          std::exit(right && all_come_together(later) ? 17 : 1);
        },
        testing::ExitedWithCode(17), "")
        << n;
  }
}

struct CountingJob final : Runner::Job {
  explicit CountingJob(std::atomic<int>& counter) : ran(counter) {}
  void run() noexcept override { ++ran; }
  void hurry(bool) noexcept override {}
  std::atomic<int>& ran;
};

TEST(ThreadStarts, ARunnerWithoutAThreadSaysSoAndWithOneGetsBy) {
  std::atomic<int> ran{0};
  {
    Runner runner(2);
    {
      const FailThreadStart failing(1);
      const Status status = runner.start(std::make_shared<CountingJob>(ran));
      EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
      EXPECT_THAT(std::string(status.message()), testing::HasSubstr("the system starts no thread for the run"));
    }
    EXPECT_EQ(ran.load(), 0) << "a job that was refused does not run";
    for (int i = 0; i < 10; ++i) {
      const FailThreadStart failing(2);
      EXPECT_TRUE(runner.start(std::make_shared<CountingJob>(ran)).ok());
    }
    const FailThreadStart failing(1);  // one thread is there, or two
    for (int i = 0; i < 10; ++i) EXPECT_TRUE(runner.start(std::make_shared<CountingJob>(ran)).ok());
  }
  EXPECT_EQ(ran.load(), 20);
}

}  // namespace
}  // namespace forethought
