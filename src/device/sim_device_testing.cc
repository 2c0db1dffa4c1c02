#include "device/sim_device_testing.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <random>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace forethought {
namespace {

constexpr int64_t kAlignment = 256;

class Memory {
 public:
  static StatusOr<std::unique_ptr<Memory>> make(int64_t bytes) {
    std::unique_ptr<Memory> m(new Memory);
    m->bytes_ = bytes;
    m->file_ = memfd_create("simulated-device", MFD_CLOEXEC);
    if (m->file_ < 0 || ftruncate(m->file_, bytes) != 0) return exhausted("no file in memory for a simulated device");
    const auto map = [&](int rights) { return mmap(nullptr, bytes, rights, MAP_SHARED, m->file_, 0); };
    m->handed_ = map(PROT_NONE);
    m->inner_ = map(PROT_READ | PROT_WRITE);
    if (m->handed_ == MAP_FAILED || m->inner_ == MAP_FAILED) return exhausted("no addresses for a simulated device");
    m->gaps_[0] = bytes;
    return m;
  }
  ~Memory() {
    for (void* mapped : {handed_, inner_}) {
      if (mapped && mapped != MAP_FAILED) munmap(mapped, static_cast<size_t>(bytes_));
    }
    if (file_ >= 0) close(file_);
  }

  bool owns(const void* p) const { return at(p) >= 0 && at(p) < bytes_; }
  // The bytes behind a handed-out address, for the device's threads; null if [p, p + bytes) is not all inside.
  std::byte* inner(const void* p, int64_t bytes) const {
    const int64_t offset = at(p);
    if (offset < 0 || offset > bytes_ || bytes > bytes_ - offset) return nullptr;
    return static_cast<std::byte*>(inner_) + offset;
  }
  // First fit; -1 without room.
  void* take(int64_t bytes) {
    const int64_t size = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    for (auto gap = gaps_.begin(); gap != gaps_.end(); ++gap) {
      if (gap->second < size) continue;
      const auto [offset, room] = *gap;
      if (room > size) gaps_.emplace(offset + size, room - size);  // the only thing that may fail
      auto block = gaps_.extract(gap);
      block.mapped() = bytes;
      blocks_.insert(std::move(block));
      std::memset(static_cast<std::byte*>(inner_) + offset, 0xcd, static_cast<size_t>(size));
      return static_cast<std::byte*>(handed_) + offset;
    }
    return nullptr;
  }
  // Its bytes as asked for; -1 if there is no such block.
  int64_t give_back(const void* p) {
    const auto block = blocks_.find(at(p));
    if (block == blocks_.end()) return -1;
    const int64_t offset = block->first, bytes = block->second;
    const int64_t size = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    std::memset(static_cast<std::byte*>(inner_) + offset, 0xdd, static_cast<size_t>(size));
    auto freed = blocks_.extract(block);
    freed.mapped() = size;
    auto gap = gaps_.insert(std::move(freed)).position;
    if (const auto next = std::next(gap); next != gaps_.end() && gap->first + gap->second == next->first) {
      gap->second += next->second;
      gaps_.erase(next);
    }
    if (gap != gaps_.begin()) {
      const auto before = std::prev(gap);
      if (before->first + before->second == gap->first) {
        before->second += gap->second;
        gaps_.erase(gap);
      }
    }
    return bytes;
  }

 private:
  Memory() = default;
  int64_t at(const void* p) const { return static_cast<const std::byte*>(p) - static_cast<const std::byte*>(handed_); }

  int64_t bytes_ = 0;
  int file_ = -1;
  void *handed_ = nullptr, *inner_ = nullptr;
  std::map<int64_t, int64_t> gaps_, blocks_;  // offset to bytes
};

class Simulated;

class Allocator final : public DeviceAllocator {
 public:
  explicit Allocator(Simulated& owner) : owner_(owner) {}
  Device device() const override;
  size_t alignment() const override { return kAlignment; }
  int64_t greatest_block() const override;
  StatusOr<void*> allocate(int64_t bytes, std::string_view who) override;
  void free(void* block) override;
  AllocatorStatistics statistics() const override {
    const std::lock_guard lock(mutex_);
    return statistics_;
  }

