#include "threading/runner.h"

#include <pthread.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "threading/forks.h"

namespace forethought {

class Runner::Core : public std::enable_shared_from_this<Runner::Core> {
 public:
  explicit Core(int most_threads) : most_threads_(static_cast<size_t>(std::max(most_threads, 1))) {}

  // Whether this is the copy in a process that was forked later. Its threads are not there, whoever holds its lock may
  // be one of them, and they keep it for ever: nothing of it is touched.
  bool inherited() const { return depth_ != fork_depth(); }

  Status start(std::shared_ptr<Job> job) {
    if (inherited()) {
      return invalid(
          "this process was forked after the session's first run_async, and the session's threads are not in it; fork "
          "before, or load a session here for run_async (run works with both)");
    }
    const std::lock_guard lock(mutex_);
    if (closed_) return cancelled("the process exits; no run begins any more");
    if (idle_ == 0 && threads_.size() < most_threads_) {
      try {
        threads_.reserve(most_threads_);  // first: a thread that has begun must find its place
        threads_.emplace_back([core = shared_from_this()] { core->serve(); });
      } catch (const std::system_error& e) {
        if (threads_.empty()) return exhausted(std::string("the system starts no thread for the run: ") + e.what());
      }
    }
    // What begins a job has nobody to tell that there is no memory, so all that it needs is there.
    const size_t jobs = queue_.size() + running_.size() + 1;
    if (running_.capacity() < jobs) running_.reserve(2 * jobs);
    queue_.push_back(std::move(job));
    changed_.notify_one();
    return absl::OkStatus();
  }

  void help(const std::shared_ptr<Job>& job) {
    if (inherited()) return;
    std::unique_lock lock(mutex_);
    if (job->taken_) return;
    queue_.erase(std::ranges::find(queue_, job));
    run(job, lock);
  }

  // Ends all jobs and the threads.
  void finish() {
    if (inherited()) return;
    std::vector<std::thread> threads;
    {
      std::unique_lock lock(mutex_);
      stopping_ = true;
      changed_.notify_all();
      hurry(false);
      wait_for_jobs(lock);
      threads.swap(threads_);
    }
    for (std::thread& t : threads) {
      if (t.get_id() == std::this_thread::get_id()) {
        t.detach();  // it keeps the core alive until it leaves
      } else {
        t.join();
      }
    }
  }

  void close() {
    if (inherited()) return;
    std::unique_lock lock(mutex_);
    closed_ = true;
    hurry(true);
    wait_for_jobs(lock);
  }

 private:
  void hurry(bool exiting) const {
    for (const auto& job : queue_) job->hurry(exiting);
    for (const Running& r : running_) r.job->hurry(exiting);
  }
  void wait_for_jobs(std::unique_lock<Mutex>& lock) {
    const auto own = [](const Running& r) { return r.thread == std::this_thread::get_id(); };  // it ends its runner
    idle_changed_.wait(lock, [&] { return queue_.empty() && std::ranges::all_of(running_, own); });
  }

  void serve() {
    std::unique_lock lock(mutex_);
    for (;;) {
      ++idle_;
      changed_.wait(lock, [&] { return !queue_.empty() || stopping_; });
      --idle_;
      if (queue_.empty()) return;
      const std::shared_ptr<Job> job = std::move(queue_.front());
      queue_.pop_front();
      run(job, lock);
      if (!lock) return;
    }
  }

  // Without the lock afterwards: there is nothing more to do for the thread.
  void run(const std::shared_ptr<Job>& job, std::unique_lock<Mutex>& lock) {
    job->taken_ = true;
    running_.push_back({job, std::this_thread::get_id()});
    lock.unlock();
    job->run();
    if (inherited()) return;  // the job forked, and came here in the new process, too
    lock.lock();
    running_.erase(std::ranges::find(running_, job, &Running::job));
    idle_changed_.notify_all();
  }

  struct Running {
    std::shared_ptr<Job> job;
    std::thread::id thread;
  };

  const size_t most_threads_;
  const int depth_ = fork_depth();
  Mutex mutex_;
  Condition changed_;       // for threads: there is a job, or no more will come
  Condition idle_changed_;  // for those who wait for all jobs
  std::deque<std::shared_ptr<Job>> queue_;
  std::vector<Running> running_;
  std::vector<std::thread> threads_;
  size_t idle_ = 0;
  bool stopping_ = false, closed_ = false;
};

namespace {

// All runners of the process. Never destroyed: threads may outlive static objects.
struct Runners {
  Mutex mutex;
  std::vector<std::weak_ptr<Runner::Core>> cores;
  bool closed = false;

  static Runners& all() {
    static auto* const runners = [] {
      std::atexit([] { all().close(); });
      const auto unlock = [] { all().mutex.unlock(); };
      ::pthread_atfork([] { all().mutex.lock(); }, unlock, unlock);  // no fork while another thread holds it
      return new Runners;
    }();
    return *runners;
  }
  void add(const std::shared_ptr<Runner::Core>& core) {
    {
      const std::lock_guard lock(mutex);
      std::erase_if(cores, [](const auto& c) { return c.expired(); });
      cores.push_back(core);
      if (!closed) return;
    }
    core->close();
  }
  void close() {
    std::vector<std::weak_ptr<Runner::Core>> open;
    {
      const std::lock_guard lock(mutex);
      closed = true;
      open.swap(cores);
    }
    for (const auto& weak : open)
      if (const auto core = weak.lock()) core->close();
  }
};

}  // namespace

Runner::Runner(int most_threads) : core_(std::make_shared<Core>(most_threads)) { Runners::all().add(core_); }

Runner::~Runner() { core_->finish(); }

void Runner::close_all() { Runners::all().close(); }

Status Runner::start(std::shared_ptr<Job> job) { return core_->start(std::move(job)); }

void Runner::help(Core& core, const std::shared_ptr<Job>& job) { core.help(job); }

bool Runner::inherited(const Core& core) { return core.inherited(); }

}  // namespace forethought
