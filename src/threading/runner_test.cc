// Runners: jobs, more of them than threads, helping, ending from within, and the end of the process.
#include "threading/runner.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>

namespace forethought {
namespace {

struct LambdaJob final : Runner::Job {
  explicit LambdaJob(std::function<void()> function, std::function<void()> at_exit = {})
      : f(std::move(function)), h(std::move(at_exit)) {}
  void run() noexcept override { f(); }
  void hurry(bool) noexcept override {
    if (h) h();
  }
  std::function<void()> f, h;
};

TEST(Runner, RunsEveryJobOnceAndItsEndWaitsForAll) {
  for (int threads : {1, 2, 4}) {
    std::atomic<int> ran{0};
    {
      Runner runner(threads);
      for (int i = 0; i < 100; ++i) {
        ASSERT_TRUE(runner
                        .start(std::make_shared<LambdaJob>([&] {
                          std::this_thread::yield();
                          ++ran;
                        }))
                        .ok());
      }
    }
    EXPECT_EQ(ran.load(), 100);
  }
}

// The first job waits for the second, which no thread is left for.
TEST(Runner, WhoWaitsForAJobRunsIt) {
  Runner runner(1);
  std::atomic<bool> second_ran{false};
  auto second = std::make_shared<LambdaJob>([&] { second_ran = true; });
  std::atomic<bool> queued{false}, through{false};
  auto first = std::make_shared<LambdaJob>([&] {
    while (!queued) std::this_thread::yield();
    Runner::help(*runner.core(), second);
    through = second_ran.load();
  });
  ASSERT_TRUE(runner.start(first).ok());
  ASSERT_TRUE(runner.start(second).ok());
  queued = true;
  while (!through) std::this_thread::yield();
  Runner::help(*runner.core(), second);  // it ran: nothing happens
}

TEST(Runner, AJobMayEndItsRunner) {
  std::atomic<bool> ended{false};
  auto runner = std::make_unique<Runner>(2);
  Runner& borrowed = *runner;
  std::atomic<int> others{0};
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(borrowed.start(std::make_shared<LambdaJob>([&] { ++others; })).ok());
  ASSERT_TRUE(borrowed
                  .start(std::make_shared<LambdaJob>([&] {
                    runner.reset();
                    ended = true;
                  }))
                  .ok());
  while (!ended) std::this_thread::yield();
  EXPECT_EQ(others.load(), 5);
}

// The exit has to tell the jobs, which never end by themselves, and to get by without those that never began.
TEST(RunnerDeathTest, ExitWithJobsUnderWay) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(
      {
        static std::atomic<bool> hurry{false};
        static auto* const runner = new Runner(2);  // that nobody ends
        static std::atomic<int> begun{0};
        for (int i = 0; i < 5; ++i) {
          static_cast<void>(runner->start(std::make_shared<LambdaJob>(
              [] {
                ++begun;
                while (!hurry) std::this_thread::yield();
              },
              [] { hurry = true; })));
        }
        while (begun < 2) std::this_thread::yield();
        std::exit(17);
      },
      testing::ExitedWithCode(17), "");
}

}  // namespace
}  // namespace forethought