 private:
  Simulated& owner_;
  mutable std::mutex mutex_;
  AllocatorStatistics statistics_;
};

class Simulated final : public SimDevice {
 public:
  Simulated(const SimDeviceOptions& o, std::unique_ptr<Memory> m)
      : options(o), memory(std::move(m)), allocator_(*this) {}

  Device device() const override { return {DeviceKind::other, MemoryKind::device, options.index}; }
  DeviceAllocator& allocator() override { return allocator_; }
  int lanes() const override { return options.lanes; }
  StatusOr<std::unique_ptr<DeviceStream>> create_stream() override;
  bool is_simulated(Device d) const { return d.kind == DeviceKind::other && d.memory == MemoryKind::device; }
  bool can_copy(Device from, Device to) const override {
    const bool here = to == device() || from == device();
    const Device other = to == device() ? from : to;
    if (from == to) return here;
    return here && (other.is_host() || (to == device() && options.copies_from_other_devices && is_simulated(other)));
  }
  bool can_wait(Device other) const override {
    return other == device() || (options.waits_for_other_devices && is_simulated(other));
  }
  Status copy(const CopyJob& job) override {
    RETURN_IF_ERROR(check(job));
    ++synchronous_copies;
    return move_bytes(job);
  }

  void pause() override { set_paused(true); }
  void resume() override { set_paused(false); }
  void fail_work(int64_t nth) override { fail_work_in = nth; }
  void fail_allocation(int64_t nth) override { fail_allocation_in = nth; }
  void fail_stream(int64_t nth) override { fail_stream_in = nth; }
  void on_work(std::function<void(int64_t)> call) override {
    const std::lock_guard lock(mutex);
    before_work = std::move(call);
  }
  bool owns(const void* address) const override { return memory->owns(address); }
  SimDeviceCounts counts() const override {
    SimDeviceCounts c;
    c.launches = launches;
    c.copies = copies;
    c.copied_bytes = copied_bytes;
    c.synchronous_copies = synchronous_copies;
    c.host_inputs = host_inputs;
    c.event_waits = event_waits;
    c.host_waits = host_waits;
    c.streams = streams;
    c.kept_buffers = kept_buffers;
    c.freed_in_use = freed_in_use;
    return c;
  }

  // Of what the arguments alone tell.
  Status check(const CopyJob& job) const {
    RETURN_IF_ERROR(check_copy(job));
    if (!can_copy(job.from_device, job.to_device)) {
      return unsupported(absl::StrCat("the simulated device ", options.index, " does not copy from ",
                                      to_string(job.from_device), " to ", to_string(job.to_device)));
    }
    if (job.bytes == 0) return absl::OkStatus();
    const bool from_ok = job.from_device != device() || memory->inner(job.from, job.bytes);
    const bool to_ok = job.to_device != device() || memory->inner(job.to, job.bytes);
    if (!from_ok || !to_ok) return invalid("an address of a copy is not of the device it is said to be of");
    return absl::OkStatus();
  }
  Status move_bytes(const CopyJob& job) {
    if (job.bytes == 0) return absl::OkStatus();
    void* to = job.to_device.is_host() ? job.to : inner_of(job.to_device, job.to, job.bytes);
    const void* from = job.from_device.is_host() ? job.from : inner_of(job.from_device, job.from, job.bytes);
    if (!to || !from) return invalid("an address of a copy is not of the device it is said to be of");
    std::memmove(to, from, static_cast<size_t>(job.bytes));
    return absl::OkStatus();
  }

