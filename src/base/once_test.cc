// What is done once, by many threads and after an exception.
#include "base/once.h"

#include <gtest/gtest.h>

#include <new>
#include <thread>
#include <vector>

namespace forethought {
namespace {

TEST(Once, ManyThreadsDoItOnceAndSeeIt) {
  for (int round = 0; round < 50; ++round) {
    Once once;
    int done = 0;  // no atomic: a thread that comes later sees it
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&] {
        once.call([&] { ++done; });
        EXPECT_EQ(done, 1);
      });
    for (std::thread& t : threads) t.join();
    EXPECT_TRUE(once.done());
  }
}

TEST(Once, IsTriedAgainAfterAnException) {
  Once once;
  EXPECT_THROW(once.call([] { throw std::bad_alloc(); }), std::bad_alloc);
  EXPECT_FALSE(once.done());
  int done = 0;
  once.call([&] { ++done; });
  once.call([&] { ++done; });
  EXPECT_EQ(done, 1);
  EXPECT_TRUE(once.done());
}

}  // namespace
}  // namespace forethought
