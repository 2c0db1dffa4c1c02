#include "threading/forks.h"

#include <pthread.h>

#include <atomic>

namespace forethought {
namespace {

std::atomic<int> depth{0};

}  // namespace

int fork_depth() {
  static const int registered = ::pthread_atfork(nullptr, nullptr, [] { depth.fetch_add(1); });
  static_cast<void>(registered);
  return depth.load();
}

}  // namespace forethought
