// Jobs that run behind their caller's back, on a few threads of their own.
#pragma once

#include <atomic>
#include <memory>

#include "base/status.h"

namespace forethought {

// Threads start when jobs need them, never before the first job: a process may fork until then. In one that is forked
// later, a runner of before starts no job, and ends and exits at once. When the process exits,
// jobs that go on are told so and are waited for, before anything that they use is destroyed; later ones are refused.
class Runner {
 public:
  class Job {
   public:
    virtual ~Job() = default;
    virtual void run() noexcept = 0;
    // The runner ends, or the whole process: the job is to end soon. On any thread, before or during run().
    virtual void hurry(bool exiting) noexcept = 0;

   private:
    friend class Runner;
    bool taken_ = false;  // guarded by the runner's lock
  };

  explicit Runner(int most_threads);
  ~Runner();  // hurries all jobs and waits for them, but for one that the calling thread is in
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  // Jobs begin in this order. An error if there is no thread and none can be started, if the process exits, or in one
  // that was forked from the runner's.
  Status start(std::shared_ptr<Job> job);

  // What happens when the process exits, for whoever must have it happen earlier (an interpreter that ends first).
  static void close_all();

  // What lives as long as anybody who knows the runner's jobs.
  class Core;
  std::shared_ptr<Core> core() const { return core_; }
  // Runs a job on the calling thread if no thread has begun it: so whoever waits for a job is never behind others.
  static void help(Core& core, const std::shared_ptr<Job>& job);
  // Whether the jobs are those of the process that this one was forked from: here they never end.
  static bool inherited(const Core& core);

 private:
  std::shared_ptr<Core> core_;
};

}  // namespace forethought
