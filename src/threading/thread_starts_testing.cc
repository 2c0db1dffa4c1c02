#include "threading/thread_starts_testing.h"

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <limits>
#include <new>

namespace forethought {
namespace {

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();
std::atomic<int64_t> fail_in{0};  // counts down to the start that fails; 0: none
std::atomic<int64_t> alive{0}, limit{kNoLimit};
std::atomic<bool> refused_one{false};

bool of_a_library(void* caller) {
  Dl_info info{};
  if (!dladdr(caller, &info) || !info.dli_fname) return false;
  return std::strstr(info.dli_fname, "libtbb") || std::strstr(info.dli_fname, "libgomp");
}

struct Start {
  void* (*routine)(void*);
  void* with;
};
struct Leaving {
  ~Leaving() { --alive; }
};
void* run(void* p) {
  const Start start = *static_cast<Start*>(p);
  delete static_cast<Start*>(p);
  const Leaving leaving;
  return start.routine(start.with);
}

using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);

int create(pthread_t* thread, const pthread_attr_t* attributes, void* (*routine)(void*), void* with, void* caller) {
  static const auto system = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
  bool fails = fail_in.load() > 0 && !of_a_library(caller) && --fail_in == 0;
  if (++alive > limit.load()) fails = true;
  int error = EAGAIN;
  if (!fails) {
    auto* const start = new (std::nothrow) Start{routine, with};  // no exception may leave pthread_create
    if (start) error = system(thread, attributes, run, start);
    if (error != 0) delete start;
  }
  if (error != 0) --alive;
  if (fails) refused_one = true;
  return error;
}

}  // namespace

FailThreadStart::FailThreadStart(int64_t nth) {
  refused_one = false;
  fail_in = nth;
}
FailThreadStart::~FailThreadStart() { fail_in = 0; }
bool FailThreadStart::triggered() const { return refused_one; }

ThreadQuota::ThreadQuota(int64_t most) {
  refused_one = false;
  limit = alive + most;
}
ThreadQuota::~ThreadQuota() { limit = kNoLimit; }
bool ThreadQuota::refused() const { return refused_one; }

}  // namespace forethought

// Visible, so that libraries call this one, too.
extern "C" [[gnu::visibility("default")]] int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                                                             void* (*routine)(void*), void* with) noexcept {
  return forethought::create(thread, attributes, routine, with,
                             __builtin_extract_return_addr(__builtin_return_address(0)));
}