  // Waits where the device is paused; then tells whether this piece of work is to fail.
  Status before_piece(std::mt19937& delays, const std::atomic<bool>& dropped) {
    std::function<void(int64_t)> call;
    int64_t number = 0;
    {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return !paused || dropped.load(); });
      call = before_work;
      number = ++pieces;
    }
    if (dropped.load()) return cancelled("dropped before it began");
    if (options.max_delay_us > 0) {
      std::this_thread::sleep_for(std::chrono::microseconds(delays() % (options.max_delay_us + 1)));
    }
    if (call) call(number);
    if (fail_work_in.load() > 0 && --fail_work_in == 0)
      return internal("the simulated device failed as it was told to");
    return absl::OkStatus();
  }

  const SimDeviceOptions options;
  const std::unique_ptr<Memory> memory;
  std::mutex mutex;  // of what follows, and of pauses
  std::condition_variable changed;
  bool paused = false;
  std::function<void(int64_t)> before_work;
  int64_t pieces = 0;
  std::atomic<int64_t> fail_work_in{0}, fail_allocation_in{0}, fail_stream_in{0};
  std::atomic<int64_t> launches{0}, copies{0}, copied_bytes{0}, synchronous_copies{0}, host_inputs{0}, event_waits{0},
      host_waits{0}, streams{0}, kept_buffers{0}, freed_in_use{0}, pending{0};

 private:
  void set_paused(bool to) {
    {
      const std::lock_guard lock(mutex);
      paused = to;
    }
    changed.notify_all();
  }
  void* inner_of(Device d, const void* p, int64_t bytes);

  Allocator allocator_;
};

// All simulated devices of the process, so that one can reach another's memory as a bus would.
struct Bus {
  std::mutex mutex;
  std::vector<Simulated*> devices;
};
Bus& bus() {
  static Bus b;
  return b;
}

void* Simulated::inner_of(Device d, const void* p, int64_t bytes) {
  if (d == device()) return memory->inner(p, bytes);
  const std::lock_guard lock(bus().mutex);
  for (Simulated* other : bus().devices) {
    if (other->device() == d && other->memory->owns(p)) return other->memory->inner(p, bytes);
  }
  return nullptr;
}

Device Allocator::device() const { return owner_.device(); }
int64_t Allocator::greatest_block() const { return owner_.options.greatest_block; }

StatusOr<void*> Allocator::allocate(int64_t bytes, std::string_view who) {
  if (bytes <= 0)
    return invalid(absl::StrCat(std::string(who), " asks for ", bytes, " bytes; it takes a positive number"));
  const std::lock_guard lock(mutex_);
  const bool counted = owner_.fail_allocation_in.load() > 0 && --owner_.fail_allocation_in == 0;
  const bool fails = counted || (greatest_block() > 0 && bytes > greatest_block());
  void* block = fails ? nullptr : owner_.memory->take(bytes);
  if (!block) {
    return exhausted(absl::StrCat("the simulated device ", owner_.options.index, " has no ", bytes, " bytes for ",
                                  std::string(who), "; ", statistics_.live, " of ", owner_.options.memory,
                                  " are in use"));
  }
  ++statistics_.allocations;
  ++statistics_.live_blocks;
  statistics_.live += bytes;
  statistics_.peak = std::max(statistics_.peak, statistics_.live);
  return block;
}

void Allocator::free(void* block) {
  if (!block) return;
  const std::lock_guard lock(mutex_);
  if (owner_.pending.load() > 0) ++owner_.freed_in_use;
  const int64_t bytes = owner_.memory->give_back(block);
  FT_CHECK(bytes >= 0);
  --statistics_.live_blocks;
  statistics_.live -= bytes;
}

// Where a mark stands; shared by the event, the work that reaches it and the waits for it.
struct Mark {
  std::mutex mutex;
  std::condition_variable changed;
  int64_t recorded = 0, reached = 0;
  Status status;

  void reach(int64_t number, Status with) {
    {
      const std::lock_guard lock(mutex);
      reached = number;
      status = std::move(with);
    }
    changed.notify_all();
  }
  Status wait_for(int64_t number) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return reached >= number; });
    return status;
  }
  int64_t last_recorded() {
    const std::lock_guard lock(mutex);
    return recorded;
  }
};

class Stream;

class Event final : public DeviceEvent {
 public:
  explicit Event(Stream& stream) : stream_(stream) {}
  Status record() override;
  Status wait_on_stream(DeviceStream& stream) override;
  Status wait_on_host() override;

 private:
  Stream& stream_;
  std::shared_ptr<Mark> mark_ = std::make_shared<Mark>();
};

