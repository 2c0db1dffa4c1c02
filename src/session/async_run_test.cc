// Runs behind the caller's back: the same bits, callbacks, cancels, handles and sessions dropped at any time, exit.
#include "session/async_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <future>
#include <thread>

#include "session/session_testing.h"
#include "session/small_net_testing.h"

namespace forethought {
namespace {

using testing::HasSubstr;

// A loop that goes on until it is cancelled.
constexpr const char* kEndless = R"(graph(%x: f32[4]) {
  %y = Loop(i64 9223372036854775807, bool true, %x) {
    body: graph(%i: i64[], %c: bool[], %s: f32[4]) {
      %so = Add(%s, 1.0)
      %co = Identity(%c)
      return %co, %so
    }
  }
  return %y
})";

// The same without a step in its body.
constexpr const char* kEndlessOfNothing = R"(graph(%x: f32[4]) {
  %y = Loop(i64 9223372036854775807, bool true, %x) {
    body: graph(%i: i64[], %c: bool[], %s: f32[4]) { return %c, %s }
  }
  return %y
})";

std::vector<std::byte> bytes_of(const std::vector<Value>& values) {
  std::vector<std::byte> all;
  for (const Value& v : values) {
    if (!v.is_tensor()) continue;
    const auto* const data = static_cast<const std::byte*>(v.tensor().data);
    all.insert(all.end(), data, data + v.tensor().bytes());
  }
  return all;
}

AsyncRequest request_for(uint64_t seed) {
  AsyncRequest request;
  request.feeds.emplace_back("x", random_floats({1, 3, 20, 20}, seed));
  return request;
}

std::vector<std::byte> run_now(Session& session, uint64_t seed) {
  std::vector<Value> outputs(session.outputs().size());
  const Status status = session.run_ordered(std::vector{random_floats({1, 3, 20, 20}, seed)}, outputs);
  EXPECT_TRUE(status.ok()) << status;
  return bytes_of(outputs);
}

std::unique_ptr<Session> small_session(int threads = 2) {
  SessionOptions options;
  options.intra_op_threads = threads;
  return session_of(small_net(), options);
}

TEST(AsyncRun, Check33_SameBitsAsARunHoweverManyAreUnderWay) {
  for (const int threads : {1, 2}) {
    const auto session = small_session(threads);
    ASSERT_TRUE(session);
    std::vector<AsyncRun> runs;
    for (uint64_t i = 0; i < 40; ++i) runs.push_back(session->run_async(request_for(i)).value());
    for (uint64_t i = 0; i < 40; ++i) {
      EXPECT_TRUE(runs[i].wait().ok());
      EXPECT_TRUE(runs[i].over());
      EXPECT_EQ(bytes_of(runs[i].take()), run_now(*session, i));
    }
  }
}

TEST(AsyncRun, OutputsByNameAndInMemoryOfTheCaller) {
  const auto session = small_session();
  ASSERT_TRUE(session);
  const std::string name = session->outputs()[1].name;
  AsyncRequest request = request_for(3);
  request.output_names = {name};
  Value memory = random_floats({1, 32, 20, 20}, 0);
  const void* const place = memory.tensor().data;
  request.outputs.push_back(memory);
  const AsyncRun run = session->run_async(std::move(request)).value();
  ASSERT_TRUE(run.wait().ok()) << run.wait();
  ASSERT_EQ(run.outputs().size(), 1u);
  EXPECT_EQ(run.outputs()[0].tensor().data, place);
  const std::vector<std::byte> all = run_now(*session, 3), got = bytes_of(run.outputs());
  EXPECT_TRUE(std::equal(got.begin(), got.end(), all.end() - static_cast<std::ptrdiff_t>(got.size())));
}

TEST(AsyncRun, A16_TheCallbackComesOnceWithTheOutputs) {
  const auto session = small_session();
  ASSERT_TRUE(session);
  std::atomic<int> called{0};
  std::promise<std::vector<std::byte>> promise;
  {
    const auto run = session->run_async(request_for(5), [&](AsyncRun r) {
      ++called;
      EXPECT_TRUE(r.over());
      EXPECT_TRUE(r.wait().ok());
      promise.set_value(bytes_of(r.take()));
    });
    ASSERT_TRUE(run.ok());
  }  // the handle is gone; the run is not
  EXPECT_EQ(promise.get_future().get(), run_now(*session, 5));
  EXPECT_EQ(called.load(), 1);
}

