// The recorder of step times.
#include "exec/profile.h"

#include <atomic>
#include <utility>

#include "exec/program.h"

namespace forethought {
namespace {

uint64_t thread_number() {
  static std::atomic<uint64_t> threads{0};
  thread_local const uint64_t number = threads.fetch_add(1);
  return number;
}

}  // namespace

void ProfileRecorder::on_step(const StepEvent& event) {
  const ProgramStep& step = event.program->steps[event.step];
  const std::lock_guard lock(mutex_);
  entries_.push_back(
      {std::string(step.name), event.step, event.depth, step.node, event.begin_ns, event.end_ns, thread_number()});
}

std::vector<ProfileRecorder::Entry> ProfileRecorder::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(entries_, {});
}

}  // namespace forethought
