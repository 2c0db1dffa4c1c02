#include "device/host_device.h"

#include <cstring>
#include <mutex>
#include <string>
#include <unordered_map>

#include "absl/strings/str_cat.h"
#include "memory/system.h"

namespace forethought {
namespace {

class HostAllocator final : public DeviceAllocator {
 public:
  Device device() const override { return Device{}; }
  size_t alignment() const override { return 64; }
  StatusOr<void*> allocate(int64_t bytes, std::string_view who) override {
    if (bytes <= 0)
      return invalid(absl::StrCat(std::string(who), " asks for ", bytes, " bytes; it takes a positive number"));
    void* block = allocate_block(bytes);
    if (!block) return exhausted(absl::StrCat("the system has no ", bytes, " bytes for ", std::string(who)));
    const std::lock_guard lock(mutex_);
    sizes_[block] = bytes;
    ++statistics_.allocations;
    ++statistics_.live_blocks;
    statistics_.live += bytes;
    statistics_.peak = std::max(statistics_.peak, statistics_.live);
    return block;
  }
  void free(void* block) override {
    if (!block) return;
    int64_t bytes = 0;
    {
      const std::lock_guard lock(mutex_);
      const auto found = sizes_.find(block);
      FT_CHECK(found != sizes_.end());
      bytes = found->second;
      sizes_.erase(found);
      --statistics_.live_blocks;
      statistics_.live -= bytes;
    }
    free_block(block, bytes);
  }
  AllocatorStatistics statistics() const override {
    const std::lock_guard lock(mutex_);
    return statistics_;
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<void*, int64_t> sizes_;
  AllocatorStatistics statistics_;
};

Status copy_on_host(const CopyJob& job) {
  RETURN_IF_ERROR(check_copy(job));
  if (!job.from_device.is_host() || !job.to_device.is_host()) {
    return unsupported(absl::StrCat("the CPU copies within the host, not from ", to_string(job.from_device), " to ",
                                    to_string(job.to_device)));
  }
  if (job.bytes > 0) std::memmove(job.to, job.from, static_cast<size_t>(job.bytes));
  return absl::OkStatus();
}

class HostStream;

// What was reached with which result; a wait looks at it, for the stream has done all that it was given.
class HostEvent final : public DeviceEvent {
 public:
  explicit HostEvent(HostStream& stream) : stream_(stream) {}
  Status record() override;
  Status wait_on_stream(DeviceStream& stream) override;
  Status wait_on_host() override { return reached_; }

 private:
  HostStream& stream_;
  Status reached_;
};

class HostStream final : public DeviceStream {
 public:
  Device device() const override { return Device{}; }
  StatusOr<std::unique_ptr<DeviceEvent>> create_event() override { return std::make_unique<HostEvent>(*this); }
  Status copy(const CopyJob& job) override {
    RETURN_IF_ERROR(check_copy(job));
    if (error_.ok()) error_ = copy_on_host(job);
    return absl::OkStatus();
  }
  Status launch(const Runnable& kernel, const RunCtx& ctx) override {
    RunCtx own = ctx;
    if (error_.ok()) error_ = kernel.run(own);
    return absl::OkStatus();
  }
  Status call(void (*f)(void* with, const Status& status), void* with) override {
    f(with, error_);
    return absl::OkStatus();
  }
  Status keep(BufferRef) override { return absl::OkStatus(); }
  Status flush() override { return absl::OkStatus(); }
  void drop_pending(Status) override {}  // all that was given is done
  Status wait() override { return std::exchange(error_, absl::OkStatus()); }
  const Status& error() const { return error_; }
  void fail(const Status& status) {
    if (error_.ok()) error_ = status;
  }

 private:
  Status error_;
};

Status HostEvent::record() {
  reached_ = stream_.error();
  return absl::OkStatus();
}

Status HostEvent::wait_on_stream(DeviceStream& stream) {
  auto* waiter = dynamic_cast<HostStream*>(&stream);
  if (!waiter) return unsupported(absl::StrCat("a stream of ", to_string(stream.device()), " cannot wait for the CPU"));
  waiter->fail(reached_);
  return absl::OkStatus();
}

class HostDevice final : public DeviceDriver {
 public:
  Device device() const override { return Device{}; }
  DeviceAllocator& allocator() override { return allocator_; }
  StatusOr<std::unique_ptr<DeviceStream>> create_stream() override { return std::make_unique<HostStream>(); }
  bool can_copy(Device from, Device to) const override { return from.is_host() && to.is_host(); }
  Status copy(const CopyJob& job) override { return copy_on_host(job); }

 private:
  HostAllocator allocator_;
};

}  // namespace

std::shared_ptr<DeviceDriver> make_host_device() { return std::make_shared<HostDevice>(); }

}  // namespace forethought
