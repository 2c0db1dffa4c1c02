// The hooks of the process and the depth of scopes in each thread.
#include "threading/thread_scope.h"

#include <atomic>

namespace forethought {
namespace {

std::atomic<const ThreadHooks*> process_hooks{nullptr};
thread_local int depth = 0;

}  // namespace

void set_thread_hooks(const ThreadHooks* hooks) { process_hooks.store(hooks, std::memory_order_release); }

ThreadScope::ThreadScope() {
  if (depth++ > 0) return;
  hooks_ = process_hooks.load(std::memory_order_acquire);
  if (hooks_ && hooks_->enter) saved_ = hooks_->enter();
}

ThreadScope::~ThreadScope() {
  --depth;
  if (hooks_ && hooks_->leave) hooks_->leave(saved_);
}

}  // namespace forethought
