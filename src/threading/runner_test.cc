// Runners: jobs, more of them than threads, helping, ending from within, and the end of the process.
#include "threading/runner.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
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

// Whoever gets through what the first runner has to do at the exit ends with 17, and looks for no leaks: in a forked
// process what other threads held is lost.
void end_well_after_runners() {
  std::atexit([] { _exit(17); });
}

[[noreturn]] void fork_after_a_job(bool in_a_job, bool ends) {
  end_well_after_runners();
  static std::atomic<bool> begun{false}, hurry{false};
  auto* const runner = new Runner(1);
  const auto job = std::make_shared<LambdaJob>(
      [in_a_job] {
        begun = true;
        while (in_a_job && !hurry) std::this_thread::yield();
      },
      [] { hurry = true; });
  static_cast<void>(runner->start(job));
  while (!begun) std::this_thread::yield();
  if (!in_a_job) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  if (const pid_t child = fork(); child != 0) {
    int status = 0;
    waitpid(child, &status, 0);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
  }
  alarm(60);
  const Status refused = runner->start(std::make_shared<LambdaJob>([] { _exit(3); }));
  if (std::string(refused.message()).find("forked") == std::string::npos) _exit(4);
  Runner::help(*runner->core(), job);
  if (ends) delete runner;
#ifndef __SANITIZE_THREAD__  // it lets no thread start in a process that was forked when there were others
  std::atomic<bool> ran{false};
  Runner own(1);
  if (!own.start(std::make_shared<LambdaJob>([&] { ran = true; })).ok()) _exit(5);
  while (!ran) std::this_thread::yield();
#endif
  std::exit(1);
}

// Threads that do not exist cannot be waited for. A thread is in a job or waits for one when the process forks.
TEST(RunnerDeathTest, AForkedProcessIsDoneWithItsRunnerAtOnce) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  for (const bool in_a_job : {false, true}) {
    for (const bool ends : {false, true}) {
      EXPECT_EXIT(fork_after_a_job(in_a_job, ends), testing::ExitedWithCode(17), "") << in_a_job << ends;
    }
  }
}

#ifndef __SANITIZE_THREAD__  // which dies where the last thread of a forked process is another than its first
TEST(RunnerDeathTest, AJobMayFork) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(
      {
        static std::atomic<pid_t> child{-1};
        end_well_after_runners();
        Runner runner(2);
        static_cast<void>(runner.start(std::make_shared<LambdaJob>([] {
          const pid_t forked = fork();
          if (forked == 0) alarm(60);
          child = forked;
        })));
        while (child < 0) std::this_thread::yield();
        int status = 1;
        waitpid(child, &status, 0);
        _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
      },
      testing::ExitedWithCode(17), "");
}
#endif

}  // namespace
}  // namespace forethought
