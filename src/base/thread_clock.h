// The time that the calling thread has had a core.
#pragma once

#include <time.h>

#include <cstdint>

namespace forethought {

inline int64_t thread_cpu_ns() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return t.tv_sec * int64_t{1'000'000'000} + t.tv_nsec;
}

}  // namespace forethought