// What a kernel on the device may ask of a run: it works alone, and its outputs are there already.
class DeviceHost final : public RunHost {
 public:
  void parallel_for(int64_t blocks, FunctionRef<void(int64_t, int)> f) override {
    for (int64_t b = 0; b < blocks; ++b) f(b, 0);
  }
  int workers() const override { return 1; }
  StatusOr<void*> output(int, std::span<const int64_t>) override { return refuse(); }
  Status set_output(int, Value) override { return refuse(); }
  StatusOr<Tensor> make_escaping(DType, std::span<const int64_t>) override { return refuse(); }
  StatusOr<Value> escape(int) override { return refuse(); }
  Status run_body(int, std::span<const BodyValue>, std::span<BodyValue>) override { return refuse(); }
  bool cancelled() const override { return false; }

 private:
  static Status refuse() { return unsupported("a kernel on the simulated device cannot call back to the host"); }
};

class Stream final : public DeviceStream {
 public:
  explicit Stream(Simulated& owner)
      : owner_(owner), delays_(owner.options.seed + static_cast<uint32_t>(owner.streams.load())) {
    thread_ = std::thread([this] { work(); });
    ++owner_.streams;
  }
  ~Stream() override {
    drop_pending(cancelled("the stream was destroyed"));
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    changed_.notify_all();
    thread_.join();
    --owner_.streams;
  }

  Device device() const override { return owner_.device(); }
  void* handle() const override { return const_cast<Stream*>(this); }
  StatusOr<std::unique_ptr<DeviceEvent>> create_event() override { return std::make_unique<Event>(*this); }

  Status copy(const CopyJob& job) override {
    RETURN_IF_ERROR(owner_.check(job));
    give({.run = [this, job] {
      RETURN_IF_ERROR(owner_.before_piece(delays_, dropped_));
      ++owner_.copies;
      owner_.copied_bytes += job.bytes;
      return owner_.move_bytes(job);
    }});
    return absl::OkStatus();
  }

  Status launch(const Runnable& kernel, const RunCtx& ctx) override {
    auto call = std::make_shared<Call>();
    RETURN_IF_ERROR(fill(*call, ctx));
    give({.run = [this, call, &kernel] {
      RETURN_IF_ERROR(owner_.before_piece(delays_, dropped_));
      ++owner_.launches;
      return kernel.run(call->ctx);
    }});
    return absl::OkStatus();
  }
  Status call(void (*f)(void* with, const Status& status), void* with) override {
    give({.always = [f, with](const Status& status) { f(with, status); }});
    return absl::OkStatus();
  }

