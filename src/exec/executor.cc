// Pools of frames and slabs between runs.
#include "exec/executor.h"

#include <algorithm>
#include <iterator>
#include <new>
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
    : slabs_(environment.budget, environment.slab_options, environment.slab_source), environment_([&] {
        environment.copies = &copies_;
        environment.slabs = &slabs_;
        return std::move(environment);
      }()) {
  idle_frames_.reserve(kIdleFrames + 1);
  set_retention(kRetainPlanned, kRetainPlanned);
}

Executor::~Executor() = default;

StatusOr<Executor::Resources> Executor::acquire(const std::shared_ptr<const Program>& program) {
  Resources r;
  {
    const std::lock_guard lock(mutex_);
    const auto frame = std::find_if(idle_frames_.rbegin(), idle_frames_.rend(),
                                    [&](const auto& f) { return f->program() == program.get(); });
    if (frame != idle_frames_.rend()) r.frame = take_at(idle_frames_, std::prev(frame.base()));
    ++runs_;
  }
  Status status;
  try {
    r.slab = slabs_.take(program->slab_bytes);
    const auto ensure = [&] {
      return r.slab->ensure(program->slab_bytes, "the execution slab", program->region_bytes);
    };
    status = ensure();
    if (!status.ok() && trim() > 0) status = ensure();  // what idles may be what is missing
    if (status.ok()) {
      r.slab->set_in_use(true);
      if (!r.frame) r.frame = std::make_unique<Frame>(environment_, program, 0);
    }
  } catch (const std::bad_alloc&) {
    status = exhausted("the system has no more memory for a run");
  }
  if (status.ok()) return r;
  release(program, std::move(r), 0);
  return status;
}

void Executor::release(const std::shared_ptr<const Program>& program, Resources r, int64_t io) {
  if (r.slab) r.slab->set_in_use(false);
  const bool keeps_frame = r.frame && r.frame->fit();  // lanes that could not be opened may open for the next run
  const int64_t slabs = Pages::rounded(program->slab_bytes) + (r.frame ? r.frame->give_slabs_back() : 0);
  std::unique_ptr<Frame> dropped;  // ends after the lock
  {
    const std::lock_guard lock(mutex_);
    const int64_t by_turns = turns_.bytes();
    turns_.ran(program.get(), io);
    if (slabs > most_slabs_ || io > most_io_ || runs_ > most_runs_ || turns_.bytes() > by_turns) {
      most_slabs_ = std::max(most_slabs_, slabs);
      most_io_ = std::max(most_io_, io);
      most_runs_ = std::max(most_runs_, runs_);
      set_caps();
    }
    --runs_;
    if (keeps_frame) idle_frames_.push_back(std::move(r.frame));
    if (idle_frames_.size() > kIdleFrames) dropped = take_at(idle_frames_, idle_frames_.begin());
  }
  if (r.slab) slabs_.give_back(std::move(r.slab));
}

Executor::Caps Executor::caps_for(int64_t slabs, int64_t outputs) const {
  Caps c{.slabs = std::max(most_slabs_, slabs),
         .outputs = std::max({most_io_, turns_.bytes(), outputs}),
         .runs = most_runs_,
         .execution_is_set = execution_cap_ >= 0,
         .io_is_set = io_cap_ >= 0};
  c.execution = c.execution_is_set ? execution_cap_ : and_a_quarter(c.slabs * c.runs);
  c.io = c.io_is_set ? io_cap_ : std::max(kRetainAlways, and_a_quarter(c.outputs * c.runs));
  return c;
}

Executor::Caps Executor::caps(int64_t slabs, int64_t outputs) const {
  const std::lock_guard lock(mutex_);
  return caps_for(slabs, outputs);
}

void Executor::set_caps() {
  const Caps caps = caps_for(0, 0);
  slabs_.set_cap(caps.execution);
  if (environment_.io) environment_.io->set_retained_cap(caps.io);
}

// What a run reads at once of streamed weights, as long as the object lives.
class Executor::Window {
 public:
  explicit Window(Executor& executor) : executor_(executor), budget_(*executor.environment_.budget) {}
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;
  ~Window() {
    if (!taken_) return;
    {
      const std::lock_guard lock(executor_.windows_mutex_);
      give_ahead_back();
      (before_ ? before_->next_ : executor_.windows_) = next_;
      if (next_) next_->before_ = before_;
    }
    give_back(bytes_);
  }

