// Lets starts of threads fail, in a test program.
#pragma once

#include <cstdint>

namespace forethought {

// Linking thread_starts_testing.cc puts a form of pthread_create in front of the system's for the whole program. One of
// these two lives at a time.

// The n-th start from now on fails, once; 1 is the next. Starts that oneTBB and OpenMP make are not counted: they end
// the process if no thread comes.
class FailThreadStart {
 public:
  explicit FailThreadStart(int64_t nth);
  ~FailThreadStart();
  FailThreadStart(const FailThreadStart&) = delete;
  FailThreadStart& operator=(const FailThreadStart&) = delete;
  bool triggered() const;
};

// No more than so many threads at a time beside those that there are now, whoever starts them.
class ThreadQuota {
 public:
  explicit ThreadQuota(int64_t most);
  ~ThreadQuota();
  ThreadQuota(const ThreadQuota&) = delete;
  ThreadQuota& operator=(const ThreadQuota&) = delete;
  bool refused() const;  // a start so far
};

}  // namespace forethought