  Status keep(BufferRef buffer) override {
    ++owner_.kept_buffers;
    give({.keeps = std::move(buffer)});
    return absl::OkStatus();
  }
  Status flush() override { return absl::OkStatus(); }
  void drop_pending(Status why) override {
    {
      const std::lock_guard lock(mutex_);
      if (error_.ok() && (!queue_.empty() || busy_)) {
        error_ = std::move(why);
        dropped_ = true;
      }
    }
    {
      const std::lock_guard lock(owner_.mutex);  // so that a stream that is about to pause sees it
    }
    owner_.changed.notify_all();
  }
  Status wait() override {
    ++owner_.host_waits;
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return queue_.empty() && !busy_; });
    dropped_ = false;
    return std::exchange(error_, absl::OkStatus());
  }

  void record(std::shared_ptr<Mark> mark, int64_t number) {
    give({.always = [mark = std::move(mark), number](const Status& status) { mark->reach(number, status); }});
  }
  void wait_for(std::shared_ptr<Mark> mark, int64_t number) {
    give({.run = [this, mark = std::move(mark), number] {
      ++owner_.event_waits;
      return mark->wait_for(number);
    }});
  }
  Simulated& owner() { return owner_; }

 private:
  // One launch: the arguments with the addresses that the device's threads know.
  struct Call {
    std::vector<Arg> args;
    std::vector<std::span<const std::byte>> packed;
    DeviceHost services;
    RunCtx ctx;
  };
  // Work that is left out after an error, or what happens all the same: a mark is reached, a buffer is let go.
  struct Piece {
    std::function<Status()> run;
    std::function<void(const Status& status)> always;
    BufferRef keeps;
  };

  Status fill(Call& call, const RunCtx& ctx) {
    call.ctx = ctx;
    call.ctx.host = &call.services;
    call.args.assign(ctx.inputs.begin(), ctx.inputs.end());
    call.args.insert(call.args.end(), ctx.outputs.begin(), ctx.outputs.end());
    call.packed.assign(ctx.packed.begin(), ctx.packed.end());
    for (size_t i = 0; i < call.args.size(); ++i) {
      Arg& arg = call.args[i];
      if (!arg.present || !arg.data) continue;
      const int64_t bytes = storage_bytes(arg.dtype, arg.layout, arg.dims()).value_or(0);
      std::byte* inner = owner_.memory->inner(arg.data, bytes);
      if (inner) {
        arg.data = inner;
      } else if (i >= ctx.inputs.size() || owner_.memory->owns(arg.data)) {
        return invalid(absl::StrCat("argument ", i, " of a kernel is not all in the simulated device's memory"));
      } else {
        ++owner_.host_inputs;
      }
    }
    call.ctx.inputs = {call.args.data(), ctx.inputs.size()};
    call.ctx.outputs = {call.args.data() + ctx.inputs.size(), ctx.outputs.size()};
    call.ctx.packed = call.packed;
    if (ctx.scratch_data) {
      const auto bytes = static_cast<int64_t>(ctx.scratch_shared + ctx.scratch_per_worker);
      call.ctx.scratch_data = owner_.memory->inner(ctx.scratch_data, bytes);
      if (!call.ctx.scratch_data) return invalid("a kernel's scratch is not in the simulated device's memory");
    }
    return absl::OkStatus();
  }

  void give(Piece piece) {
    {
      const std::lock_guard lock(mutex_);
      queue_.push_back(std::move(piece));
      ++owner_.pending;  // before another thread can take it
    }
    changed_.notify_all();
  }

  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return !queue_.empty() || ends_; });
      if (queue_.empty()) return;
      Piece piece = std::move(queue_.front());
      queue_.pop_front();
      busy_ = true;
      const Status before = error_;
      lock.unlock();
      Status status;
      if (piece.run && before.ok()) status = piece.run();
      if (piece.always) piece.always(before);
      if (piece.keeps) {
        piece.keeps.reset();
        --owner_.kept_buffers;
      }
      piece = Piece();
      --owner_.pending;
      lock.lock();
      busy_ = false;
      if (error_.ok()) error_ = std::move(status);
      if (queue_.empty()) changed_.notify_all();
    }
  }

  Simulated& owner_;
  std::mt19937 delays_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Piece> queue_;
  Status error_;
  std::atomic<bool> dropped_{false};
  bool busy_ = false, ends_ = false;
  std::thread thread_;
};

Status Event::record() {
  int64_t number = 0;
  {
    const std::lock_guard lock(mark_->mutex);
    number = ++mark_->recorded;
  }
  stream_.record(mark_, number);
  return absl::OkStatus();
}

Status Event::wait_on_stream(DeviceStream& stream) {
  auto* waiter = dynamic_cast<Stream*>(&stream);
  if (!waiter || !waiter->owner().can_wait(stream_.device())) {
    return unsupported(absl::StrCat("a stream of ", to_string(stream.device()), " cannot wait for an event of ",
                                    to_string(stream_.device())));
  }
  waiter->wait_for(mark_, mark_->last_recorded());
  return absl::OkStatus();
}

Status Event::wait_on_host() {
  ++stream_.owner().host_waits;
  return mark_->wait_for(mark_->last_recorded());
}

StatusOr<std::unique_ptr<DeviceStream>> Simulated::create_stream() {
  if (fail_stream_in.load() > 0 && --fail_stream_in == 0) return exhausted("the simulated device has no more streams");
  try {
    return std::make_unique<Stream>(*this);
  } catch (const std::system_error& e) {
    return exhausted(absl::StrCat("the simulated device has no more threads: ", e.what()));
  }
}

}  // namespace

StatusOr<std::shared_ptr<SimDevice>> SimDevice::make(const SimDeviceOptions& options) {
  ASSIGN_OR_RETURN(std::unique_ptr<Memory> memory, Memory::make(options.memory));
  std::shared_ptr<Simulated> made(new Simulated(options, std::move(memory)), [](Simulated* device) {
    {
      const std::lock_guard lock(bus().mutex);
      std::erase(bus().devices, device);
    }
    delete device;
  });
  const std::lock_guard lock(bus().mutex);
  bus().devices.push_back(made.get());
  return std::shared_ptr<SimDevice>(std::move(made));
}

}  // namespace forethought
