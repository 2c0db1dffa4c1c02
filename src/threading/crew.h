// Tasks that start further tasks, run by the calling thread and whatever threads of the pool are free.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "threading/pool.h"

namespace forethought {

// No thread ever waits inside a task for another task, so any number of threads, one included, gets all of them done.
// Loops that a task starts are split over the pool.
class Crew {
 public:
  class Work {
   public:
    virtual ~Work() = default;
    virtual void run_task(int task) noexcept = 0;
  };
  // `most`: the most tasks that wait at one time (more are fine, but take heap memory).
  Crew(Pool& pool, Work& work, int most);
  ~Crew();  // run() is over
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  // Adds a task: before run(), on the thread that will call it, or from within a task. std::bad_alloc: it was not
  // added.
  void add(int task);
  // Runs all tasks; returns when none is left. std::bad_alloc: some did not run and are forgotten, the others are over.
  // One call at a time. Within a body of a loop, or within another crew's
  // task, all tasks run on the calling thread.
  void run();

 private:
  struct Group;
  void enter(int task) noexcept;

  Pool& pool_;
  Work& work_;
  std::vector<int> waiting_;  // those that no thread may take yet
  std::unique_ptr<Group> group_;
  std::atomic<bool> shared_{false};
  std::atomic<int> handover_{0};  // orders tasks for race checkers, which do not see into oneTBB
};

}  // namespace forethought
