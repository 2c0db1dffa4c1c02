#include "device/lanes.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"

namespace forethought {
namespace {

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// A step on its way through a stream: tells the run which step failed, and is left out when the run ends.
class TellingStep final : public Runnable {
 public:
  void set(LaneRun& run, const LaneStep& step) {
    run_ = &run;
    runnable_ = step.runnable;
    step_ = step.step;
  }
  Status run(RunCtx& ctx) const override {
    if (run_->ending()) return cancelled("the run is ending");
    const int64_t begin = now_ns();
    Status status = runnable_->run(ctx);
    if (!status.ok()) {
      run_->failed(step_, status);
    } else {
      run_->ran(step_, begin, now_ns());
    }
    return status;
  }

 private:
  LaneRun* run_ = nullptr;
  const Runnable* runnable_ = nullptr;
  int32_t step_ = 0;
};

class StreamLanesImpl;

class StreamLane final : public LaneDriver {
 public:
  StreamLane(std::shared_ptr<StreamLanesImpl> owner, std::unique_ptr<DeviceStream> stream)
      : owner_(std::move(owner)), stream_(std::move(stream)) {}
  ~StreamLane() override;

  Status begin(LaneRun& run) override {
    run_ = &run;
    launched_ = 0;
    first_unsure_ = last_given_ = -1;
    return absl::OkStatus();
  }
  Status launch(const LaneStep& step) override;
  Status record(int32_t notification) override;
  bool can_wait_for(const LaneDriver& from) const override;
  Status wait(int32_t notification, LaneDriver& from) override;
  void drop() override { stream_->drop_pending(cancelled("the run is ending")); }
  Status drain() override;

 private:
  struct Mark {
    StreamLane* lane = nullptr;
    int32_t notification = 0;
    int32_t first_step = -1;  // given since the mark before
    std::unique_ptr<DeviceEvent> event;
  };
  // Unless a kernel or another lane told already: all that is known then is that it was step `first` or one after it.
  void tell(int32_t first, const Status& status) {
    if (!status.ok() && !run_->ending()) run_->failed(std::max(first, 0), status);
  }
  const std::shared_ptr<StreamLanesImpl> owner_;
  std::unique_ptr<DeviceStream> stream_;
  LaneRun* run_ = nullptr;
  std::deque<TellingStep> steps_;  // those before launched_ are in use; none moves
  size_t launched_ = 0;
  std::deque<Mark> marks_;  // by notification
  int32_t first_unsure_ = -1, last_given_ = -1;
};

class StreamLanesImpl final : public StreamLanes, public std::enable_shared_from_this<StreamLanesImpl> {
 public:
  explicit StreamLanesImpl(DeviceUse use) : use_(std::move(use)) {}
  ~StreamLanesImpl() override { trim(); }
  Device device() const override { return use_.driver->device(); }
  int lanes() const override { return use_.driver->lanes(); }
  DeviceDriver& driver() override { return *use_.driver; }

  StatusOr<Block> allocate(int64_t bytes, std::string_view who) override {
    if (Kept* kept = take_kept(bytes)) return hand_out(kept);
    auto block = DeviceBlock::take(use_, MemoryRole::planned, bytes, who);
    if (!block.ok() && trim() > 0) block = DeviceBlock::take(use_, MemoryRole::planned, bytes, who);
    if (!block.ok()) return block.status();
    auto fresh = std::make_unique<Kept>(std::move(*block));
    {
      const std::lock_guard lock(mutex_);
      if (kept_.capacity() < made_ + 1) kept_.reserve(2 * (made_ + 1));  // keep() must find room
      ++made_;
    }
    Kept* made = fresh.release();
    made->release = [](BufferHeader* h) {
      auto* kept = static_cast<Kept*>(h);
      const std::shared_ptr<StreamLanesImpl> owner = std::move(kept->owner);  // may be the last that knows of it
      owner->keep(kept);
    };
    {
      const std::lock_guard lock(mutex_);
      went_out(bytes);
    }
    return hand_out(made);
  }
  int64_t trim() override {
    std::vector<Kept*> gone;
    {
      const std::lock_guard lock(mutex_);
      gone.assign(kept_.begin(), kept_.end());  // kept_ keeps its room
      kept_.clear();
      made_ -= gone.size();
      kept_bytes_ = largest_ = 0;
      most_out_ = out_;
    }
    return destroy(gone);
  }
  int64_t retained_bytes() const override {
    const std::lock_guard lock(mutex_);
    return kept_bytes_;
  }

  StatusOr<std::unique_ptr<LaneDriver>> open(int lane) override {
    if (lane < 0 || lane >= lanes()) {
      return internal(absl::StrCat("lane ", lane, " of a device with ", lanes()));
    }
    std::unique_ptr<DeviceStream> stream;
    {
      const std::lock_guard lock(mutex_);
      if (!idle_.empty()) {
        stream = std::move(idle_.back());
        idle_.pop_back();
      }
    }
    if (!stream) {
      ASSIGN_OR_RETURN(stream, use_.driver->create_stream());
    }
    return std::unique_ptr<LaneDriver>(std::make_unique<StreamLane>(shared_from_this(), std::move(stream)));
  }
  void take_back(std::unique_ptr<DeviceStream> stream) {
    const std::lock_guard lock(mutex_);
    try {
      idle_.push_back(std::move(stream));
    } catch (const std::bad_alloc&) {  // then it ends
    }
  }