TEST(AsyncRun, ErrorsAreTheHandlesToTell) {
  const auto session = small_session();
  ASSERT_TRUE(session);
  AsyncRequest wrong = request_for(0);
  wrong.feeds[0].first = "y";
  AsyncRun run = session->run_async(std::move(wrong)).value();
  EXPECT_THAT(std::string(run.wait().message()), HasSubstr("no input 'y'"));
  for (const Value& v : run.outputs()) EXPECT_TRUE(v.is_none());
  AsyncRequest bound = request_for(0);  // with memory of the caller's for an output
  bound.feeds[0].first = "y";
  bound.output_names = {session->outputs()[1].name};
  bound.outputs.push_back(random_floats({1, 32, 20, 20}, 0));
  run = session->run_async(std::move(bound)).value();
  EXPECT_FALSE(run.wait().ok());
  for (const Value& v : run.outputs()) EXPECT_TRUE(v.is_none());
  AsyncRequest many = request_for(0);
  many.outputs.resize(7);
  EXPECT_THAT(std::string(session->run_async(std::move(many)).value().wait().message()), HasSubstr("more outputs"));
  EXPECT_TRUE(session->run_async(request_for(0)).value().wait().ok());
}

TEST(AsyncRun, CancelEndsEndlessRunsAndOnesThatHaveNotBegun) {
  SessionOptions as_it_stands;
  as_it_stands.optimization_level = OptimizationLevel::disabled;
  for (const char* text : {kEndless, kEndlessOfNothing}) {
    const auto session = session_of(text, as_it_stands);
    ASSERT_TRUE(session);
    std::vector<AsyncRun> runs;
    for (int i = 0; i < 6; ++i) {  // more than there are threads
      AsyncRequest request;
      request.feeds.emplace_back("x", random_floats({4}, 1));
      runs.push_back(session->run_async(std::move(request)).value());
    }
    EXPECT_FALSE(runs[0].wait_for(std::chrono::milliseconds(5)));
    for (const AsyncRun& run : runs) run.cancel();
    for (const AsyncRun& run : runs) EXPECT_EQ(run.wait().code(), absl::StatusCode::kCancelled);
  }
}

// The outputs go with the last handle, though the thread of the run is not through with its callback.
TEST(AsyncRun, WhatNobodyHoldsIsGivenBackAtOnce) {
  const auto session = small_session();
  ASSERT_TRUE(session);
  const auto leased = [&] { return session->memory_statistics().of(MemoryRole::leased).live; };
  std::promise<void> dropped;
  std::promise<std::pair<int64_t, int64_t>> seen;
  {
    const auto run = session->run_async(request_for(1), [&](AsyncRun r) {
      dropped.get_future().wait();
      const int64_t held = leased();
      { const AsyncRun last = std::move(r); }
      seen.set_value({held, leased()});
    });
    ASSERT_TRUE(run.ok());
  }
  dropped.set_value();
  const auto [held, after] = seen.get_future().get();
  EXPECT_GT(held, 0);
  EXPECT_EQ(after, 0);
}

// Whoever waits runs what no thread has begun: callbacks on all threads would wait for ever otherwise.
TEST(AsyncRun, EveryCallbackMayWaitForARunOfItsOwn) {
  const auto session = small_session();
  ASSERT_TRUE(session);
  std::atomic<int> right{0};
  std::vector<AsyncRun> runs;
  for (uint64_t i = 0; i < 40; ++i) {
    runs.push_back(
        session
            ->run_async(request_for(i),
                        [&, i](AsyncRun) { right += session->run_async(request_for(i)).value().wait().ok(); })
            .value());
  }
  for (const AsyncRun& run : runs) EXPECT_TRUE(run.wait().ok());
  while (right.load() < 40) std::this_thread::yield();
}

