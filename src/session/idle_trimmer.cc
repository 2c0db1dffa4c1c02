#include "session/idle_trimmer.h"

#include <new>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace forethought {

StatusOr<std::unique_ptr<IdleTrimmer>> IdleTrimmer::start(int ms, std::function<void()> trim) {
  std::unique_ptr<IdleTrimmer> t(new IdleTrimmer(ms, std::move(trim)));
  try {
    t->watch_->thread = std::thread([raw = t.get()] { raw->watch(); });
  } catch (const std::system_error& e) {
    return exhausted(absl::StrCat("the thread that gives memory back after ", ms,
                                  " ms without a run cannot start: ", e.what(), "; leave the option at 0"));
  }
  return t;
}

IdleTrimmer::~IdleTrimmer() {
  if (depth_ != fork_depth()) {
    static_cast<void>(watch_.release());
    return;
  }
  if (!watch_->thread.joinable()) return;
  {
    const std::lock_guard lock(watch_->mutex);
    watch_->ending = true;
  }
  watch_->ended.notify_one();
  watch_->thread.join();
}

void IdleTrimmer::watch() {
  int64_t seen = 0, trimmed = 0;
  std::unique_lock lock(watch_->mutex);
  while (!watch_->ended.wait_until(lock, std::chrono::steady_clock::now() + wait_, [&] { return watch_->ending; })) {
    const int64_t runs = runs_.load(std::memory_order_relaxed);
    const bool idle = runs == seen && under_way_.load(std::memory_order_relaxed) == 0;
    if (idle && trimmed != runs) {
      try {
        trim_();
        trimmed = runs;
      } catch (const std::bad_alloc&) {  // for its lists; the next pause tries again
      }
    }
    seen = runs;
  }
}

}  // namespace forethought