 private:
  // With an owner while it is out.
  struct Kept : BufferHeader {
    explicit Kept(DeviceBlock b) : block(std::move(b)) {}
    DeviceBlock block;
    std::shared_ptr<StreamLanesImpl> owner;
  };
  Block hand_out(Kept* kept) {
    kept->owner = shared_from_this();
    kept->block.set_live(true);
    return Block{kept->block.data(), kept->block.bytes(), BufferRef(kept)};
  }
  void went_out(int64_t bytes) {  // needs the lock
    largest_ = std::max(largest_, bytes);
    most_out_ = std::max(most_out_, ++out_);
  }
  // The smallest kept block that is large enough, up to four times what is needed.
  Kept* take_kept(int64_t bytes) {
    const std::lock_guard lock(mutex_);
    auto best = kept_.end();
    for (auto it = kept_.begin(); it != kept_.end(); ++it) {
      const int64_t has = (*it)->block.bytes();
      if (has >= bytes && has / 4 <= bytes && (best == kept_.end() || has < (*best)->block.bytes())) best = it;
    }
    if (best == kept_.end()) return nullptr;
    Kept* kept = *best;
    kept_.erase(best);
    kept_bytes_ -= kept->block.bytes();
    went_out(bytes);
    return kept;
  }
  void keep(Kept* kept) {
    kept->block.set_live(false);
    std::vector<Kept*> gone;
    {
      const std::lock_guard lock(mutex_);
      --out_;
      largest_ = std::max(largest_, kept->block.bytes());
      kept_.push_back(kept);
      kept_bytes_ += kept->block.bytes();
      const int64_t cap = largest_ * most_out_ + largest_ * most_out_ / 4;
      while (kept_bytes_ > cap) {
        Kept* const oldest = kept_.front();
        kept_.erase(kept_.begin());
        kept_bytes_ -= oldest->block.bytes();
        --made_;
        try {
          gone.push_back(oldest);
        } catch (const std::bad_alloc&) {  // then it goes with the lock held
          delete oldest;
        }
      }
    }
    destroy(gone);
  }
  static int64_t destroy(const std::vector<Kept*>& gone) {
    int64_t bytes = 0;
    for (Kept* kept : gone) {
      bytes += kept->block.bytes();
      delete kept;
    }
    return bytes;
  }

  const DeviceUse use_;
  mutable Mutex mutex_;
  std::vector<std::unique_ptr<DeviceStream>> idle_;
  std::vector<Kept*> kept_;  // most recently used last
  size_t made_ = 0;          // that are kept or out
  int64_t kept_bytes_ = 0, largest_ = 0, out_ = 0, most_out_ = 0;
};

StreamLane::~StreamLane() {
  marks_.clear();  // events go before their stream
  owner_->take_back(std::move(stream_));
}

Status StreamLane::launch(const LaneStep& step) {
  if (first_unsure_ < 0) first_unsure_ = step.step;
  last_given_ = step.step;
  if (const auto* copy = dynamic_cast<const DeviceCopy*>(step.runnable)) {
    const CopyJob job = copy->job(*step.ctx);
    return job.from == job.to ? absl::OkStatus() : stream_->copy(job);  // the same: the plan made it a view
  }
  if (launched_ == steps_.size()) steps_.emplace_back();
  TellingStep& telling = steps_[launched_++];
  telling.set(*run_, step);
  return stream_->launch(telling, *step.ctx);
}

Status StreamLane::record(int32_t notification) {
  while (marks_.size() <= static_cast<size_t>(notification)) marks_.emplace_back();
  Mark& mark = marks_[notification];
  if (!mark.event) {
    ASSIGN_OR_RETURN(mark.event, stream_->create_event());
  }
  mark.lane = this;
  mark.notification = notification;
  mark.first_step = std::exchange(first_unsure_, -1);
  // An error is told before the event passes it on to other lanes, which could only name steps of theirs.
  RETURN_IF_ERROR(stream_->call(
      [](void* with, const Status& status) {
        auto* mark = static_cast<Mark*>(with);
        mark->lane->tell(mark->first_step, status);
        mark->lane->run_->reached(mark->notification);
      },
      &mark));
  return mark.event->record();
}

bool StreamLane::can_wait_for(const LaneDriver& from) const {
  const auto* other = dynamic_cast<const StreamLane*>(&from);
  return other && owner_->driver().can_wait(other->owner_->device());
}

Status StreamLane::wait(int32_t notification, LaneDriver& from) {
  auto& other = static_cast<StreamLane&>(from);  // can_wait_for() said so
  FT_CHECK(static_cast<size_t>(notification) < other.marks_.size() && other.marks_[notification].event);
  return other.marks_[notification].event->wait_on_stream(*stream_);
}

Status StreamLane::drain() {
  if (!run_) return absl::OkStatus();
  tell(first_unsure_ < 0 ? last_given_ : first_unsure_, stream_->wait());
  run_ = nullptr;
  return absl::OkStatus();
}

}  // namespace

Status DeviceCopy::run(RunCtx&) const {
  return internal(absl::StrCat("a copy from ", to_string(from_), " to ", to_string(to_), " on no lane of either"));
}

CopyJob DeviceCopy::job(const RunCtx& ctx) const {
  const Arg& in = ctx.in(0);
  const int64_t bytes = storage_bytes(in.dtype, in.layout, in.dims()).value_or(0);
  return {in.data, from_, ctx.out(0).data, to_, bytes};
}

std::shared_ptr<StreamLanes> make_stream_lanes(DeviceUse use) {
  return std::make_shared<StreamLanesImpl>(std::move(use));
}

}  // namespace forethought
