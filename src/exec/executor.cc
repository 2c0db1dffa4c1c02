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

int64_t and_a_quarter(int64_t bytes) { return bytes + bytes / 4; }

bool has_memory(const Value& v) { return v.is_tensor() && v.tensor().data; }

}  // namespace

Executor::Executor(ExecEnvironment environment)
    : environment_([&] {
        environment.copies = &copies_;
        return std::move(environment);
      }()) {
  idle_frames_.reserve(kIdleFrames + 1);
  set_retention(kRetainPlanned, kRetainPlanned);
}

Executor::~Executor() = default;

StatusOr<Executor::Resources> Executor::acquire(const std::shared_ptr<const Program>& program) {
  Resources r;
  r.bytes = program->slab_bytes;
  {
    const std::lock_guard lock(mutex_);
    const auto frame = std::find_if(idle_frames_.rbegin(), idle_frames_.rend(),
                                    [&](const auto& f) { return f->program() == program.get(); });
    if (frame != idle_frames_.rend()) r.frame = take_at(idle_frames_, std::prev(frame.base()));
    if (!idle_slabs_.empty()) {
      // The one used last is warm, and the frame is likely bound to it; one that is too small grows only if none fits.
      const auto fits = std::find_if(idle_slabs_.rbegin(), idle_slabs_.rend(),
                                     [&](const auto& s) { return s->capacity() >= r.bytes; });
      r.slab = take_at(idle_slabs_, fits != idle_slabs_.rend() ? std::prev(fits.base()) : std::prev(idle_slabs_.end()));
    }
    idle_bytes_ -= (r.slab ? r.slab->capacity() : 0) + (r.frame ? r.frame->slab_bytes() : 0);
    in_use_ += Pages::rounded(r.bytes);
    most_in_use_ = std::max(most_in_use_, in_use_);
    ++runs_;
  }
  if (!r.slab) {
    r.slab = std::make_unique<Slab>(environment_.budget, environment_.slab_options, environment_.slab_source);
  }
  Status status = r.slab->ensure(r.bytes);
  if (!status.ok() && trim() > 0) status = r.slab->ensure(r.bytes);  // what idles may be what is missing
  if (!status.ok()) {
    release(std::move(r), 0);
    return status;
  }
  r.slab->set_in_use(true);
  if (!r.frame) r.frame = std::make_unique<Frame>(environment_, program, 0);
  return r;
}

void Executor::release(Resources r, int64_t handed_out) {
  r.slab->set_in_use(false);
  const bool keeps_frame = r.frame && r.frame->fit();  // lanes that could not be opened may open for the next run
  const int64_t in_bodies = keeps_frame ? r.frame->slab_bytes() : 0;
  Dropped dropped;
  const std::lock_guard lock(mutex_);
  if (handed_out > most_outputs_ || runs_ > most_runs_) {
    most_outputs_ = std::max(most_outputs_, handed_out);
    most_runs_ = std::max(most_runs_, runs_);
    cap_outputs();
  }
  most_in_bodies_ = std::max(most_in_bodies_, in_bodies);
  in_use_ -= Pages::rounded(r.bytes);
  --runs_;
  idle_bytes_ += r.slab->capacity() + in_bodies;
  idle_slabs_.push_back(std::move(r.slab));
  if (keeps_frame) idle_frames_.push_back(std::move(r.frame));
  if (idle_frames_.size() > kIdleFrames) drop_frame(idle_frames_.begin(), &dropped);
  drop_down_to(cap(), &dropped);
}

int64_t Executor::cap() const {
  if (execution_cap_ >= 0) return execution_cap_;
  return and_a_quarter(most_in_use_ + most_in_bodies_ * most_runs_);
}

void Executor::cap_outputs() {
  if (!environment_.io) return;
  const int64_t planned = std::max(kRetainAlways, and_a_quarter(most_outputs_ * most_runs_));
  environment_.io->set_retained_cap(io_cap_ >= 0 ? io_cap_ : planned);
}

void Executor::drop_frame(std::vector<std::unique_ptr<Frame>>::iterator at, Dropped* dropped) {
  idle_bytes_ -= (*at)->slab_bytes();
  dropped->frames.push_back(take_at(idle_frames_, at));
}

void Executor::drop_down_to(int64_t bytes, Dropped* dropped) {
  while (idle_bytes_ > bytes) {
    const auto with_bodies = std::ranges::find_if(idle_frames_, [](const auto& f) { return f->slab_bytes() > 0; });
    if (with_bodies != idle_frames_.end()) {
      drop_frame(with_bodies, dropped);
    } else {
      idle_bytes_ -= idle_slabs_.front()->capacity();
      dropped->slabs.push_back(take_at(idle_slabs_, idle_slabs_.begin()));
    }
  }
}

Status Executor::run(const std::shared_ptr<const Program>& program, std::span<const Value> inputs,
                     std::span<Value> outputs, const ExecOptions& options) {
  ASSIGN_OR_RETURN(Resources r, acquire(program));
  uint64_t given = 0;  // of the first outputs; the rest count as if the run gave them
  for (size_t i = 0; i < std::min<size_t>(outputs.size(), 64); ++i) given |= uint64_t{has_memory(outputs[i])} << i;
  Status status = r.frame->run(r.slab->data(), inputs, outputs, options);
  int64_t handed_out = 0;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (has_memory(outputs[i]) && (i >= 64 || !((given >> i) & 1))) {
      handed_out += BlockPool::class_bytes(outputs[i].tensor().bytes());
    }
  }
  release(std::move(r), handed_out);
  return status;
}

int64_t Executor::trim(int64_t keep) {
  int64_t bytes = 0;
  {
    Dropped dropped;
    const std::lock_guard lock(mutex_);
    const int64_t before = idle_bytes_;
    drop_down_to(keep, &dropped);
    if (keep == 0) {
      while (!idle_frames_.empty()) drop_frame(idle_frames_.begin(), &dropped);
      idle_slabs_.clear();
      most_in_use_ = in_use_;
      most_runs_ = std::max(runs_, 1);
      most_in_bodies_ = 0;
      most_outputs_ = 0;
    }
    bytes = before - idle_bytes_;
  }  // frames end, and with them their lanes
  if (keep == 0)
    for (LaneDevice* device : environment_.devices) bytes += device->trim();
  return bytes;
}

int64_t Executor::retained_bytes() const {
  const std::lock_guard lock(mutex_);
  return idle_bytes_;
}

void Executor::set_retention(int64_t execution, int64_t io) {
  Dropped dropped;
  const std::lock_guard lock(mutex_);
  execution_cap_ = execution;
  io_cap_ = io;
  cap_outputs();
  drop_down_to(cap(), &dropped);
}

}  // namespace forethought
