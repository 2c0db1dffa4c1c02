// Each task is one of oneTBB's, in the pool's arena; with one thread, a list.
#include "threading/crew.h"

#include <oneapi/tbb/task_group.h>

#include "absl/cleanup/cleanup.h"
#include "threading/pool_inside.h"
#include "threading/thread_scope.h"

namespace forethought {

struct Crew::Group {
  tbb::task_group_context context{tbb::task_group_context::isolated};  // the group outlives what is around a run
  tbb::task_group group{context};
};

Crew::Crew(Pool& pool, Work& work, int most) : pool_(pool), work_(work) {
  waiting_.reserve(static_cast<size_t>(most));
  if (pool.arena_) group_ = std::make_unique<Group>();
}

Crew::~Crew() = default;

void Crew::enter(int task) noexcept {
  static_cast<void>(handover_.load(std::memory_order_acquire));
  const ThreadScope scope;
  const threading::PositionScope position({&pool_, tbb::this_task_arena::current_thread_index(), true});
  work_.run_task(task);
  handover_.fetch_add(1, std::memory_order_release);
}

void Crew::add(int task) {
  if (!shared_.load(std::memory_order_relaxed)) return waiting_.push_back(task);
  handover_.fetch_add(1, std::memory_order_release);
  group_->group.run([this, task] { enter(task); });
}

void Crew::run() {
  if (waiting_.empty()) return;
  // What waits does so for this run alone, also if something is thrown.
  const absl::Cleanup forget = [this] { waiting_.clear(); };
  tbb::task_arena* const arena = !group_ || threading::position().pool ? nullptr : pool_.arena_->get();
  if (!arena) {
    const ThreadScope scope;
    while (!waiting_.empty()) {
      const int task = waiting_.back();
      waiting_.pop_back();
      work_.run_task(task);
    }
    return;
  }
  handover_.fetch_add(1, std::memory_order_release);
  arena->execute([this] {  // on another thread, where all places of the arena are taken
    static_cast<void>(handover_.load(std::memory_order_acquire));
    shared_.store(true, std::memory_order_relaxed);
    const absl::Cleanup end = [this] {
      group_->group.wait();
      shared_.store(false, std::memory_order_relaxed);
      handover_.fetch_add(1, std::memory_order_release);  // last: the caller may end the crew
    };
    for (const int task : waiting_) add(task);
  });
  static_cast<void>(handover_.load(std::memory_order_acquire));
}

}  // namespace forethought