// Whatever is dropped first, the inputs stay as long as somebody reads them, and the outputs as long as wanted.
TEST(AsyncRun, AnyOrderOfDestruction) {
  for (const int order : {0, 1, 2}) {
    auto session = small_session();
    ASSERT_TRUE(session);
    const std::vector<std::byte> expected = run_now(*session, 8);
    std::atomic<int> ended{0};
    std::vector<AsyncRun> runs;
    for (int i = 0; i < 8; ++i) {
      runs.push_back(session
                         ->run_async(request_for(8),
                                     [&](AsyncRun r) {
                                       EXPECT_TRUE(r.over());
                                       ++ended;
                                     })
                         .value());
    }
    if (order == 0) runs.clear();
    if (order == 1) {
      EXPECT_TRUE(runs[0].wait().ok());
    }
    session.reset();
    EXPECT_EQ(ended.load(), 8);
    for (const AsyncRun& run : runs) {
      EXPECT_TRUE(run.over());
      const bool ok = run.wait().ok();
      EXPECT_TRUE(ok || run.wait().code() == absl::StatusCode::kCancelled) << run.wait();
      run.cancel();
      EXPECT_EQ(bytes_of(run.outputs()), ok ? expected : std::vector<std::byte>());
    }
  }
}

TEST(AsyncRun, ACallbackMayDropTheSessionAndStartRuns) {
  auto session = small_session();
  ASSERT_TRUE(session);
  std::promise<void> promise;
  ASSERT_TRUE(session
                  ->run_async(request_for(1),
                              [&](AsyncRun) {
                                EXPECT_TRUE(session->run_async(request_for(2)).value().wait().ok());
                                session.reset();
                                promise.set_value();
                              })
                  .ok());
  promise.get_future().wait();
  EXPECT_FALSE(session);
}

// Threads start with the first run, so a process may fork before it. A session that nobody destroys is no trouble.
TEST(AsyncRunDeathTest, ForkBeforeUseAndExitWithRunsUnderWay) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(
      {
        if (const pid_t child = fork(); child != 0) {
          int status = 0;
          waitpid(child, &status, 0);
          _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
        }
        Session* const session = session_of(kEndless).release();
        for (int i = 0; i < 6; ++i) {
          AsyncRequest request;
          request.feeds.emplace_back("x", random_floats({4}, 1));
          if (!session->run_async(std::move(request), [](AsyncRun) { _exit(4); }).ok()) _exit(5);
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        std::exit(17);
      },
      testing::ExitedWithCode(17), "");
}

// Ends with 17 when all that the exit has to do is done. No leaks are looked for: in a forked process what other
// threads held is lost.
[[noreturn]] void fork_after_use() {
  std::atexit([] { _exit(17); });
  SessionOptions options;
  options.idle_trim_ms = 60'000;
#ifdef __SANITIZE_THREAD__  // which lets no thread start in a process that was forked when there were others
  options.intra_op_threads = 1;
#endif
  auto session = session_of(small_net(), options), endless = session_of(kEndless);
  const std::vector<std::byte> expected = run_now(*session, 1);
  AsyncRun over = session->run_async(request_for(1)).value();
  if (!over.wait().ok()) _exit(3);
  AsyncRequest request;
  request.feeds.emplace_back("x", random_floats({4}, 1));
  const AsyncRun goes_on = endless->run_async(std::move(request), [](AsyncRun) { _exit(4); }).value();
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  if (const pid_t child = fork(); child != 0) {
    int status = 0;
    waitpid(child, &status, 0);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
  }
  alarm(100);
  if (run_now(*session, 1) != expected) _exit(5);
  const auto says = [](const Status& status, const char* piece) {
    return std::string(status.message()).find(piece) != std::string::npos;
  };
  if (!says(session->run_async(request_for(1)).status(), "forked after the session's first run_async")) _exit(6);
  if (!says(goes_on.wait(), "goes on in the process that this one was forked from")) _exit(7);
  if (goes_on.over() || goes_on.wait_for(std::chrono::hours(1))) _exit(8);
  if (!over.wait().ok() || bytes_of(over.take()) != expected) _exit(9);
  session.reset();
#ifndef __SANITIZE_THREAD__
  session = session_of(small_net());
  AsyncRun own = session->run_async(request_for(1)).value();
  if (!own.wait().ok() || bytes_of(own.outputs()) != expected) _exit(10);
#endif
  static_cast<void>(endless.release());
  std::exit(1);
}

// Not so after it: the threads stay behind. What needs none goes on in the new process, the rest says why not.
TEST(AsyncRunDeathTest, ForkAfterUse) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(fork_after_use(), testing::ExitedWithCode(17), "");
}

}  // namespace
}  // namespace forethought
