// Pools of frames and slabs between runs.
#include "exec/executor.h"

#include <algorithm>
#include <utility>

#include "exec/frame.h"

namespace forethought {
namespace {

// Idle frames hold arguments, not payload: about a quarter of a kilobyte a step.
constexpr size_t kIdleFrames = 32;

template <typename T>
T take_at(std::vector<T>& items, typename std::vector<T>::iterator at) {
  T item = std::move(*at);
  items.erase(at);
  return item;
}

}  // namespace

Executor::Executor(ExecEnvironment environment) : environment_(std::move(environment)) {
  idle_frames_.reserve(kIdleFrames + 1);
}

Executor::~Executor() = default;

StatusOr<Executor::Resources> Executor::acquire(const std::shared_ptr<const Program>& program) {
  Resources r;
  const int64_t bytes = program->slab_bytes;
  {
    const std::lock_guard lock(mutex_);
    const auto frame = std::find_if(idle_frames_.rbegin(), idle_frames_.rend(),
                                    [&](const auto& f) { return f->program() == program.get(); });
    if (frame != idle_frames_.rend()) r.frame = take_at(idle_frames_, std::prev(frame.base()));
    if (!idle_slabs_.empty()) {
      // The one used last is warm, and the frame is likely bound to it; one that is too small grows only if none fits.
      const auto fits =
          std::find_if(idle_slabs_.rbegin(), idle_slabs_.rend(), [&](const auto& s) { return s->capacity() >= bytes; });
      r.slab = take_at(idle_slabs_, fits != idle_slabs_.rend() ? std::prev(fits.base()) : std::prev(idle_slabs_.end()));
    }
  }
  if (!r.slab) r.slab = std::make_unique<Slab>(environment_.budget, environment_.slab_options);
  Status status = r.slab->ensure(bytes);
  if (!status.ok() && trim() > 0) status = r.slab->ensure(bytes);  // what idles may be what is missing
  if (!status.ok()) {
    release(std::move(r));
    return status;
  }
  r.slab->set_in_use(true);
  if (!r.frame) r.frame = std::make_unique<Frame>(environment_, program, 0);
  return r;
}

void Executor::release(Resources r) {
  r.slab->set_in_use(false);
  std::unique_ptr<Frame> dropped;  // after the lock is gone
  const std::lock_guard lock(mutex_);
  idle_slabs_.push_back(std::move(r.slab));
  if (!r.frame || !r.frame->fit()) return;  // lanes that could not be opened may open for the next run
  idle_frames_.push_back(std::move(r.frame));
  if (idle_frames_.size() > kIdleFrames) dropped = take_at(idle_frames_, idle_frames_.begin());
}

Status Executor::run(const std::shared_ptr<const Program>& program, std::span<const Value> inputs,
                     std::span<Value> outputs, const ExecOptions& options) {
  ASSIGN_OR_RETURN(Resources r, acquire(program));
  Status status = r.frame->run(r.slab->data(), inputs, outputs, options);
  release(std::move(r));
  return status;
}

int64_t Executor::trim() {
  std::vector<std::unique_ptr<Frame>> frames;
  std::vector<std::unique_ptr<Slab>> slabs;
  {
    const std::lock_guard lock(mutex_);
    frames.swap(idle_frames_);
    slabs.swap(idle_slabs_);
    idle_frames_.reserve(kIdleFrames + 1);
  }
  int64_t bytes = 0;
  for (const auto& slab : slabs) bytes += slab->capacity();
  frames.clear();  // and with them their lanes
  for (LaneDevice* device : environment_.devices) bytes += device->trim();
  return bytes;
}

}  // namespace forethought
