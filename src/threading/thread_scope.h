// Marks the time in which a thread runs kernels, for libraries with settings of their own in each thread.
#pragma once

namespace forethought {

// enter() is called when a thread begins to run kernels and returns what leave() needs to put the thread's own setting
// back (OpenMP's number of threads, say). Neither may throw. Null functions: nothing to do.
struct ThreadHooks {
  int (*enter)() = nullptr;
  void (*leave)(int saved) = nullptr;
};

// Sets the hooks for the process. To be called before the first scope opens; a later call is for scopes to come.
void set_thread_hooks(const ThreadHooks* hooks);  // borrowed for ever: give it a static object

// Opened around every stretch of kernels, on pool threads (by Pool) and on the thread that runs or builds a session.
// Scopes nest; only the outermost one calls the hooks.
class ThreadScope {
 public:
  ThreadScope();
  ~ThreadScope();
  ThreadScope(const ThreadScope&) = delete;
  ThreadScope& operator=(const ThreadScope&) = delete;

 private:
  const ThreadHooks* hooks_ = nullptr;  // those that were called, if any
  int saved_ = 0;
};

}  // namespace forethought