  Status take(const Program& program) {
    // Outputs are taken later, and are not to be refused because of what is asked for early.
    int64_t outputs = 0;
    for (const int32_t v : program.outputs) outputs += BlockPool::class_bytes(program.values[v].bytes);
    if (budget_.has_room(program.window_ahead + outputs)) more_ = program.window_ahead - program.window;
    bytes_ = program.window;
    RETURN_IF_ERROR(budget_.reserve(MemoryRole::weights, bytes_ + more_, "the weights that one step reads"));
    budget_.use(MemoryRole::weights, bytes_ + more_, 0);
    taken_ = true;
    const std::lock_guard lock(executor_.windows_mutex_);
    ahead_.store(more_ > 0 || program.window_ahead == program.window, std::memory_order_relaxed);
    next_ = std::exchange(executor_.windows_, this);
    if (next_) next_->before_ = this;
    return absl::OkStatus();
  }
  // With the lock. What the step under way asked for already comes, and goes with the step that reads it.
  void give_ahead_back() {
    ahead_.store(false, std::memory_order_relaxed);
    give_back(std::exchange(more_, 0));
  }
  Window* next() const { return next_; }
  const std::atomic<bool>& ahead() const { return ahead_; }

 private:
  void give_back(int64_t bytes) {
    if (bytes == 0) return;
    budget_.unuse(MemoryRole::weights, bytes, 0);
    budget_.release(MemoryRole::weights, bytes);
  }

  Executor& executor_;
  MemoryBudget& budget_;
  Window *before_ = nullptr, *next_ = nullptr;
  int64_t bytes_ = 0, more_ = 0;  // of one step; of the next one, beside that
  bool taken_ = false;
  std::atomic<bool> ahead_{false};
};

void Executor::give_ahead_back() {
  const std::lock_guard lock(windows_mutex_);
  for (Window* w = windows_; w; w = w->next()) w->give_ahead_back();
}

Status Executor::run(const std::shared_ptr<const Program>& program, std::span<const Value> inputs,
                     std::span<Value> outputs, const ExecOptions& options) {
  if (program->window == 0) return run_resident(program, inputs, outputs, options);
  Window window(*this);
  RETURN_IF_ERROR(window.take(*program));
  ExecOptions how = options;
  how.ahead = &window.ahead();
  return run_resident(program, inputs, outputs, how);
}

Status Executor::run_resident(const std::shared_ptr<const Program>& program, std::span<const Value> inputs,
                              std::span<Value> outputs, const ExecOptions& options) {
  ASSIGN_OR_RETURN(Resources r, acquire(program));
  uint64_t given = 0;  // of the first outputs; the rest count as if the run gave them
  for (size_t i = 0; i < std::min<size_t>(outputs.size(), 64); ++i) given |= uint64_t{has_memory(outputs[i])} << i;
  Status status = r.frame->run(r.slab->place(), inputs, outputs, options);
  if (options.oversized) *options.oversized = !status.ok() && r.slab->excess() + r.frame->slab_excess() > 0;
  int64_t io = 0;  // inputs that were copied or come from earlier runs take blocks, too
  if (environment_.io) {
    for (const Value& v : inputs) {
      if (has_memory(v) && environment_.io->gave(v.tensor().owner)) io += BlockPool::class_bytes(v.tensor().bytes());
    }
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (has_memory(outputs[i]) && (i >= 64 || !((given >> i) & 1))) {
      io += BlockPool::class_bytes(outputs[i].tensor().bytes());
    }
  }
  release(program, std::move(r), io);
  return status;
}

int64_t Executor::trim(int64_t keep) {
  give_ahead_back();
  if (keep == 0) {
    std::vector<std::unique_ptr<Frame>> dropped;  // end after the lock, and with them their lanes
    const std::lock_guard lock(mutex_);
    dropped.reserve(kIdleFrames);
    std::ranges::move(idle_frames_, std::back_inserter(dropped));
    idle_frames_.clear();
    most_runs_ = std::max(runs_, 1);
    most_slabs_ = most_io_ = 0;
    turns_.forget();
  }
  const int64_t bytes = slabs_.trim(keep);
  if (keep == 0)
    for (LaneDevice* device : environment_.devices) device->trim();
  return bytes;
}

void Executor::set_retention(int64_t execution, int64_t io) {
  const std::lock_guard lock(mutex_);
  execution_cap_ = execution;
  io_cap_ = io;
  set_caps();
}

}  // namespace forethought
